// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/debugfile.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libdeflate.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/outside.h"

/*
 * debugfile.c - finding and opening the files that symbols are in.
 *
 * libelf maps the files, so that only what is looked at is read, each as a private copy, as a
 * section's header may be changed. A mapped file that somebody truncates raises SIGBUS: symbols.c,
 * through which all of this is used, catches that. libdw would find dwz's file by itself, but in
 * our root directory, and debuginfod, which must not be asked from here; therefore all searching is
 * done by hand, and all opening by outside.c.
 */

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define MINIMAL_MAX (128u << 20) /* bytes that .gnu_debugdata may unpack to */
/* bytes that the compressed sections of a file may unpack to, */
#define UNPACKED_MAX ((uint64_t)2 << 30)
/* and of each byte of those that unpack to more than some: compilers' tables, three to thirty */
#define RATIO_MAX  100u
#define RATIO_FROM (4u << 20)

/* One that is empty is a placeholder of somebody's, no ELF file. */
static int open_regular(struct outside *from, const char *path, struct stat *st)
{
	int fd = outside_open_debug(from, path);

	if (fd >= 0 && (fstat(fd, st) < 0 || st->st_size == 0)) {
		close(fd);
		return -ENOEXEC;
	}
	return fd;
}

static int begin(struct debugfile *f, const char *path)
{
	elf_version(EV_CURRENT);
	f->path = strdup(path);
	f->elf = f->image ? NULL : elf_begin(f->fd, ELF_C_READ_MMAP_PRIVATE, NULL);
	return f->path ? 0 : -ENOMEM;
}

static int check(struct debugfile *f, int err)
{
	if (!err && (!f->elf || elf_kind(f->elf) != ELF_K_ELF))
		err = -ENOEXEC;
	if (err)
		debugfile_close(f);
	return err;
}

int debugfile_open(struct debugfile *f, struct outside *from, const char *path)
{
	*f = (struct debugfile){ .fd = -1 };
	f->fd = open_regular(from, path, &f->st);
	if (f->fd < 0) {
		int err = f->fd;

		f->fd = -1;
		return err;
	}
	return check(f, begin(f, path));
}

/* Takes over IMAGE. libelf writes to it, so it must be ours. */
static int open_image(struct debugfile *f, void *image, size_t size)
{
	int err;

	*f = (struct debugfile){ .fd = -1, .image = image };
	err = begin(f, "");
	if (!err)
		f->elf = elf_memory(image, size);
	return check(f, err);
}

int debugfile_copy(struct debugfile *f, const void *bytes, size_t size)
{
	void *image = malloc(size ? size : 1);

	*f = (struct debugfile){ .fd = -1 };
	if (!image)
		return -ENOMEM;
	memcpy(image, bytes, size);
	return open_image(f, image, size);
}

void debugfile_close(struct debugfile *f)
{
	if (f->elf)
		elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	free(f->image);
	free(f->unpacked);
	free(f->path);
	*f = (struct debugfile){ .fd = -1 };
}

bool debugfile_same(const struct debugfile *a, const struct debugfile *b)
{
	const struct stat *x = &a->st, *y = &b->st;

	if (!a->elf || !b->elf)
		return !a->elf && !b->elf;
	return a->fd >= 0 && b->fd >= 0 && x->st_dev == y->st_dev && x->st_ino == y->st_ino &&
	       x->st_size == y->st_size && x->st_ctim.tv_sec == y->st_ctim.tv_sec &&
	       x->st_ctim.tv_nsec == y->st_ctim.tv_nsec;
}

size_t debugfile_build_id(Elf *elf, const uint8_t **id)
{
	const void *bytes;
	ssize_t len = dwelf_elf_gnu_build_id(elf, &bytes);

	if (len <= 0)
		return 0;
	*id = bytes;
	return (size_t)len;
}

static bool has_build_id(Elf *elf, const uint8_t *id, size_t len)
{
	const uint8_t *own;

	return debugfile_build_id(elf, &own) == len && !memcmp(own, id, len);
}

