// SPDX-License-Identifier: GPL-3.0-or-later
/* dl.c - dlopen and dlclose in a loop, at the same and at other addresses. Arguments: the library, rounds, the library under another name. */
#define VICTIM_MAIN
#include "victim.h"
#include <dlfcn.h>
#include <sys/mman.h>

typedef void *make_fn(size_t);

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 50;
	void *kept[16] = {0};
	uintptr_t seen[64], places = 0;

	if (argc < 3)
		return 2;
	for (int i = 0; i < rounds; i++) {
		void *lib = dlopen(argv[argc > 3 && i % 3 == 2 ? 3 : 1], i % 2 ? RTLD_NOW : RTLD_LAZY);
		if (!lib)
			victim_die(dlerror());
		make_fn *make = (make_fn *)dlsym(lib, "plugin_make");
		uintptr_t at = (uintptr_t)make, j = 0;
		while (j < places && seen[j] != at)
			j++;
		if (j == places && places < 64)
			seen[places++] = at;
		void *p = make(1000 + (size_t)i);
		free(GAVE(kept[i % 16]));
		kept[i % 16] = p;
		dlclose(lib);
		if (i % 5 == 0)		/* so that the next one comes to lie elsewhere */
			mmap((void *)(at & ~0xffful), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	if (rounds >= 20 && places < 2)
		victim_die("dl: the library always lay at the same place");
	return 0;
}
