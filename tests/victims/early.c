// SPDX-License-Identifier: GPL-3.0-or-later
/* early.c - allocation before main (preinit, constructors), in atexit handlers and in destructors. */
#define VICTIM_MAIN
#include "victim.h"

static void *kept[8];

#if !defined(__PIC__) || defined(__PIE__)
static void preinit(int argc, char **argv, char **envp)
{
	(void)argc, (void)argv, (void)envp;
	kept[0] = TOOK(malloc(1001), 1001);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **, char **) = preinit;
#endif

__attribute__((constructor(101))) static void first(void)
{
	kept[1] = TOOK(malloc(1002), 1002);
	for (int i = 0; i < 100; i++)
		free(GAVE(TOOK(calloc(3, 1003), 3009)));
}
__attribute__((constructor)) static void second(void)
{
	kept[2] = TOOK(malloc(1004), 1004);
}
static void at_exit(void)
{
	kept[3] = TOOK(malloc(1005), 1005);
	free(GAVE(kept[1]));
}
__attribute__((destructor)) static void last(void)
{
	kept[4] = TOOK(malloc(1006), 1006);
	free(GAVE(kept[2]));
}

int main(void)
{
	victim_is_exact = 1;
	atexit(at_exit);
	kept[5] = TOOK(malloc(1007), 1007);
	exit(0);
}
