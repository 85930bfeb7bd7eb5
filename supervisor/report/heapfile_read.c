// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/pattern.h"
#include "report/heapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/outside.h"
#include "ledger/ledger.h"
#include "report/heapfile_import.h"
#include "symbols/symbols.h"

/*
 * The file comes from somewhere: nothing in it is trusted. It is read whole, its checksum is
 * compared, and its lines are taken one by one, in place: strings stay where they are. Everything
 * that is made of it is in proportion to its lines, and a line that is not as mtrun-heap(5) says is
 * an error.
 */
#define FRAMES_MOST 64u /* lines of one address */
/*
 * Lines of all rows' stacks: a few nodes can be those of very many stacks, and what draws trees or
 * writes stacks goes through each from end to end. A million stacks of the default depth have no
 * more.
 */
#define LINES_MOST (128u << 20)
#define SKIP_KNOWN (SKIP_ALLOCATOR | SKIP_NAMESPACE | SKIP_LIBRARY)

struct reader {
	struct heap *h;
	char *at, *end; /* in the line */
	const char **string;
	size_t strings, frames; /* so far; there is room for all */
	bool no_memory;
	bool has_live, has_totals;
	int64_t live_bytes, live_blocks; /* as the file says */
	uint64_t bytes, blocks;		 /* of the rows, without their signs */
	uint64_t lines;			 /* of the rows' stacks */
	char *why;
	size_t len;
};

static int PRINTF(2, 3) wrong(struct reader *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why, r->len, format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- words --------------------------------------------------------------- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* The next word as a number of at most MOST, with the blank or the end behind it. */
static bool take(struct reader *r, int base, uint64_t most, uint64_t *n)
{
	uint64_t v = 0;

	if (digit_of(*r->at) >= base)
		return false;
	for (; digit_of(*r->at) < base; r->at++)
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit_of(*r->at), &v))
			return false;
	if (v > most || (*r->at && *r->at != ' '))
		return false;
	r->at += *r->at == ' ';
	*n = v;
	return true;
}

static bool take_u64(struct reader *r, uint64_t *n) { return take(r, 10, UINT64_MAX, n); }
static bool take_hex(struct reader *r, uint64_t *n) { return take(r, 16, UINT64_MAX, n); }

static bool take_u32(struct reader *r, uint32_t *n)
{
	uint64_t v;

	if (!take(r, 10, UINT32_MAX, &v))
		return false;
	*n = (uint32_t)v;
	return true;
}

static bool take_signed(struct reader *r, int64_t *n)
{
	bool negative = *r->at == '-';
	uint64_t v;

	r->at += negative;
	if (!take(r, 10, PROFILE_SUM_MOST, &v))
		return false;
	*n = negative ? -(int64_t)v : (int64_t)v;
	return true;
}

/* The rest of the line, its escapes taken back in place. NULL: they are wrong. */
static char *take_text(struct reader *r)
{
	char *text = r->at, *to = r->at;

	for (; *r->at; r->at++) {
		int high, low;

		if (*r->at != '\\') {
			*to++ = *r->at;
			continue;
		}
		if (r->at[1] != 'x' || (high = digit_of(r->at[2])) > 15 ||
		    (low = digit_of(r->at[3])) > 15 || !(high | low))
			return NULL;
		*to++ = (char)(high << 4 | low);
		r->at += 3;
	}
	*to = '\0';
	return text;
}

static bool at_end(const struct reader *r) { return r->at == r->end; }

/* ---- lines --------------------------------------------------------------- */

static bool line_pid(struct reader *r)
{
	uint64_t pid;

	if (!take(r, 10, INT32_MAX, &pid))
		return false;
	r->h->facts.pid = (pid_t)pid;
	return at_end(r);
}

static bool line_command(struct reader *r) { return (r->h->facts.command = take_text(r)); }
static bool line_exe(struct reader *r) { return (r->h->facts.exe = take_text(r)); }
static bool line_why(struct reader *r) { return (r->h->facts.why = take_text(r)); }
static bool line_clock(struct reader *r)
{
	return take(r, 10, INT64_MAX, &r->h->facts.clock_ms) && at_end(r);
}
static bool line_elapsed(struct reader *r)
{
	return take(r, 10, INT64_MAX, &r->h->profile.ms) && at_end(r);
}
static bool line_sample(struct reader *r)
{
	return take(r, 10, INT64_MAX, &r->h->facts.sample) && at_end(r);
}
static bool line_peak(struct reader *r)
{
	return take_u64(r, &r->h->facts.peak) && take_u64(r, &r->h->facts.peak_ms) && at_end(r);
}

static bool line_counted(struct reader *r)
{
	const char *kinds = take_text(r);

	if (!kinds)
		return false;
	r->h->facts.counted = (strstr(kinds, "heap") ? LEDGER_COUNT_HEAP : 0) |
			      (strstr(kinds, "mmap") ? LEDGER_COUNT_MMAP : 0);
	return true;
}

