// SPDX-License-Identifier: GPL-3.0-or-later
#include "log/sets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log/reader.h"

/*
 * A directory may have any number of sets: runs that went on at the same time, and older ones.
 * Names are only what is looked at; headers say what is what.
 */

static struct log_set *set_of(struct log_sets *sets, const struct segment_header *h)
{
	struct log_set *more;

	for (size_t i = 0; i < sets->count; i++)
		if (sets->set[i].set == h->set && sets->set[i].clock_ms == h->clock_ms)
			return &sets->set[i];
	more = reallocarray(sets->set, sets->count + 1, sizeof(*more));
	if (!more)
		return NULL;
	sets->set = more;
	more[sets->count] = (struct log_set){ .set = h->set, .clock_ms = h->clock_ms };
	return &more[sets->count++];
}

static int add(struct log_sets *sets, const struct log_file *f)
{
	struct log_set *set = set_of(sets, &f->header);
	struct log_set_file *more = set ? reallocarray(set->file, set->files + 1, sizeof(*more))
					: NULL;

	if (!more)
		return -ENOMEM;
	set->file = more;
	more[set->files] = (struct log_set_file){ strdup(f->path), f->header.number, f->size,
						  f->header.began_ms,
						  f->header.flags & SEGMENT_AFTER_OFF };
	if (!more[set->files].path)
		return -ENOMEM;
	set->files++;
	return 0;
}

static int add_file(struct log_sets *sets, const char *path, char *why, size_t len)
{
	struct log_file f;
	int err = log_file_open(&f, path, why, len);

	if (err)
		return err;
	err = add(sets, &f);
	if (err)
		snprintf(why, len, "out of memory");
	log_file_close(&f);
	return err;
}

static int add_directory(struct log_sets *sets, const char *path,
			 void (*trouble)(void *ctx, const char *text), void *ctx, char *why,
			 size_t len)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	int err = 0;

	if (!dir) {
		snprintf(why, len, "%s", strerror(errno));
		return -EINVAL;
	}
	while (!err && (d = readdir(dir))) {
		char *file = NULL, text[512];

		if (!segment_is_name(d->d_name))
			continue;
		if (asprintf(&file, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
			     d->d_name) < 0) {
			snprintf(why, len, "out of memory");
			err = -ENOMEM;
			break;
		}
		err = add_file(sets, file, why, len);
		if (err == -EINVAL) {
			snprintf(text, sizeof(text), "'%s' is left out: %s", file, why);
			trouble(ctx, text);
			err = 0;
		}
		free(file);
	}
	closedir(dir);
	return err;
}

static int by_number(const void *a, const void *b)
{
	const struct log_set_file *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int by_clock(const void *a, const void *b)
{
	const struct log_set *x = a, *y = b;

	if (x->clock_ms != y->clock_ms)
		return x->clock_ms < y->clock_ms ? -1 : 1;
	return x->set < y->set ? -1 : x->set > y->set;
}

/* A file may have been named twice. */
static void drop_doubles(struct log_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < set->files; i++) {
		if (n && set->file[n - 1].number == set->file[i].number)
			free(set->file[i].path);
		else
			set->file[n++] = set->file[i];
	}
	set->files = n;
}

static bool has_heap_files(const char *path)
{
	DIR *dir = opendir(path);
	bool has = false;
	struct dirent *d;

	while (dir && !has && (d = readdir(dir))) {
		size_t len = strlen(d->d_name);

		has = len > 5 && !strcmp(d->d_name + len - 5, ".heap");
	}
	if (dir)
		closedir(dir);
	return has;
}

int log_sets_find(struct log_sets *sets, char *const *path, size_t paths,
		  void (*trouble)(void *ctx, const char *text), void *ctx, char *why, size_t len)
{
	int err = 0;

	*sets = (struct log_sets){ 0 };
	for (size_t i = 0; i < paths && !err; i++) {
		char text[384];
		struct stat st;

		if (stat(path[i], &st) == 0 && S_ISDIR(st.st_mode))
			err = add_directory(sets, path[i], trouble, ctx, text, sizeof(text));
		else
			err = add_file(sets, path[i], text, sizeof(text));
		if (err)
			snprintf(why, len, "cannot open '%s': %s", path[i], text);
	}
	if (!err && !sets->count) {
		snprintf(why, len, "cannot open '%s': there is no log in this directory%s", path[0],
			 has_heap_files(path[0])
				 ? "; of its .heap files each is opened by its own name"
				 : "");
		err = -EINVAL;
	}
	if (err) {
		log_sets_release(sets);
		return -EINVAL;
	}
	qsort(sets->set, sets->count, sizeof(*sets->set), by_clock);
	for (size_t i = 0; i < sets->count; i++) {
		qsort(sets->set[i].file, sets->set[i].files, sizeof(*sets->set[i].file), by_number);
		drop_doubles(&sets->set[i]);
	}
	return 0;
}

void log_sets_release(struct log_sets *sets)
{
	for (size_t i = 0; i < sets->count; i++) {
		for (size_t j = 0; j < sets->set[i].files; j++)
			free(sets->set[i].file[j].path);
		free(sets->set[i].file);
	}
	free(sets->set);
	*sets = (struct log_sets){ 0 };
}

size_t log_set_newest(const struct log_set *set)
{
	size_t i = set->files - 1;

	while (i && set->file[i - 1].number + 1 == set->file[i].number)
		i--;
	return i;
}
