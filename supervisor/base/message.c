// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/layout.h"

/*
 * One stream for the whole run. It stands on a descriptor of its own (3 or above, closed on exec),
 * so that neither the target inherits it nor a closed stderr makes the log file take its number.
 * Text is collected in the stream's buffer and leaves in large pieces: a table is not torn apart by
 * what the target prints on the same terminal meanwhile.
 *
 * A reader may be slow, and the session's loop may not wait for one. What its thread says is put
 * into a list, which whoever asks writes when he flushes the stream.
 */
static FILE *stream;
static int stream_fd = -1;
static const char *stream_path; /* of --messages */
static FILE *own;		/* stderr, where the stream is standard output; else NULL */
static int lost_why;		/* why the first text was that is lost */
static bool (*divert)(void *ctx, const char *text, size_t len);
static void *divert_ctx;
static int verbosity;
static bool colored;

/* What was said by a thread that does not write, in order: for another one to write. */
struct said {
	struct said *next;
	FILE *to;
	size_t len;
	char text[];
};
#define SAID_MOST (4u << 20) /* bytes; of what is more is said how much it is */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static struct said *said, **said_end = &said;
static size_t said_bytes, said_lost;
/* this thread's message_stream() and message_own(), if it does not write */
static __thread FILE *deferred, *deferred_own;

static int own_descriptor(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return errno == EINVAL ? -EMFILE : -errno; /* RLIMIT_NOFILE is 3 or less */
	return copy;
}