static bool line_live(struct reader *r)
{
	r->has_live = true;
	return take_signed(r, &r->live_bytes) && take_signed(r, &r->live_blocks) && at_end(r);
}

static bool line_total(struct reader *r)
{
	uint64_t ignored;

	r->h->profile.has_totals = true;
	return take_u64(r, &ignored) && take_u64(r, &ignored) && take_u64(r, &ignored) && at_end(r);
}

static bool line_limit(struct reader *r)
{
	struct heap_facts *f = &r->h->facts;

	f->limit_hit = true;
	return take_u64(r, &f->request) && take_u64(r, &f->allocated) && take_u64(r, &f->limit) &&
	       take_u32(r, &f->request_stack) && at_end(r);
}

static bool line_before(struct reader *r)
{
	struct preattach_heap *b = &r->h->facts.preattach;

	b->state = PREATTACH_KNOWN;
	return take(r, 10, PROFILE_SUM_MOST, &b->bytes) &&
	       take(r, 10, PROFILE_SUM_MOST, &b->blocks) && at_end(r);
}

static bool line_before_unknown(struct reader *r)
{
	struct preattach_heap *b = &r->h->facts.preattach;
	const char *why = take_text(r);

	b->state = PREATTACH_UNKNOWN;
	snprintf(b->why, sizeof(b->why), "%s", why ? why : "");
	return why;
}

static bool line_mark(struct reader *r)
{
	uint64_t ms;
	char *label;

	if (!take_u64(r, &ms) || !(label = take_text(r)) || strlen(label) >= MARKS_LABEL)
		return false;
	r->no_memory = marks_add(&r->h->marks, ms, label);
	return !r->no_memory;
}

static bool take_build_id(struct reader *r, struct module *m)
{
	if (*r->at == '-') {
		r->at++;
	} else {
		while (m->build_id_len < sizeof(m->build_id) && digit_of(r->at[0]) < 16 &&
		       digit_of(r->at[1]) < 16) {
			m->build_id[m->build_id_len++] =
				(uint8_t)(digit_of(r->at[0]) << 4 | digit_of(r->at[1]));
			r->at += 2;
		}
	}
	return *r->at++ == ' ';
}

static bool line_module(struct reader *r)
{
	struct module m = { .dead = UINT32_MAX };
	uint64_t offset, roles;

	if (!take_hex(r, &m.start) || !take_hex(r, &m.end) || !take_hex(r, &m.text_start) ||
	    !take_hex(r, &m.text_end) || !take_hex(r, &m.bias) || !take_hex(r, &offset) ||
	    !take(r, 16, UINT32_MAX, &roles) || !take_build_id(r, &m))
		return false;
	m.roles = (unsigned)roles;
	m.path = take_text(r);
	r->no_memory = m.path && modules_add(&r->h->modules, &m);
	return m.path && !r->no_memory;
}

static bool line_string(struct reader *r)
{
	const char *text = take_text(r);

	r->string[r->strings++] = text;
	return text;
}

static bool take_string(struct reader *r, const char **text)
{
	uint32_t n;

	if (!take_u32(r, &n) || n > r->strings)
		return false;
	*text = n ? r->string[n - 1] : NULL;
	return true;
}

static bool line_frame(struct reader *r)
{
	struct symbol_frame *f = &r->h->frame[r->frames++];
	uint32_t skip, inlined;

	if (!take_string(r, &f->function) || !take_string(r, &f->file) || !take_u32(r, &f->line) ||
	    !take_u32(r, &f->column) || !take_string(r, &f->module) || !take_hex(r, &f->address) ||
	    !take_u32(r, &skip) || !take_u32(r, &inlined) || inlined > 1)
		return false;
	f->skip = skip & SKIP_KNOWN;
	f->inlined = inlined;
	return f->function && at_end(r);
}

static bool line_node(struct reader *r)
{
	uint32_t id, parent, first, count;
	uint64_t pc;
	int err;

	if (!take_u32(r, &id) || !take_u32(r, &parent) || !take_hex(r, &pc) ||
	    !take_u32(r, &first) || !take_u32(r, &count) || !at_end(r))
		return false;
	if (!first || !count || count > FRAMES_MOST || first > r->frames ||
	    count > r->frames - first + 1)
		return false;
	err = stacks_add(r->h->stacks, id, parent, pc, &r->h->frame[first - 1], count);
	r->no_memory = err == -ENOMEM;
	return !err;
}

