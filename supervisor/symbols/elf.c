// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sigbus.h"
#include "base/text.h"
#include "symbols/go_functions.h"

/*
 * elf.c - an ELF file, mapped, checked, and shared by all who need it.
 *
 * The file is mapped in front of a page of zeros, so that whatever runs over its end (a name
 * without a NUL) ends there. The few headers are copied at the start; tables are given out only
 * after their whole extent was found to lie in the file; symbols are checked one by one as they are
 * read. All open files are in one list, so that the same file is mapped once. If one is truncated
 * under us, what is missing reads as zeros (base/sigbus.c).
 *
 * Names are looked up through the GNU hash table where there is one: about a hundred allocator
 * names cost microseconds even in a library of 60 000 symbols, where a walk over all of them would
 * cost milliseconds at each start of a compiler.
 */

#define MAX_HEADERS 65535u

/* No linker makes a file that is beyond these, which would be slow to read. */
#define MAX_SEGMENTS 512u	  /* program headers: further ones are left out */
#define MAX_NOTES    (64u << 10)  /* bytes of notes that are looked at */
#define MAX_DYNAMIC  (1u << 20)	  /* bytes of .dynamic */
#define MAX_BUCKETS  (1u << 24)	  /* of .gnu.hash */
#define MAX_SYMBOLS  (4u << 20)	  /* of a table */
#define MAX_CHAIN    (1u << 16)	  /* symbols with the same bucket */
#define MAX_EH_FRAME (256u << 20) /* bytes */

struct table {
	const Elf64_Sym *symbol; /* maybe unaligned: read with memcpy */
	size_t count;
	const char *strings;
	size_t strings_size;
};

struct gnu_hash {
	const uint8_t *bloom, *bucket, *chain;
	uint32_t nbuckets, first, nblooms, shift;
	size_t nchain;
};

struct elf {
	struct elf *next; /* in its list of those that are open */
	unsigned refs;
	const uint8_t *bytes;
	size_t size;
	size_t mapped;	/* bytes of the mapping; 0: on the heap */
	struct stat st; /* of the file; st_ino 0: none */
	unsigned type;
	uint64_t entry;
	struct elf_segment *segment;
	size_t nsegments;
	struct elf_section *section;
	size_t nsections;
	struct table dynsym, symtab;
	struct gotab go; /* in place of a symtab that is not there; count 0: none */
	struct gnu_hash hash;
	const char *soname;
	const uint8_t *build_id;
	unsigned build_id_len;
	bool pie; /* a program, as opposed to a library */
	bool has_interpreter;
	bool is_go;
};

/* Those that are open: by inode, as there may be tens of thousands. */
#define LISTS 4096u
static struct elf *open_elfs[LISTS];

static struct elf **list_of(const struct stat *st) { return &open_elfs[st->st_ino % LISTS]; }

/* ---- reading with care --------------------------------------------------- */

static bool inside(const struct elf *e, uint64_t offset, uint64_t len)
{
	return offset <= e->size && len <= e->size - offset;
}

/*
 * A name in the string table, NULL if it lies outside. It ends in the mapping, or in the zeros
 * behind it.
 */
static const char *string_at(const struct table *t, uint64_t offset)
{
	return offset < t->strings_size ? t->strings + offset : NULL;
}

static int read_segments(struct elf *e, const Elf64_Ehdr *eh)
{
	size_t n = eh->e_phnum;

	if (!n || eh->e_phentsize != sizeof(Elf64_Phdr) || n >= PN_XNUM ||
	    !inside(e, eh->e_phoff, n * sizeof(Elf64_Phdr)))
		return 0;
	n = n < MAX_SEGMENTS ? n : MAX_SEGMENTS;
	e->segment = calloc(n, sizeof(*e->segment));
	if (!e->segment)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct elf_segment *s = &e->segment[i];
		Elf64_Phdr ph;

		memcpy(&ph, e->bytes + eh->e_phoff + i * sizeof(ph), sizeof(ph));
		*s = (struct elf_segment){ ph.p_type,  ph.p_flags,  ph.p_offset,
					   ph.p_vaddr, ph.p_filesz, ph.p_memsz };
		if (s->offset > e->size)
			s->offset = s->filesz = 0;
		else if (s->filesz > e->size - s->offset)
			s->filesz = e->size - s->offset;
		if (s->memsz < s->filesz)
			s->memsz = s->filesz;
		if (s->vaddr > UINT64_MAX - s->memsz)
			s->memsz = s->filesz = 0;
	}
	e->nsegments = n;
	return 0;
}