/*
 * A file that is what we look for in all but name is no use if it has neither DWARF nor symbols:
 * the stripped file itself, found again.
 */
static bool has_symbols(Elf *elf)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		const char *name;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, strings, shdr.sh_name);
		if (shdr.sh_type == SHT_SYMTAB ||
		    (name && (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))))
			return true;
	}
	return false;
}

/* ---- separate files ------------------------------------------------------ */

static int open_by_build_id(struct debugfile *f, struct outside *from, const uint8_t *id,
			    size_t len)
{
	char path[sizeof(OUTSIDE_DEBUG_DIR) + 256];
	size_t n;

	if (len < 2 || len > 64)
		return -ENOENT;
	n = (size_t)sprintf(path, OUTSIDE_DEBUG_DIR "/.build-id/%02x/", id[0]);
	for (size_t i = 1; i < len; i++)
		n += (size_t)sprintf(path + n, "%02x", id[i]);
	strcpy(path + n, ".debug");
	if (debugfile_open(f, from, path) < 0)
		return -ENOENT;
	if (has_build_id(f->elf, id, len) && has_symbols(f->elf))
		return 0;
	debugfile_close(f);
	return -ENOENT;
}

static bool has_checksum(const struct debugfile *f, uint32_t want)
{
	size_t size;
	const char *bytes = elf_rawfile(f->elf, &size);
	uLong crc = crc32(0, Z_NULL, 0);

	return bytes && (uint32_t)crc32_z(crc, (const Bytef *)bytes, size) == want;
}

/*
 * PATH is taken if it is MAIN's debug file by build-id, or where one of them has none, by checksum.
 */
static int open_linked(struct debugfile *f, struct outside *from, const struct debugfile *main,
		       const char *path, uint32_t crc)
{
	const uint8_t *id, *theirs;
	size_t len, n;
	int err = debugfile_open(f, from, path);

	if (err)
		return err;
	len = debugfile_build_id(main->elf, &id);
	n = debugfile_build_id(f->elf, &theirs);
	if ((len && n ? len == n && !memcmp(id, theirs, n) : has_checksum(f, crc)) &&
	    has_symbols(f->elf))
		return 0;
	debugfile_close(f);
	return -ENOENT;
}

static int open_by_debuglink(struct debugfile *f, struct outside *from,
			     const struct debugfile *main)
{
	GElf_Word crc;
	const char *link = dwelf_elf_gnu_debuglink(main->elf, &crc),
		   *slash = strrchr(main->path, '/');
	const char *const forms[] = { "%.*s/%s", "%.*s/.debug/%s", OUTSIDE_DEBUG_DIR "%.*s/%s" };
	int dirlen = slash ? (int)(slash - main->path) : 0;
	char path[PATH_MAX];

	if (!link || !link[0] || strchr(link, '/') || !slash)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (snprintf(path, sizeof(path), forms[i], dirlen, main->path, link) >=
		    (int)sizeof(path))
			continue;
		if (strcmp(path, main->path) && open_linked(f, from, main, path, crc) == 0)
			return 0;
	}
	return -ENOENT;
}

int debugfile_separate(struct debugfile *f, struct outside *from, const struct debugfile *main)
{
	const uint8_t *id;
	size_t len = debugfile_build_id(main->elf, &id);

	*f = (struct debugfile){ .fd = -1 };
	if (len && open_by_build_id(f, from, id, len) == 0)
		return 0;
	return open_by_debuglink(f, from, main);
}

int debugfile_common(struct debugfile *f, struct outside *from, const struct debugfile *of,
		     Dwarf *dwarf)
{
	const char *name, *slash = strrchr(of->path, '/');
	const void *id;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
	char path[PATH_MAX];

	*f = (struct debugfile){ .fd = -1 };
	if (len <= 0)
		return -ENOENT;
	if (open_by_build_id(f, from, id, (size_t)len) == 0)
		return 0;
	if (name[0] == '/')
		slash = of->path; /* an absolute name stands alone */
	if (!slash || snprintf(path, sizeof(path), "%.*s%s%s", (int)(slash - of->path), of->path,
			       name[0] == '/' ? "" : "/", name) >= (int)sizeof(path))
		return -ENOENT;
	if (debugfile_open(f, from, path) < 0)
		return -ENOENT;
	if (has_build_id(f->elf, id, (size_t)len))
		return 0;
	debugfile_close(f);
	return -ENOENT;
}

