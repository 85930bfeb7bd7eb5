// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * busy.c - does a known amount of everything and prints a sum that depends on all of it: whether or not mtrun is killed meanwhile, the line is the
 * same. Arguments: what (alloc, threads, fork, dl, exec, map, all), how many turns, a library to open.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int turns;
static const char *library;

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15ull; }

static uint64_t alloc(int n, uint64_t h)
{
	unsigned char *p[64] = {0};
	unsigned r = 1;
	for (int i = 0; i < n; i++) {
		r = r * 1103515245 + 12345;
		unsigned s = (r >> 16) % 64, size = (r >> 8) % 3000 + 1;
		if (p[s])
			h = mix(h, p[s][0]);
		if (r >> 30 == 1) {
			p[s] = realloc(p[s], size);
		} else {
			free(p[s]);
			p[s] = malloc(size);
		}
		memset(p[s], (int)(r >> 5), size);
	}
	for (int i = 0; i < 64; i++)
		free(p[i]);
	return h;
}

static void *in_thread(void *arg)
{
	return (void *)(uintptr_t)alloc(2000, (uint64_t)(uintptr_t)arg);
}

static uint64_t threads(uint64_t h)
{
	pthread_t t[4];
	void *v;
	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, in_thread, (void *)i))
			abort();
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], &v), h = mix(h, (uint64_t)(uintptr_t)v);
	return h;
}

static uint64_t forks(uint64_t h)
{
	int status;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		uint64_t v = alloc(300, h);
		_exit((int)(v >> 56));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		abort();
	return mix(h, (uint64_t)WEXITSTATUS(status));
}

static uint64_t executes(uint64_t h)
{
	int status;
	pid_t pid = vfork();
	if (pid == 0) {
		execl("/proc/self/exe", "busy", "alloc", "1", (char *)NULL);
		_exit(99);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		abort();
	return mix(h, (uint64_t)WEXITSTATUS(status));
}

static uint64_t libraries(uint64_t h)
{
	void *lib = dlopen(library, RTLD_NOW);
	if (!lib)
		abort();
	int *(*f)(int) = (int *(*)(int))dlsym(lib, "twice");
	int *v = f(21);
	h = mix(h, (uint64_t)*v);
	free(v);
	dlclose(lib);
	return h;
}

static uint64_t mappings(uint64_t h)
{
	for (size_t i = 1; i < 30; i++) {
		unsigned char *p = mmap(NULL, i * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		p[0] = (unsigned char)i;
		p = mremap(p, i * 4096, 2 * i * 4096, MREMAP_MAYMOVE);
		h = mix(h, p[0]);
		munmap(p, 2 * i * 4096);
	}
	return h;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	uint64_t h = 1;
	int all = !strcmp(what, "all");

	turns = argc > 2 ? atoi(argv[2]) : 100;
	library = argc > 3 ? argv[3] : NULL;
	if (argc > 1 && turns > 1)
		if (write(1, "ready\n", 6) != 6)
			return 1;
	for (int i = 0; i < turns; i++) {
		if (all || !strcmp(what, "alloc"))
			h = alloc(2000, h);
		if (all || !strcmp(what, "threads"))
			h = threads(h);
		if (all || !strcmp(what, "fork"))
			h = forks(h);
		if (all || !strcmp(what, "exec"))
			h = executes(h);
		if ((all || !strcmp(what, "dl")) && library)
			h = libraries(h);
		if (all || !strcmp(what, "map"))
			h = mappings(h);
	}
	if (turns > 1)
		printf("sum %016llx\n", (unsigned long long)h);
	return (int)(h % 64);
}