static void name_sections(struct elf *e, uint32_t index, const uint32_t *name)
{
	struct table strings = { 0 };

	if (index >= e->nsections)
		return;
	if (e->section[index].type == SHT_STRTAB &&
	    inside(e, e->section[index].offset, e->section[index].size)) {
		strings.strings = (const char *)e->bytes + e->section[index].offset;
		strings.strings_size = e->section[index].size;
	}
	for (size_t i = 0; i < e->nsections; i++) {
		const char *s = string_at(&strings, name[i]);

		if (s)
			e->section[i].name = s;
	}
}

static int read_sections(struct elf *e, const Elf64_Ehdr *eh)
{
	size_t n = eh->e_shnum;
	uint32_t index = eh->e_shstrndx, *name;
	Elf64_Shdr sh;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(sh) || !inside(e, eh->e_shoff, sizeof(sh)))
		return 0;
	memcpy(&sh, e->bytes + eh->e_shoff, sizeof(sh));
	if (!n)
		n = sh.sh_size;
	if (index == SHN_XINDEX)
		index = sh.sh_link;
	if (!n || n > MAX_HEADERS || !inside(e, eh->e_shoff, n * sizeof(sh)))
		return 0;
	e->section = calloc(n, sizeof(*e->section));
	name = calloc(n, sizeof(*name));
	if (!e->section || !name) {
		free(name);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		memcpy(&sh, e->bytes + eh->e_shoff + i * sizeof(sh), sizeof(sh));
		e->section[i] = (struct elf_section){ "",	   sh.sh_type, sh.sh_link,
						      sh.sh_flags, sh.sh_addr, sh.sh_offset,
						      sh.sh_size };
		name[i] = sh.sh_name;
		if (sh.sh_type != SHT_NOBITS && !inside(e, sh.sh_offset, sh.sh_size))
			e->section[i].type = SHT_NULL;
	}
	e->nsections = n;
	name_sections(e, index, name);
	free(name);
	return 0;
}

/* ---- symbol tables ------------------------------------------------------- */

static void table_from_section(const struct elf *e, uint32_t type, struct table *t)
{
	for (size_t i = 0; i < e->nsections; i++) {
		const struct elf_section *s = &e->section[i], *str;

		if (s->type != type || s->link >= e->nsections)
			continue;
		str = &e->section[s->link];
		if (str->type != SHT_STRTAB)
			continue;
		t->symbol = (const Elf64_Sym *)(const void *)(e->bytes + s->offset);
		t->count = s->size / sizeof(Elf64_Sym);
		t->strings = (const char *)e->bytes + str->offset;
		t->strings_size = str->size;
		return;
	}
}

static bool symbol_read(const struct table *t, size_t i, Elf64_Sym *sym)
{
	if (i >= t->count)
		return false;
	memcpy(sym, (const uint8_t *)t->symbol + i * sizeof(*sym), sizeof(*sym));
	return true;
}

struct dynamic {
	uint64_t symtab, strtab, strsz, hash, gnu_hash, soname, flags;
	bool needed;
};

static void read_dynamic(const struct elf *e, struct dynamic *d)
{
	const struct elf_segment *s;
	Elf64_Dyn dyn;
	size_t i = 0;

	memset(d, 0, sizeof(*d));
	d->soname = UINT64_MAX;
	while (i < e->nsegments && e->segment[i].type != PT_DYNAMIC)
		i++;
	if (i == e->nsegments)
		return;
	s = &e->segment[i];
	for (uint64_t at = 0; at + sizeof(dyn) <= s->filesz && at < MAX_DYNAMIC;
	     at += sizeof(dyn)) {
		memcpy(&dyn, e->bytes + s->offset + at, sizeof(dyn));
		switch (dyn.d_tag) {
		case DT_NULL: return;
		case DT_SYMTAB: d->symtab = dyn.d_un.d_ptr; break;
		case DT_STRTAB: d->strtab = dyn.d_un.d_ptr; break;
		case DT_STRSZ: d->strsz = dyn.d_un.d_val; break;
		case DT_HASH: d->hash = dyn.d_un.d_ptr; break;
		case DT_GNU_HASH: d->gnu_hash = dyn.d_un.d_ptr; break;
		case DT_SONAME: d->soname = dyn.d_un.d_val; break;
		case DT_FLAGS_1: d->flags = dyn.d_un.d_val; break;
		case DT_NEEDED: d->needed = true; break;
		}
	}
}