static bool line_row(struct reader *r)
{
	struct profile *p = &r->h->profile;
	struct profile_row *row = &p->row[p->count++];
	size_t depth;

	if (!take_u32(r, &row->stack) || !take_signed(r, &row->size) ||
	    !take_signed(r, &row->count))
		return false;
	if (p->has_totals && (!take_u64(r, &row->total_size) || !take_u64(r, &row->total_count) ||
			      !take_u64(r, &row->temporary)))
		return false;
	r->bytes += (uint64_t)(row->size < 0 ? -row->size : row->size);
	r->blocks += (uint64_t)(row->count < 0 ? -row->count : row->count);
	depth = stacks_depth(r->h->stacks, row->stack);
	r->lines += depth;
	return at_end(r) && r->bytes <= PROFILE_SUM_MOST && r->blocks <= PROFILE_SUM_MOST &&
	       (!row->stack || depth);
}

static const struct {
	const char *word;
	bool (*take)(struct reader *r);
} kinds[] = {
	{ "r", line_row },	     { "n", line_node },
	{ "f", line_frame },	     { "s", line_string },
	{ "module", line_module },   { "mark", line_mark },
	{ "pid", line_pid },	     { "command", line_command },
	{ "exe", line_exe },	     { "why", line_why },
	{ "clock", line_clock },     { "elapsed", line_elapsed },
	{ "counted", line_counted }, { "sample", line_sample },
	{ "live", line_live },	     { "total", line_total },
	{ "peak", line_peak },	     { "limit", line_limit },
	{ "before", line_before },   { "before_unknown", line_before_unknown },
};

/* TEXT: a line without its `# `. What is not known is passed over. */
static bool take_line(struct reader *r, char *text, char *end)
{
	size_t word = strcspn(text, " ");

	if (!text[word])
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strlen(kinds[i].word) != word || memcmp(text, kinds[i].word, word))
			continue;
		r->at = text + word + 1;
		r->end = end;
		return kinds[i].take(r);
	}
	return true;
}

/* ---- the whole ----------------------------------------------------------- */

static const char beginning[] = "heap profile: ", second_part[] = "\n# mtrun heap ",
		  last_line[] = "\n# end ";

static bool begins(const char *at, const char *end, const char *text)
{
	size_t len = strlen(text);

	return (size_t)(end - at) >= len && !memcmp(at, text, len);
}

/* Whether it is whole; *END: of its lines, where `# end` begins. */
static int check(struct reader *r, char *text, size_t size, char **end)
{
	const size_t tail = sizeof(last_line) - 1 + 8 + 1;
	uint64_t crc;

	if (!begins(text, text + size, beginning))
		return wrong(r, "it is not a .heap file");
	if (size < tail || memcmp(text + size - tail, last_line, sizeof(last_line) - 1) ||
	    text[size - 1] != '\n')
		return wrong(r, "it is cut off");
	text[size - 1] = '\0';
	r->at = text + size - 9;
	*end = text + size - tail + 1;
	if (!take_hex(r, &crc) || *r->at ||
	    crc != (crc32(0, (const Bytef *)text, (uInt)(*end - text)) & UINT32_MAX))
		return wrong(r, "it is damaged: its checksum is not that of what is in it");
	if (memchr(text, '\0', (size_t)(*end - text)))
		return wrong(r, "it is damaged: there are zero bytes in it");
	return 0;
}

/* Room for all lines of the second part, AT to END. */
static int make_room(struct reader *r, const char *at, const char *end)
{
	size_t strings = 0, frames = 0, rows = 0;

	for (; at < end; at = memchr(at, '\n', (size_t)(end - at)), at = at ? at + 1 : end) {
		strings += begins(at, end, "# s ");
		frames += begins(at, end, "# f ");
		rows += begins(at, end, "# r ");
	}
	r->string = calloc(strings + 1, sizeof(*r->string));
	r->h->frame = calloc(frames + 1, sizeof(*r->h->frame));
	r->h->profile.row = calloc(rows + 1, sizeof(*r->h->profile.row));
	r->h->stacks = stacks_new();
	return r->string && r->h->frame && r->h->profile.row && r->h->stacks
		       ? 0
		       : wrong(r, "out of memory");
}

static int take_lines(struct reader *r, char *at, char *end, size_t number)
{
	for (; at < end; number++) {
		char *newline = memchr(at, '\n', (size_t)(end - at));

		if (!newline)
			newline = end - 1;
		*newline = '\0';
		if (strncmp(at, "# ", 2) || !take_line(r, at + 2, newline))
			return r->no_memory ? wrong(r, "out of memory")
					    : wrong(r, "line %zu is not as it should be: '%.40s'",
						    number, at);
		at = newline + 1;
	}
	return 0;
}

