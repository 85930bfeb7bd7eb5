/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * corpus.h - inputs that fuzzers have found, each another way through the code, run as a test:
 * whatever is in them, nothing worse comes of it. To be included behind a fuzz target (tests/fuzz),
 * whose inputs are the files in tests/fuzz/corpus/NAME.
 */
#ifndef MTRUN_CORPUS_H
#define MTRUN_CORPUS_H

#include <dirent.h>

#include "test.h"

/* The input in PATH, and pieces of it. */
static bool corpus_one(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *in = fopen(path, "re");
	size_t n = in ? fread(data, 1, sizeof(data), in) : 0;

	if (!in)
		return false;
	fclose(in);
	for (size_t cut = 0; cut < 4; cut++)
		LLVMFuzzerTestOneInput(data, n - n * cut / 4);
	return true;
}

static size_t corpus_run(const char *name)
{
	char dir[512], path[1024];
	size_t n = 0;
	struct dirent *d;
	DIR *list;

	snprintf(dir, sizeof(dir), "%.*s../fuzz/corpus/%s",
		 (int)(strrchr(__FILE__, '/') + 1 - __FILE__), __FILE__, name);
	list = opendir(dir);
	while (list && (d = readdir(list))) {
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		n += d->d_name[0] != '.' && corpus_one(path);
	}
	if (list)
		closedir(list);
	return n;
}

#endif