/* {nbuckets, first symbol, bloom words, shift} bloom[] bucket[] chain[] */
static void read_gnu_hash(struct elf *e, uint64_t vaddr)
{
	size_t left;
	const uint8_t *p = elf_at(e, vaddr, 16, &left);
	struct gnu_hash h;
	uint64_t fixed;

	if (!p)
		return;
	h.nbuckets = elf_u32(p);
	h.first = elf_u32(p + 4);
	h.nblooms = elf_u32(p + 8);
	h.shift = elf_u32(p + 12);
	fixed = 16 + 8ull * h.nblooms + 4ull * h.nbuckets;
	if (!h.nbuckets || h.nbuckets > MAX_BUCKETS || !h.nblooms ||
	    (h.nblooms & (h.nblooms - 1)) || h.shift > 31 || fixed > left)
		return;
	h.bloom = p + 16;
	h.bucket = h.bloom + 8ull * h.nblooms;
	h.chain = p + fixed;
	h.nchain = (left - fixed) / 4;
	e->hash = h;
}

/* Without section headers the number of symbols is only in the hash table. */
static size_t count_by_hash(const struct elf *e, uint64_t sysv)
{
	const struct gnu_hash *h = &e->hash;
	const uint8_t *p = sysv ? elf_at(e, sysv, 8, NULL) : NULL;
	uint32_t last = 0;

	if (p)
		return elf_u32(p + 4);
	if (!h->bucket)
		return 0;
	for (uint32_t i = 0; i < h->nbuckets; i++) {
		uint32_t b = elf_u32(h->bucket + 4ull * i);

		last = b > last ? b : last;
	}
	if (last < h->first)
		return 0;
	for (uint32_t n = 0; n < MAX_CHAIN && last - h->first < h->nchain &&
			     !(elf_u32(h->chain + 4ull * (last - h->first)) & 1);
	     n++)
		last++;
	return (size_t)last + 1;
}

static void table_from_dynamic(const struct elf *e, const struct dynamic *d, struct table *t)
{
	size_t left = 0;
	const uint8_t *sym = d->symtab ? elf_at(e, d->symtab, sizeof(Elf64_Sym), &left) : NULL;
	const uint8_t *str = d->strtab && d->strsz ? elf_at(e, d->strtab, d->strsz, NULL) : NULL;

	if (!sym || !str)
		return;
	t->symbol = (const Elf64_Sym *)(const void *)sym;
	t->count = count_by_hash(e, d->hash);
	if (t->count > left / sizeof(Elf64_Sym))
		t->count = left / sizeof(Elf64_Sym);
	t->strings = (const char *)str;
	t->strings_size = d->strsz;
}

static size_t symbols_at_most(size_t count) { return count < MAX_SYMBOLS ? count : MAX_SYMBOLS; }

static void read_go(struct elf *e)
{
	const struct elf_section *s = elf_section(e, ".gopclntab"), *text = elf_section(e, ".text");

	if (!s)
		s = elf_section(e, ".data.rel.ro.gopclntab");
	e->is_go = s && s->type != SHT_NOBITS;
	if (!e->is_go || e->symtab.count)
		return;
	if (!gotab_open(&e->go, e->bytes + s->offset, s->size, text ? text->addr : 0))
		e->go.count = 0;
	e->go.count = symbols_at_most(e->go.count);
}