static int agree(struct reader *r)
{
	int64_t bytes = 0, blocks = 0;

	for (size_t i = 0; i < r->h->profile.count; i++) {
		bytes += r->h->profile.row[i].size;
		blocks += r->h->profile.row[i].count;
	}
	if (!r->has_live || bytes != r->live_bytes || blocks != r->live_blocks)
		return wrong(r, "its rows do not add up");
	if (r->lines > LINES_MOST)
		return wrong(r, "its stacks have %" PRIu64 " frames together, more than %u",
			     r->lines, LINES_MOST);
	if (r->h->facts.request_stack && !stacks_depth(r->h->stacks, r->h->facts.request_stack))
		r->h->facts.request_stack = 0; /* it holds nothing */
	return 0;
}

static int parse(struct reader *r, char *text, size_t size)
{
	char *end = text, *at, *version;
	size_t line = 2;
	uint64_t n;

	if (check(r, text, size, &end))
		return -EINVAL;
	at = (char *)memmem(text, size, second_part, sizeof(second_part) - 1) + 1;
	for (const char *c = text; (c = memchr(c, '\n', (size_t)(at - 1 - c))); c++)
		line++;
	version = at + sizeof(second_part) - 2;
	at = memchr(at, '\n', (size_t)(end - at));
	if (!at)
		return wrong(r, "it is damaged: it ends where the symbols begin");
	*at++ = '\0';
	r->at = version;
	if (!take_u64(r, &n) || *r->at)
		return wrong(r, "its format has no version");
	if (n != HEAP_VERSION)
		return wrong(r, "its format is version %" PRIu64 ", this mtrun knows %u", n,
			     HEAP_VERSION);
	if (make_room(r, at, end) || take_lines(r, at, end, line + 1) || agree(r))
		return -EINVAL;
	modules_sort(&r->h->modules);
	return 0;
}

int heap_parse(struct heap *h, char *text, size_t size, uid_t owner, char *why, size_t len)
{
	struct reader r = { .h = h, .why = why, .len = len };
	int err;

	*h = (struct heap){ .text = text, .owner = owner, .facts.why = "" };
	text[size] = '\0';
	if (heap_is_importable(text) && !memmem(text, size, second_part, sizeof(second_part) - 1)) {
		err = heap_import(h, size, why, len);
	} else {
		err = parse(&r, text, size);
		h->frames = r.frames;
	}
	free(r.string);
	h->facts.marks = &h->marks;
	h->facts.modules = &h->modules;
	h->profile.estimated = h->facts.sample != 0;
	profile_reckon_variance(&h->profile, (uint64_t)h->facts.sample);
	if (err)
		heap_release(h);
	return err;
}

/* The whole file, with room for one more byte. NULL and errno. */
static char *read_all(const char *path, size_t *size, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;
	char *text = NULL;
	ssize_t n = 1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, st) < 0)
		err = errno;
	else if (!S_ISREG(st->st_mode))
		err = S_ISDIR(st->st_mode) ? EISDIR : ENODEV;
	text = err ? NULL : malloc((size_t)st->st_size + 1);
	if (!text && !err)
		err = ENOMEM;
	for (*size = 0; !err && n > 0 && *size<(size_t)st->st_size; *size += n> 0 ? (size_t)n : 0) {
		n = read(fd, text + *size, (size_t)st->st_size - *size);
		err = n < 0 ? errno : 0;
	}
	close(fd);
	if (!err)
		return text;
	free(text);
	errno = err;
	return NULL;
}

int heap_read(struct heap *h, const char *path, char *why, size_t len)
{
	struct stat st;
	size_t size;
	char *text = read_all(path, &size, &st);
	int err;

	if (text) {
		err = heap_parse(h, text, size, st.st_uid, why, len);
		if (!err && h->foreign)
			h->facts.clock_ms = (uint64_t)st.st_mtim.tv_sec * 1000 +
					    (uint64_t)st.st_mtim.tv_nsec / 1000000;
		return err;
	}
	snprintf(why, len, "%s",
		 errno == EISDIR   ? "it is a directory, not a .heap file"
		 : errno == ENODEV ? "it is not a regular file"
				   : strerror(errno));
	return -EINVAL;
}

void heap_release(struct heap *h)
{
	profile_release(&h->profile);
	stacks_free(h->stacks);
	modules_release(&h->modules);
	marks_release(&h->marks);
	free(h->frame);
	symbols_free(h->symbols);
	outside_free(h->outside);
	free(h->text);
	*h = (struct heap){ 0 };
}

int heap_site_skip(struct heap *h, const char *regex, const char **error)
{
	regex_t compiled;

	if (*regex && pattern_compile(&compiled, regex, error))
		return -EINVAL;
	for (size_t i = 0; i < h->frames; i++) {
		bool skip = *regex && !regexec(&compiled, h->frame[i].function, 0, NULL, 0);

		h->frame[i].skip = (h->frame[i].skip & SKIP_KNOWN) | (skip ? SKIP_USER : 0);
	}
	if (*regex)
		regfree(&compiled);
	return 0;
}