static ssize_t stream_write(void *ctx, const char *text, size_t len)
{
	size_t done = 0;

	(void)ctx;
	if (divert) {
		errno = EINTR;
		return divert(divert_ctx, text, len) ? (ssize_t)len : 0;
	}
	while (done < len) {
		ssize_t n = write(stream_fd, text + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			message_lose(errno);
			return done ? (ssize_t)done : 0; /* as fopencookie(3) wants it */
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int stream_close(void *ctx)
{
	(void)ctx;
	return close(stream_fd);
}

/* 0 or -errno */
static int open_own(void)
{
	int fd = own_descriptor(STDERR_FILENO);

	if (fd == -EBADF)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	own = fd < 0 ? NULL : fdopen(fd, "w");
	if (own)
		return 0;
	if (fd >= 0)
		close(fd);
	return -ENOMEM;
}

static bool is_colored(int fd, int color)
{
	return color == 2 ||
	       (color == 1 && isatty(fd) && (!getenv("TERM") || strcmp(getenv("TERM"), "dumb")));
}

int message_open(const char *path, int fd, int color, int verbose)
{
	int copy, low = -1;
	FILE *f;

	if (path) {
		low = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
		if (low < 0)
			return -errno;
		fd = low;
	}
	copy = own_descriptor(fd);
	if (low >= 0)
		close(low);
	/* stderr is closed: nobody listens, and that is no failure */
	if (copy == -EBADF)
		copy = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (copy < 0)
		return copy == -1 ? -errno : copy;
	f = fopencookie(NULL, "w",
			(cookie_io_functions_t){ .write = stream_write, .close = stream_close });
	if (!f) {
		close(copy);
		return -ENOMEM;
	}
	setvbuf(f, NULL, _IOFBF, 1 << 16);
	message_close();
	stream = f;
	stream_fd = copy;
	stream_path = path;
	lost_why = 0;
	verbosity = verbose;
	if (!path && fd == STDOUT_FILENO && open_own()) {
		message_close();
		return -ENOMEM;
	}
	colored = is_colored(message_own_fd(), color);
	return 0;
}

void message_divert(bool (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
	message_flush();
	divert = fn;
	divert_ctx = ctx;
}

void message_close(void)
{
	if (stream)
		fclose(stream);
	if (own)
		fclose(own);
	stream = own = NULL;
}

/* Where it goes in the end. */
static FILE *stream_now(void) { return stream ? stream : stderr; }
static FILE *own_now(void) { return own ? own : stream_now(); }

FILE *message_stream(void) { return deferred ? deferred : stream_now(); }
FILE *message_own(void) { return deferred_own ? deferred_own : own_now(); }

void message_lose(int err)
{
	int none = 0;

	if (err != EPIPE && err != EINTR) /* any thread may write */
		__atomic_compare_exchange_n(&lost_why, &none, err, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

bool message_is_lost(void)
{
	int why;

	message_flush();
	why = __atomic_load_n(&lost_why, __ATOMIC_RELAXED);
	if (!why || (!own && !stream_path))
		return false;
	escape_printf(stderr, "mtrun: cannot write %s%s%s: %s\n",
		      stream_path ? "'" : "to standard output", stream_path ? stream_path : "",
		      stream_path ? "' (--messages)" : "", strerror(why));
	return true;
}

static void defer(FILE *to, const char *text, size_t len)
{
	struct said *one = malloc(sizeof(*one) + len);

	pthread_mutex_lock(&said_lock);
	if (!one || said_bytes + len > SAID_MOST) {
		said_lost += len;
		free(one);
	} else {
		*one = (struct said){ .to = to, .len = len };
		memcpy(one->text, text, len);
		said_bytes += len;
		*said_end = one;
		said_end = &one->next;
	}
	pthread_mutex_unlock(&said_lock);
}

static ssize_t deferred_write(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	defer(stream_now(), text, len);
	return (ssize_t)len;
}

static ssize_t deferred_own_write(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	defer(own_now(), text, len);
	return (ssize_t)len;
}

int message_defer(void)
{
	deferred = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = deferred_write });
	deferred_own =
		fopencookie(NULL, "w", (cookie_io_functions_t){ .write = deferred_own_write });
	if (deferred && deferred_own)
		return 0;
	message_defer_end();
	return -ENOMEM;
}

void message_defer_end(void)
{
	if (deferred)
		fclose(deferred);
	if (deferred_own)
		fclose(deferred_own);
	deferred = deferred_own = NULL;
}

bool message_deferred(void)
{
	bool any;

	pthread_mutex_lock(&said_lock);
	any = said;
	pthread_mutex_unlock(&said_lock);
	return any;
}

static void flush(FILE *f)
{
	fflush(f);
	clearerr(f);
}

static void write_deferred(void)
{
	struct said *one, *next;
	size_t lost;

	pthread_mutex_lock(&said_lock);
	one = said;
	lost = said_lost;
	said = NULL;
	said_end = &said;
	said_bytes = said_lost = 0;
	pthread_mutex_unlock(&said_lock);
	for (; one; one = next) {
		next = one->next;
		fwrite(one->text, 1, one->len, one->to);
		flush(one->to);
		free(one);
	}
	if (lost)
		message_error("%zu byte%s of messages %s not written in time", lost, plural(lost),
			      lost == 1 ? "was" : "were");
}

void message_flush(void)
{
	flush(message_stream());
	flush(message_own());
	if (!deferred && message_deferred())
		write_deferred();
}

int message_fd(void) { return stream ? stream_fd : STDERR_FILENO; }
int message_own_fd(void) { return own ? fileno(own) : message_fd(); }

/*
 * Of the terminal that mtrun's own text goes to; 0: it goes to none, or to one that does not say.
 */
static unsigned columns(void)
{
	struct winsize size = { 0 };

	return ioctl(message_own_fd(), TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

#define INDENT 7u /* "mtrun: " */

/* ESCAPED behind the prefix; words that the window would cut begin a line of their own under it. */
static void put_folded(FILE *out, char *escaped, unsigned width)
{
	struct layout layout = { .columns = width, .unicode = layout_unicode() };
	size_t at = INDENT;

	while (*escaped) {
		size_t blanks = strspn(escaped, " "), len = blanks + strcspn(escaped + blanks, " ");
		char next = escaped[len];
		size_t word;

		escaped[len] = '\0';
		word = layout_shown_width(&layout, escaped + blanks);
		if (at > INDENT && at + blanks + word > width) {
			putc('\n', out);
			layout_blanks(out, INDENT);
			at = INDENT;
			escaped += blanks;
			len -= blanks;
			blanks = 0;
		}
		fputs(escaped, out);
		at += blanks + word;
		escaped += len;
		*escaped = next;
	}
}

/* To be freed; NULL: out of memory. */
static char *PRINTF(2, 0) compose(bool error, const char *format, va_list args)
{
	char *escaped = NULL, *whole = NULL;
	size_t len;
	unsigned width = columns();
	FILE *f = open_memstream(&escaped, &len);

	if (!f)
		return NULL;
	escape_vprintf(f, format, args);
	f = fclose(f) ? NULL : open_memstream(&whole, &len);
	if (f) {
		fputs(colored && error ? "\033[1;31mmtrun:\033[0m " : "mtrun: ", f);
		if (width > 2 * INDENT)
			put_folded(f, escaped, width);
		else
			fputs(escaped, f);
		putc('\n', f);
		if (fclose(f)) {
			free(whole);
			whole = NULL;
		}
	}
	free(escaped);
	return whole;
}

static void PRINTF(2, 0) line(bool error, const char *format, va_list args)
{
	char *whole = compose(error, format, args);

	if (own)
		message_flush(); /* what was printed comes first */
	if (whole)
		fputs(whole, message_own());
	message_flush();
	free(whole);
}

void message_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line(true, format, args);
	va_end(args);
}

void message_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line(false, format, args);
	va_end(args);
}

void message_verbose(int level, const char *format, ...)
{
	va_list args;

	if (verbosity < level)
		return;
	va_start(args, format);
	line(false, format, args);
	va_end(args);
}