static void read_tables(struct elf *e)
{
	struct dynamic d;

	read_dynamic(e, &d);
	if (d.gnu_hash)
		read_gnu_hash(e, d.gnu_hash);
	table_from_section(e, SHT_DYNSYM, &e->dynsym);
	if (!e->dynsym.count)
		table_from_dynamic(e, &d, &e->dynsym);
	table_from_section(e, SHT_SYMTAB, &e->symtab);
	e->dynsym.count = symbols_at_most(e->dynsym.count);
	e->symtab.count = symbols_at_most(e->symtab.count);
	read_go(e);
	if (d.soname != UINT64_MAX)
		e->soname = string_at(&e->dynsym, d.soname);
	/* an old linker did not say PIE: then it is one that needs nothing and offers nothing */
	e->pie = (d.flags & DF_1_PIE) ||
		 (e->entry && !e->soname && !d.needed && e->dynsym.count <= 1);
}

/* ---- notes, interpreter -------------------------------------------------- */

static void read_notes(struct elf *e, const uint8_t *p, uint64_t size, uint64_t *left)
{
	while (size >= 12 && *left >= 12 && !e->build_id) {
		uint64_t name = elf_u32(p), desc = elf_u32(p + 4);
		uint64_t whole = 12 + ((name + 3) & ~3ull) + ((desc + 3) & ~3ull);
		const uint8_t *d = p + 12 + ((name + 3) & ~3ull);

		if (whole - ((desc + 3) & ~3ull) + desc > size)
			return;
		if (elf_u32(p + 8) == NT_GNU_BUILD_ID && name == 4 &&
		    memcmp(p + 12, "GNU", 4) == 0) {
			e->build_id = d;
			e->build_id_len = desc > 32 ? 32 : (unsigned)desc;
		}
		if (whole >= size)
			return;
		p += whole;
		size -= whole;
		*left -= whole < *left ? whole : *left;
	}
}

static bool is_path(const struct elf *e, const struct elf_segment *s)
{
	return s->filesz && s->filesz <= 4096 && memchr(e->bytes + s->offset, 0, s->filesz);
}

static int read_headers(struct elf *e)
{
	uint64_t notes = MAX_NOTES;
	Elf64_Ehdr eh;
	int err;

	if (e->size < sizeof(eh))
		return -ENOEXEC;
	memcpy(&eh, e->bytes, sizeof(eh));
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_machine != EM_X86_64)
		return -ENOEXEC;
	e->type = eh.e_type;
	e->entry = eh.e_entry;
	err = read_segments(e, &eh);
	if (!err)
		err = read_sections(e, &eh);
	if (err)
		return err;
	for (size_t i = 0; i < e->nsegments; i++) {
		if (e->segment[i].type == PT_NOTE && e->segment[i].filesz)
			read_notes(e, e->bytes + e->segment[i].offset, e->segment[i].filesz,
				   &notes);
		else if (e->segment[i].type == PT_INTERP)
			e->has_interpreter |= is_path(e, &e->segment[i]);
	}
	read_tables(e);
	return 0;
}

/* ---- life ---------------------------------------------------------------- */

static void elf_free(struct elf *e)
{
	if (e->mapped)
		munmap((void *)(uintptr_t)e->bytes, e->mapped);
	else
		free((void *)(uintptr_t)e->bytes);
	free(e->segment);
	free(e->section);
	free(e);
}

void elf_unref(struct elf *elf)
{
	struct elf **link;

	if (!elf || --elf->refs)
		return;
	link = list_of(&elf->st);
	while (*link && *link != elf)
		link = &(*link)->next;
	if (*link)
		*link = elf->next;
	elf_free(elf);
}

struct elf *elf_ref(struct elf *elf)
{
	elf->refs++;
	return elf;
}

struct elf *elf_empty(void)
{
	struct elf *e = calloc(1, sizeof(*e));

	if (e)
		e->refs = 1;
	return e;
}

static struct elf *finish(struct elf *e, int err, int *error)
{
	if (err) {
		elf_unref(e);
		*error = err;
		return NULL;
	}
	return e;
}

struct elf *elf_from_bytes(const void *bytes, size_t size, int *error)
{
	struct elf *e = elf_empty();
	uint8_t *copy = calloc(1, size + 16);

