// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_http.c - bytes on a connection of --listen: through evhttp's parser, the guard and the
 * router, to a server that answers from a recorded profile. Whatever comes, each answer has a known
 * status and headers that are lines of ours, and the server goes on.
 *
 * A connection is half closed behind the input; the server may still wait for the rest of a
 * request, send events, or answer after `seconds`, so reading ends after a moment in which nothing
 * comes.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "report/heapfile.h"
#include "session/asking.h"
#include "session/session.h"
#include "shell/serve/serve.h"

#define WAIT_MS 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static struct options options = { .quiet = true, .batch = true, .agent = { .depth = 16 } };
static struct session *session;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static bool serving;

static const char profile[] = /* as jemalloc and jeprof write one, with its symbols */
	"--- symbol\nbinary=/bin/app\n0x0000000000001000 operator new(unsigned long)\n"
	"0x0000000000002004 main--grow\n---\n--- heap\n"
	"heap_v2/10\n  t*: 5: 80 [6: 120]\n@ 0x1000 0x2005\n  t*: 3: 30 [4: 70]\n"
	"  t1: 2: 20 [0: 0]\n@ 0x2004\n  t*: 2: 50 [2: 50]\n\nMAPPED_LIBRARIES:\n"
	"00001000-00002000 r--p 00000000 00:00 1 /bin/app\n"
	"00002000-00004000 r-xp 00001000 00:00 1 /bin/app\n";

static int open_profile(char *why, size_t len)
{
	char path[] = "/tmp/fuzz_http.XXXXXX";
	int fd = mkstemp(path);
	struct heap heap;
	int err;

	if (fd < 0 || write(fd, profile, sizeof(profile) - 1) != (ssize_t)sizeof(profile) - 1)
		return -EIO;
	err = heap_read(&heap, path, why, len);
	close(fd);
	unlink(path);
	return err ? err : session_open(session, &heap);
}

static void serve(void *ctx)
{
	struct serve_options o = { .listen = ctx };
	struct serve *server;
	char why[512] = "";

	if (open_profile(why, sizeof(why)) || serve_start(&server, session, &o, why, sizeof(why))) {
		fprintf(stderr, "cannot begin: %s\n", why);
		abort();
	}
	pthread_mutex_lock(&lock);
	serving = true;
	pthread_cond_signal(&begun);
	pthread_mutex_unlock(&lock);
	for (;;)
		if (asking_turn(session, 1000))
			abort();
}

static void *loop(void *listen)
{
	session = session_new(&options);
	if (!session || asking_loop(session, serve, listen))
		abort();
	return NULL;
}

static void begin(void)
{
	static char listen[sizeof(address.sun_path) + 8];
	pthread_t thread;

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/fuzz_http.%d", (int)getpid());
	snprintf(listen, sizeof(listen), "unix:%s", address.sun_path);
	pthread_create(&thread, NULL, loop, listen);
	pthread_mutex_lock(&lock);
	while (!serving)
		pthread_cond_wait(&begun, &lock);
	pthread_mutex_unlock(&lock);
}

/* The head of the first answer: its first line, and headers by which nobody else speaks. */
static void check(char *text)
{
	static const char *const known[] = {
		"200", "303", "400", "401", "403", "404", "405", "411",
		"413", "414", "417", "431", "500", "501", "503", "507"
	};
	char *end = strstr(text, "\r\n\r\n"), *line;
	bool is = false;

	if (!end)
		return;
	*end = '\0';
	/* evhttp answers with the version that it was asked by */
	if (strncmp(text, "HTTP/", 5) || !strchr(text, ' '))
		abort();
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		is |= !strncmp(strchr(text, ' ') + 1, known[i], 3);
	if (!is)
		abort();
	for (line = strstr(text, "\r\n"); line; line = strstr(line + 2, "\r\n"))
		if (!strchr(line + 2, ':') || strchr("\r\n :", line[2]))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char answer[65536];
	size_t len = 0;
	ssize_t n = 1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!serving)
		begin();
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		abort();
	for (size_t at = 0; at < size && n > 0; at += (size_t)n)
		n = send(fd, data + at, size - at, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (len < sizeof(answer) - 1 &&
	       poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, WAIT_MS) > 0 &&
	       (n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	answer[len] = '\0';
	if (len)
		check(answer);
	return 0;
}
