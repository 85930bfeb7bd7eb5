// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * victim.c - allocates from a signal handler while libcrypto's assembly runs: `victim SECONDS`, or until the file FRAMES_DONE is there.
 *
 * Two threads compute digests, ciphers and powers in libcrypto; a timer's handler, on a stack of its own in one of them, allocates. So the stacks go through
 * the assembly at random instructions, most of them between a loop's beginning and end, some in prologues.
 *
 * malloc may not be called from a handler. It works here: sizes that nobody else uses come from glibc's cache of the thread, without a lock, and go back at once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*digest)(const void *, size_t, unsigned char *, unsigned *, const void *, void *);
static const void *(*md_by_name)(const char *);
static void *(*bn_new)(void);
static void (*bn_free)(void *);
static int (*bn_hex)(void **, const char *);
static int (*bn_exp)(void *, const void *, const void *, const void *, void *);
static void *(*bn_ctx)(void);
static void (*bn_ctx_free)(void *);
static void *volatile sink;
static double seconds = 600;
static const char *done;

static __attribute__((noinline)) void nested(int depth)
{
	void *p = malloc((size_t)depth * 16 + 900);

	sink = p;
	if (depth)
		nested(depth - 1);
	free(p);
}

static void on_alarm(int sig)
{
	(void)sig;
	nested(3);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void power(void)
{
	char hex[257];
	void *a = bn_new(), *m = NULL, *r = bn_new(), *ctx = bn_ctx();

	memset(hex, 'b', 256);
	hex[256] = 0;
	bn_hex(&a, "123456789abcdef0fedcba9876543210");
	bn_hex(&m, hex);
	bn_exp(r, a, m, m, ctx);
	bn_ctx_free(ctx);
	bn_free(a);
	bn_free(m);
	bn_free(r);
}

static void compute(void)
{
	static const char *const name[] = { "sha1", "sha256", "sha512", "md5", "sha3-256", "blake2b512" };
	static unsigned char data[60000];
	unsigned char out[64];
	unsigned len;

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		digest(data, sizeof(data), out, &len, md_by_name(name[i]), NULL);
	power();
}

static void *work(void *arg)
{
	stack_t own = { .ss_sp = arg, .ss_size = arg ? 65536 : 0 };
	double end = now() + seconds;
	sigset_t alarms;

	compute();				/* the library makes what it keeps, of all sizes */
	nested(3);				/* fills the cache */
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGPROF);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	if (arg)
		sigaltstack(&own, NULL);
	while (now() < end && (!done || access(done, F_OK)))
		compute();
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval often = { .it_interval.tv_usec = 300, .it_value.tv_usec = 300 };
	void *lib = dlopen("libcrypto.so.3", RTLD_NOW);
	static char stack[65536];
	pthread_t other;
	sigset_t alarms;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGPROF);
	sigprocmask(SIG_BLOCK, &alarms, NULL);
	done = getenv("FRAMES_DONE");
	if (argc > 1)
		seconds = atof(argv[1]);
	if (!lib)
		return 77;
	*(void **)&digest = dlsym(lib, "EVP_Digest");
	*(void **)&md_by_name = dlsym(lib, "EVP_get_digestbyname");
	*(void **)&bn_new = dlsym(lib, "BN_new");
	*(void **)&bn_free = dlsym(lib, "BN_free");
	*(void **)&bn_hex = dlsym(lib, "BN_hex2bn");
	*(void **)&bn_exp = dlsym(lib, "BN_mod_exp");
	*(void **)&bn_ctx = dlsym(lib, "BN_CTX_new");
	*(void **)&bn_ctx_free = dlsym(lib, "BN_CTX_free");
	sigaction(SIGPROF, &sa, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	pthread_create(&other, NULL, work, NULL);
	work(stack);
	pthread_join(other, NULL);
	return 0;
}