	if (!e || !copy) {
		free(e);
		free(copy);
		*error = -ENOMEM;
		return NULL;
	}
	e->bytes = memcpy(copy, bytes, size);
	e->size = size;
	return finish(e, read_headers(e), error);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The file, and a page of zeros behind it. */
static int map_file(struct elf *e, int fd)
{
	size_t size = (size_t)e->st.st_size, whole = page_up(size) + PAGE;
	uint8_t *p = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	e->bytes = p;
	e->size = size;
	e->mapped = whole;
	if (mmap(p, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -errno;
	return 0;
}

struct elf *elf_open(int fd, int *error)
{
	struct stat st;
	struct elf *e;
	int err;

	if (fstat(fd, &st) < 0) {
		*error = -errno;
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr) ||
	    st.st_size > (off_t)1 << 40) {
		*error = -ENOEXEC;
		return NULL;
	}
	for (e = *list_of(&st); e; e = e->next) {
		if (same_file(&e->st, &st))
			return elf_ref(e);
	}
	e = elf_empty();
	if (!e) {
		*error = -ENOMEM;
		return NULL;
	}
	sigbus_survive();
	e->st = st;
	e->next = *list_of(&st);
	*list_of(&st) = e;
	err = map_file(e, fd);
	return finish(e, err ? err : read_headers(e), error);
}

/* ---- questions ----------------------------------------------------------- */

const uint8_t *elf_file(const struct elf *elf, size_t *size)
{
	*size = elf->size;
	return elf->bytes;
}

unsigned elf_type(const struct elf *elf) { return elf->type; }
uint64_t elf_entry(const struct elf *elf) { return elf->entry; }
const char *elf_soname(const struct elf *elf) { return elf->soname; }
size_t elf_symbols(const struct elf *elf)
{
	return elf->dynsym.count + elf->symtab.count + elf->go.count;
}
bool elf_is_go(const struct elf *elf) { return elf->is_go; }
size_t elf_exported(const struct elf *elf) { return elf->dynsym.count; }
bool elf_has_hash(const struct elf *elf) { return elf->hash.bucket; }

bool elf_needs(const struct elf *elf, const char *name)
{
	Elf64_Dyn dyn;

	for (size_t i = 0; i < elf->nsegments; i++) {
		const struct elf_segment *s = &elf->segment[i];

		for (uint64_t at = 0;
		     s->type == PT_DYNAMIC && at + sizeof(dyn) <= s->filesz && at < MAX_DYNAMIC;
		     at += sizeof(dyn)) {
			const char *needed;

			memcpy(&dyn, elf->bytes + s->offset + at, sizeof(dyn));
			if (dyn.d_tag == DT_NULL)
				break;
			needed = dyn.d_tag == DT_NEEDED ? string_at(&elf->dynsym, dyn.d_un.d_val)
							: NULL;
			if (needed && text_begins(needed, name))
				return true;
		}
	}
	return false;
}

bool elf_is_static(const struct elf *elf)
{
	return !elf->has_interpreter && (elf->type == ET_EXEC || (elf->type == ET_DYN && elf->pie));
}

size_t elf_segments(const struct elf *elf, const struct elf_segment **segment)
{
	*segment = elf->segment;
	return elf->nsegments;
}

size_t elf_sections(const struct elf *elf, const struct elf_section **section)
{
	*section = elf->section;
	return elf->nsections;
}

const struct elf_section *elf_section(const struct elf *elf, const char *name)
{
	for (size_t i = 0; i < elf->nsections; i++) {
		if (elf->section[i].type != SHT_NULL && strcmp(elf->section[i].name, name) == 0)
			return &elf->section[i];
	}
	return NULL;
}

const uint8_t *elf_at(const struct elf *elf, uint64_t vaddr, size_t len, size_t *left)
{
	for (size_t i = 0; i < elf->nsegments; i++) {
		const struct elf_segment *s = &elf->segment[i];

		if (s->type != PT_LOAD || vaddr < s->vaddr || vaddr - s->vaddr > s->filesz ||
		    len > s->filesz - (vaddr - s->vaddr))
			continue;
		if (left)
			*left = s->filesz - (vaddr - s->vaddr);
		return elf->bytes + s->offset + (vaddr - s->vaddr);
	}
	return NULL;
}

unsigned elf_build_id(const struct elf *elf, const uint8_t **id)
{
	*id = elf->build_id;
	return elf->build_id_len;
}

/* ---- unwind sections ----------------------------------------------------- */

static bool part_of_section(const struct elf *elf, const char *name, struct elf_bytes *part)
{
	const struct elf_section *s = elf_section(elf, name);

	if (!s || s->type == SHT_NOBITS || !s->size)
		return false;
	*part = (struct elf_bytes){ s->addr, elf->bytes + s->offset, s->size };
	return true;
}

/*
 * Byte 1 of .eh_frame_hdr says how the address of .eh_frame is written: in practice relative to
 * itself, 4 bytes.
 */
static bool eh_frame_from_hdr(const struct elf *elf, const struct elf_bytes *hdr,
			      struct elf_bytes *eh_frame)
{
	size_t left;

	if (hdr->size < 8 || hdr->bytes[0] != 1 || hdr->bytes[1] != 0x1b)
		return false;
	eh_frame->vaddr = hdr->vaddr + 4 + (uint64_t)(int64_t)(int32_t)elf_u32(hdr->bytes + 4);
	eh_frame->bytes = elf_at(elf, eh_frame->vaddr, 4, &left);
	eh_frame->size = left < MAX_EH_FRAME ? left : MAX_EH_FRAME;
	return eh_frame->bytes;
}

bool elf_eh_frame(const struct elf *elf, struct elf_bytes *eh_frame, struct elf_bytes *hdr)
{
	*hdr = (struct elf_bytes){ 0 };
	for (size_t i = 0; i < elf->nsegments; i++) {
		const struct elf_segment *s = &elf->segment[i];

		if (s->type == PT_GNU_EH_FRAME && s->filesz)
			*hdr = (struct elf_bytes){ s->vaddr, elf->bytes + s->offset, s->filesz };
	}
	return (part_of_section(elf, ".eh_frame", eh_frame) ||
		(hdr->size && eh_frame_from_hdr(elf, hdr, eh_frame))) &&
	       eh_frame->size <= MAX_EH_FRAME;
}

/* ---- symbols ------------------------------------------------------------- */

static bool fill(const struct table *t, const Elf64_Sym *sym, bool dynamic, struct elf_symbol *out)
{
	const char *name;

	if (sym->st_shndx == SHN_UNDEF)
		return false;
	name = string_at(t, sym->st_name);
	if (!name || !*name)
		return false;
	*out = (struct elf_symbol){ name,
				    sym->st_value,
				    sym->st_size,
				    ELF64_ST_TYPE(sym->st_info),
				    ELF64_ST_BIND(sym->st_info),
				    dynamic };
	return true;
}

static bool symbol_fill(const struct table *t, const Elf64_Sym *sym, bool dynamic,
			struct elf_symbol *out)
{
	return sym->st_value && ELF64_ST_TYPE(sym->st_info) != STT_TLS &&
	       fill(t, sym, dynamic, out);
}

static bool thread_local_fill(const struct table *t, const Elf64_Sym *sym, bool dynamic,
			      struct elf_symbol *out)
{
	return ELF64_ST_TYPE(sym->st_info) == STT_TLS && fill(t, sym, dynamic, out);
}

typedef bool (*take_fn)(const struct table *t, const Elf64_Sym *sym, bool dynamic,
			struct elf_symbol *out);

/* Of .dynsym and then .symtab the next that TAKE takes. */
static bool next_symbol(const struct elf *elf, size_t *cursor, take_fn take,
			struct elf_symbol *symbol)
{
	Elf64_Sym sym;

	while (*cursor < elf->dynsym.count) {
		if (symbol_read(&elf->dynsym, (*cursor)++, &sym) &&
		    take(&elf->dynsym, &sym, true, symbol))
			return true;
	}
	while (*cursor - elf->dynsym.count < elf->symtab.count) {
		if (symbol_read(&elf->symtab, (*cursor)++ - elf->dynsym.count, &sym) &&
		    take(&elf->symtab, &sym, false, symbol))
			return true;
	}
	return false;
}

bool elf_next_thread_local(const struct elf *elf, size_t *cursor, struct elf_symbol *symbol)
{
	return next_symbol(elf, cursor, thread_local_fill, symbol);
}

bool elf_next_symbol(const struct elf *elf, size_t *cursor, struct elf_symbol *symbol)
{
	if (next_symbol(elf, cursor, symbol_fill, symbol))
		return true;
	while (*cursor - elf->dynsym.count - elf->symtab.count < elf->go.count) {
		struct gotab_function f;

		if (!gotab_function(&elf->go, (*cursor)++ - elf->dynsym.count - elf->symtab.count,
				    &f))
			continue;
		*symbol = (struct elf_symbol){ f.name,	 f.start,   f.end - f.start,
					       STT_FUNC, STB_LOCAL, false };
		return true;
	}
	return false;
}

bool elf_imports(const struct elf *elf, const char *prefix)
{
	size_t len = strlen(prefix);
	Elf64_Sym sym;

	for (size_t i = 0; symbol_read(&elf->dynsym, i, &sym); i++) {
		const char *name = sym.st_shndx == SHN_UNDEF ? string_at(&elf->dynsym, sym.st_name)
							     : NULL;

		if (name && strncmp(name, prefix, len) == 0)
			return true;
	}
	return false;
}

bool elf_has_functions(const struct elf *elf)
{
	struct elf_symbol s;
	size_t cursor = 0;

	while (elf_next_symbol(elf, &cursor, &s)) {
		if (s.type == STT_FUNC)
			return true;
	}
	return false;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* First candidate's index in the chain of HASH; 0 if the name is certainly not there. */
static uint32_t hash_first(const struct gnu_hash *g, uint32_t hash)
{
	uint64_t word;

	memcpy(&word, g->bloom + 8ull * (hash / 64 & (g->nblooms - 1)), 8);
	if (!(word >> (hash % 64) & word >> (hash >> g->shift) % 64 & 1))
		return 0;
	return elf_u32(g->bucket + 4ull * (hash % g->nbuckets));
}

/* From symbol I on along its chain. */
static bool hash_find(const struct elf *elf, const char *name, uint32_t i, size_t *cursor,
		      struct elf_symbol *symbol)
{
	const struct gnu_hash *g = &elf->hash;
	uint32_t hash = gnu_hash(name), link,
		 end = i < UINT32_MAX - MAX_CHAIN ? i + MAX_CHAIN : UINT32_MAX;
	Elf64_Sym sym;

	for (; i < end && i >= g->first && i - g->first < g->nchain && i < elf->dynsym.count; i++) {
		link = elf_u32(g->chain + 4ull * (i - g->first));
		if ((link | 1) == (hash | 1) && symbol_read(&elf->dynsym, i, &sym) &&
		    symbol_fill(&elf->dynsym, &sym, true, symbol) &&
		    strcmp(symbol->name, name) == 0) {
			*cursor = link & 1 ? elf->dynsym.count : (size_t)i + 1;
			return true;
		}
		if (link & 1)
			break;
	}
	return false;
}

bool elf_find_exported(const struct elf *elf, const char *name, size_t *cursor,
		       struct elf_symbol *symbol)
{
	uint32_t i;

	if (*cursor >= elf->dynsym.count)
		return false;
	if (elf->hash.bucket) {
		i = *cursor ? (uint32_t)*cursor : hash_first(&elf->hash, gnu_hash(name));
		if (i && hash_find(elf, name, i, cursor, symbol))
			return true;
		*cursor = elf->dynsym.count;
		return false;
	}
	while (*cursor < elf->dynsym.count && elf_next_symbol(elf, cursor, symbol) &&
	       symbol->dynamic) {
		if (strcmp(symbol->name, name) == 0)
			return true;
	}
	*cursor = elf->dynsym.count;
	return false;
}

bool elf_find(const struct elf *elf, const char *name, size_t *cursor, struct elf_symbol *symbol)
{
	if (elf_find_exported(elf, name, cursor, symbol))
		return true;
	while (elf_next_symbol(elf, cursor, symbol)) {
		if (strcmp(symbol->name, name) == 0)
			return true;
	}
	return false;
}

bool elf_defines(const struct elf *elf, const char *name)
{
	struct elf_symbol symbol;
	size_t cursor = 0;

	return elf_find(elf, name, &cursor, &symbol);
}

bool elf_is_function(const struct elf_symbol *symbol)
{
	return symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC;
}

uint64_t elf_next_address(const struct elf *elf, uint64_t vaddr)
{
	uint64_t next = UINT64_MAX;
	struct elf_symbol s;
	size_t cursor = 0;

	while (elf_next_symbol(elf, &cursor, &s)) {
		if (s.value > vaddr && s.value < next)
			next = s.value;
	}
	return next;
}