/* Bytes that SCN unpacks to, by its own word; 0: it is not compressed. */
static uint64_t unpacked_size(Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr, size_t strings)
{
	const char *name = elf_strptr(elf, strings, shdr->sh_name);
	uint64_t size = 0;
	GElf_Chdr chdr;
	Elf_Data *raw;

	if (shdr->sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(scn, &chdr) ? chdr.ch_size : UINT64_MAX;
	if (!name || strncmp(name, ".zdebug", 7))
		return 0;
	raw = elf_rawdata(scn, NULL); /* "ZLIB", then the size, big-endian */
	if (!raw || !raw->d_buf || raw->d_size < 12)
		return UINT64_MAX;
	for (int i = 4; i < 12; i++)
		size = size << 8 | ((const uint8_t *)raw->d_buf)[i];
	return size;
}

/*
 * libdw unpacks the sections that it knows all at once. Those that say where variables are, what
 * macros were and how to unwind are never asked for: a fifth of what libc's debug file unpacks to.
 */
static bool is_needless(const char *name)
{
	static const char *const needless[] = { "loclists", "loc", "macro", "macinfo", "frame" };

	if (!name || (strncmp(name, ".debug_", 7) && strncmp(name, ".zdebug_", 8)))
		return false;
	name = strchr(name, '_') + 1;
	for (size_t i = 0; i < sizeof(needless) / sizeof(needless[0]); i++)
		if (!strcmp(name, needless[i]))
			return true;
	return false;
}

/*
 * Hides what is needless; whether the rest unpacks to no more than a file's sections may. *ALL: the
 * bytes that it unpacks to.
 */
static bool unpacks(Elf *elf, uint64_t *all)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	*all = 0;
	if (elf_getshdrstrndx(elf, &strings) < 0)
		return true;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		uint64_t size;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS)
			continue;
		size = unpacked_size(elf, scn, &shdr, strings);
		if (size && is_needless(elf_strptr(elf, strings, shdr.sh_name))) {
			shdr.sh_type = SHT_NOBITS; /* libdw passes those over */
			if (gelf_update_shdr(scn, &shdr))
				continue;
		}
		if (size > UNPACKED_MAX - *all ||
		    (size > RATIO_FROM && size / RATIO_MAX > shdr.sh_size))
			return false;
		*all += size;
	}
	return true;
}

/* One zlib stream, or several one behind the other, that fill TO's ROOM bytes. */
static bool inflate_all(const uint8_t *from, size_t size, uint8_t *to, size_t room)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t used = 0, made = 0;
	bool ok = d != NULL;

	for (; ok && room; from += used, size -= used, to += made, room -= made)
		ok = !libdeflate_zlib_decompress_ex(d, from, size, to, room, &used, &made) && made;
	libdeflate_free_decompressor(d);
	return ok;
}

static bool unpack_section(Elf *elf, Elf_Scn *scn, GElf_Shdr *shdr, const GElf_Chdr *chdr,
			   uint8_t *to)
{
	const Elf_Data *raw = elf_rawdata(scn, NULL);
	size_t head = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT), size;
	const uint8_t *from;
	Elf_Data *data;

	if (!raw || !raw->d_buf || !head || raw->d_size < head)
		return false;
	from = (const uint8_t *)raw->d_buf + head;
	size = raw->d_size - head;
	if (!(chdr->ch_type == ELFCOMPRESS_ZLIB && inflate_all(from, size, to, chdr->ch_size)) &&
	    !(chdr->ch_type == ELFCOMPRESS_ZSTD &&
	      ZSTD_decompress(to, chdr->ch_size, from, size) == chdr->ch_size))
		return false;
	data = elf_getdata(scn, NULL);
	shdr->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
	shdr->sh_size = chdr->ch_size;
	shdr->sh_addralign = chdr->ch_addralign;
	if (!data || !gelf_update_shdr(scn, shdr))
		return false;
	data->d_buf = to;
	data->d_size = chdr->ch_size;
	data->d_align = chdr->ch_addralign;
	data->d_type = ELF_T_BYTE;
	return true;
}

/*
 * Unpacks the ALL bytes that libdw would unpack, and gives them to libelf as the sections' data:
 * libdw uses zlib, which takes four times as long as libdeflate (for libc's debug file 50 to 65 ms,
 * not 16), and knows no zstd. What does not unpack here is left to libdw, which may do without it,
 * and so is the old form, .zdebug_*.
 */
static void unpack_sections(struct debugfile *f, uint64_t all)
{
	uint64_t done = 0;
	Elf_Scn *scn = NULL;

	if (f->unpacked) /* what it lacks had its turn; the file may have changed since, and ALL */
		return;
	f->unpacked = malloc(all);
	while (f->unpacked && (scn = elf_nextscn(f->elf, scn))) {
		GElf_Shdr shdr;
		GElf_Chdr chdr;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS ||
		    !(shdr.sh_flags & SHF_COMPRESSED) || !gelf_getchdr(scn, &chdr) ||
		    chdr.ch_size > all - done)
			continue;
		if (unpack_section(f->elf, scn, &shdr, &chdr, (uint8_t *)f->unpacked + done))
			done += chdr.ch_size;
	}
}

Dwarf *debugfile_dwarf(struct debugfile *f)
{
	uint64_t all;

	if (!f->elf || !unpacks(f->elf, &all))
		return NULL;
	if (all)
		unpack_sections(f, all);
	return dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
}

Elf_Scn *debugfile_section(Elf *elf, const char *name)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		const char *called =
			gelf_getshdr(scn, &shdr) ? elf_strptr(elf, strings, shdr.sh_name) : NULL;

		if (called && !strcmp(called, name))
			break;
	}
	return scn;
}

/* ---- .gnu_debugdata: an xz-compressed ELF file with the symbols that .dynsym lacks ---- */

static Elf_Data *debugdata(Elf *elf)
{
	Elf_Scn *scn = debugfile_section(elf, ".gnu_debugdata");
	GElf_Shdr shdr;

	return scn && gelf_getshdr(scn, &shdr) && shdr.sh_type != SHT_NOBITS
		       ? elf_rawdata(scn, NULL)
		       : NULL;
}

static int unpack(const Elf_Data *packed, uint8_t **image, size_t *size)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	size_t room = packed->d_size * 4 + 4096;
	uint8_t *bytes = NULL;
	lzma_ret ret = lzma_stream_decoder(&stream, MINIMAL_MAX, 0);
	int err = -ENOEXEC;

	stream.next_in = packed->d_buf;
	stream.avail_in = packed->d_size;
	while (ret == LZMA_OK) {
		size_t done = (size_t)stream.total_out;
		uint8_t *bigger = room <= MINIMAL_MAX ? realloc(bytes, room) : NULL;

		if (!bigger) {
			err = -ENOMEM;
			break;
		}
		bytes = bigger;
		stream.next_out = bytes + done;
		stream.avail_out = room - done;
		ret = lzma_code(&stream, LZMA_FINISH);
		room *= 2;
	}
	*size = (size_t)stream.total_out;
	lzma_end(&stream);
	if (ret != LZMA_STREAM_END) {
		free(bytes);
		return err;
	}
	*image = bytes;
	return 0;
}

int debugfile_minimal(struct debugfile *f, const struct debugfile *main)
{
	Elf_Data *packed = debugdata(main->elf);
	uint8_t *image;
	size_t size;
	int err;

	*f = (struct debugfile){ .fd = -1 };
	if (!packed || !packed->d_buf)
		return -ENOENT;
	err = unpack(packed, &image, &size);
	return err ? err : open_image(f, image, size);
}
