// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/symtab.h"

#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bounds.h"
#include "base/search.h"
#include "symbols/go_functions.h"
#include "symbols/names.h"

/*
 * symtab.c - functions by address.
 *
 * One array sorted by start. Symbols overlap (aliases, cold parts, labels inside of assembly), so
 * each entry also knows how far the ones up to it reach: a search goes back from the last start at
 * or below the address to the nearest symbol that covers it, and stops where none can. Symbols
 * without a size (assembly) cover what lies between them and the next symbol, within their section.
 */

#define PLT_ENTRY_BYTES 16
#define SYMBOLS_MAX	(4u << 20) /* some 200 MB */
#define NAME_MOST	16384u

/*
 * Names may overlap in their table: millions of long ones fit in a small file, and each is measured
 * and compared. Together they may have as many bytes as are ordinary for the table's size and more;
 * after that only short ones are taken.
 */
#define NAMES_TABLES 8u		 /* times what the table has */
#define NAMES_LEAST  (16u << 20) /* bytes */
#define NAME_SHORT   256u

struct symbol {
	uint64_t start, end; /* end == start: size unknown */
	uint64_t limit;	     /* the end of its section */
	uint64_t reach;	     /* the highest end of this and all symbols before it */
	const char *name;
	int rank; /* of symbols alike, the lowest is shown */
};

struct symtab {
	struct symbol *symbol;
	size_t count, room;
};

struct symtab *symtab_new(void) { return calloc(1, sizeof(struct symtab)); }

void symtab_free(struct symtab *t)
{
	if (!t)
		return;
	free(t->symbol);
	free(t);
}

static int add(struct symtab *t, const struct symbol *s)
{
	if (t->count >= SYMBOLS_MAX ||
	    array_room(&t->symbol, t->count, &t->room, sizeof(*t->symbol)))
		return -ENOMEM;
	t->symbol[t->count++] = *s;
	return 0;
}

/* What the names of a table of SIZE bytes may have together. */
static uint64_t names_budget(size_t size) { return (uint64_t)size * NAMES_TABLES + NAMES_LEAST; }

/* The length of NAME, which is taken from BUDGET; 0: it is empty or too long. */
static size_t name_length(uint64_t *budget, const char *name)
{
	size_t most = *budget ? NAME_MOST : NAME_SHORT, len = strnlen(name, most);

	*budget -= least(*budget, len);
	return len < most ? len : 0;
}

struct strings {
	const char *text; /* all that begin in it end in it */
	size_t size;
	uint64_t budget;
};

static struct strings strings_of(Elf *elf, size_t section)
{
	Elf_Scn *scn = elf_getscn(elf, section);
	struct strings s = { 0 };
	const char *last;
	GElf_Shdr shdr;
	Elf_Data *data;

	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB)
		return s;
	data = elf_getdata(scn, NULL);
	last = data && data->d_buf ? memrchr(data->d_buf, '\0', data->d_size) : NULL;
	if (!last)
		return s;
	s.text = data->d_buf;
	s.size = (size_t)(last - s.text) + 1;
	s.budget = names_budget(s.size);
	return s;
}

static const char *string_at(const struct strings *s, size_t at)
{
	return at < s->size ? s->text + at : NULL;
}

/*
 * Of names for one address: functions before labels, global before weak before local, few leading
 * underscores, short.
 */
static int rank(const GElf_Sym *sym, const char *name, size_t len)
{
	unsigned bind = GELF_ST_BIND(sym->st_info);
	int score = GELF_ST_TYPE(sym->st_info) == STT_NOTYPE ? 1 << 20 : 0;
	size_t bars = 0;

	score += (bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2) << 16;
	if (strncmp(name, "_Z", 2) && strncmp(name, "_R", 2))
		while (bars < 15 && name[bars] == '_')
			bars++;
	return score + ((int)bars << 12) + (int)(len < 4096 ? len : 4095);
}

static bool is_function(const GElf_Sym *sym, const char *name)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF ||
	    (sym->st_shndx >= SHN_LORESERVE && sym->st_shndx != SHN_XINDEX) || !name[0])
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	return type == STT_NOTYPE && name[0] != '.' && name[0] != '$';
}

static int add_table(struct symtab *t, Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	struct strings strings = strings_of(elf, shdr->sh_link);
	size_t count, nsections = 0;
	GElf_Shdr *section;
	int err = 0;

	if (!data || !shdr->sh_entsize || elf_getshdrnum(elf, &nsections) < 0)
		return 0;
	section = calloc(nsections + 1, sizeof(*section));
	if (!section)
		return -ENOMEM;
	for (size_t i = 1; i < nsections; i++)
		gelf_getshdr(elf_getscn(elf, i), &section[i]);
	count = data->d_size / shdr->sh_entsize;
	for (size_t i = 1; i < count && !err; i++) {
		struct symbol s = { 0 };
		const GElf_Shdr *in;
		GElf_Sym sym;
		size_t len;

		if (!gelf_getsym(data, (int)i, &sym))
			break;
		s.name = string_at(&strings, sym.st_name);
		if (!s.name || !is_function(&sym, s.name) || sym.st_shndx >= nsections)
			continue;
		in = &section[sym.st_shndx];
		if (!(in->sh_flags & SHF_EXECINSTR) || sym.st_value < in->sh_addr ||
		    sym.st_value - in->sh_addr >= in->sh_size)
			continue;
		len = name_length(&strings.budget, s.name);
		if (!len)
			continue;
		s.start = sym.st_value;
		s.limit = in->sh_addr + in->sh_size;
		s.end = sym.st_size > s.limit - s.start ? s.limit : s.start + sym.st_size;
		s.rank = rank(&sym, s.name, len);
		err = add(t, &s);
	}
	free(section);
	return err;
}

int symtab_add(struct symtab *t, Elf *elf)
{
	bool seen[2] = { false, false }; /* a file has one of each kind */
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		int err = 0;

		if (!gelf_getshdr(scn, &shdr) ||
		    (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM) ||
		    seen[shdr.sh_type == SHT_DYNSYM])
			continue;
		seen[shdr.sh_type == SHT_DYNSYM] = true;
		err = add_table(t, elf, scn, &shdr);
		if (err)
			return err;
	}
	return 0;
}

/* ---- the PLT ------------------------------------------------------------- */

static Elf_Scn *find_section(Elf *elf, const char *want, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, shdr) ? elf_strptr(elf, strings, shdr->sh_name)
							   : NULL;

		if (name && !strcmp(name, want))
			return scn;
	}
	return NULL;
}

/*
 * Entry i of .plt.sec, or i + 1 of a .plt whose first entry is the resolver's, is for relocation i
 * of .rela.plt.
 */
int symtab_add_plt(struct symtab *t, Elf *elf, struct names *names)
{
	GElf_Shdr plt, rela, syms;
	Elf_Scn *scn = find_section(elf, ".rela.plt", &rela);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL, *symbols;
	uint64_t first;

	if (!data || rela.sh_entsize == 0 || !(scn = elf_getscn(elf, rela.sh_link)) ||
	    !gelf_getshdr(scn, &syms) || !(symbols = elf_getdata(scn, NULL)))
		return 0;
	if (find_section(elf, ".plt.sec", &plt))
		first = plt.sh_addr;
	else if (find_section(elf, ".plt", &plt))
		first = plt.sh_addr + PLT_ENTRY_BYTES;
	else
		return 0;
	for (size_t i = 0; i < data->d_size / rela.sh_entsize; i++) {
		struct symbol s = { .start = first + i * PLT_ENTRY_BYTES,
				    .limit = plt.sh_addr + plt.sh_size };
		const char *name;
		char text[512];
		GElf_Rela r;
		GElf_Sym sym;
		int err;

		s.end = s.start + PLT_ENTRY_BYTES;
		if (s.end > s.limit || s.end < s.start || !gelf_getrela(data, (int)i, &r) ||
		    !gelf_getsym(symbols, (int)GELF_R_SYM(r.r_info), &sym))
			break;
		name = elf_strptr(elf, syms.sh_link, sym.st_name);
		if (!name || !name[0] ||
		    snprintf(text, sizeof(text), "%s@plt", name) >= (int)sizeof(text))
			continue;
		s.name = names_intern(names, text);
		err = add(t, &s);
		if (err)
			return err;
	}
	return 0;
}

/* ---- Go ------------------------------------------------------------------ */

int symtab_add_go(struct symtab *t, Elf *elf)
{
	static const char *const place[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	GElf_Shdr shdr, text;
	Elf_Scn *scn = NULL;
	struct gotab_function f;
	struct gotab go;
	Elf_Data *data;
	uint64_t budget;
	int err = 0;

	if (find_section(elf, ".symtab", &shdr) || !find_section(elf, ".text", &text))
		return 0;
	for (size_t i = 0; i < 2 && !scn; i++)
		scn = find_section(elf, place[i], &shdr);
	data = scn ? elf_getdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || !gotab_open(&go, data->d_buf, data->d_size, text.sh_addr))
		return 0;
	budget = names_budget(data->d_size);
	for (size_t i = 0; i < go.count && i < SYMBOLS_MAX && !err; i++)
		if (gotab_function(&go, i, &f) && f.start >= text.sh_addr &&
		    f.end <= text.sh_addr + text.sh_size && name_length(&budget, f.name))
			err = add(t, &(struct symbol){ .name = f.name,
						       .start = f.start,
						       .end = f.end,
						       .limit = text.sh_addr + text.sh_size });
	return err;
}

/* ---- searching ----------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		/* the best last: searches come from above */
		return x->rank > y->rank ? -1 : 1;
	return x->name == y->name ? 0 : strcmp(x->name, y->name);
}

void symtab_finish(struct symtab *t)
{
	uint64_t reach = 0;

	if (t->count)
		qsort(t->symbol, t->count, sizeof(t->symbol[0]), compare);
	for (size_t i = 0; i < t->count; i++) {
		if (t->symbol[i].end > reach)
			reach = t->symbol[i].end;
		t->symbol[i].reach = reach;
	}
}

/* The symbol that ADDR is in; NULL: it is in none. */
static const struct symbol *find(const struct symtab *t, uint64_t addr)
{
	size_t at = SEARCH(i, t->count, t->symbol[i].start <= addr);

	for (size_t i = at; i > 0 && t->symbol[i - 1].reach > addr; i--)
		if (t->symbol[i - 1].end > addr)
			return &t->symbol[i - 1];
	if (at > 0) {
		const struct symbol *s = &t->symbol[at - 1];

		if (s->end == s->start && addr < s->limit)
			return s;
	}
	return NULL;
}

const char *symtab_find(const struct symtab *t, uint64_t addr)
{
	const struct symbol *s = find(t, addr);

	return s ? s->name : NULL;
}

size_t symtab_aliases(const struct symtab *t, uint64_t addr, const char **name, size_t most)
{
	const struct symbol *s = find(t, addr);
	size_t n = 0;

	/* the others are before it: the best was last */
	for (size_t i = s ? (size_t)(s - t->symbol) + 1 : 0; i > 0 && n < most; i--) {
		const struct symbol *other = &t->symbol[i - 1];
		bool known = false;

		if (other->start != s->start)
			break;
		for (size_t k = 0; k < n && !known; k++)
			known = name[k] == other->name || !strcmp(name[k], other->name);
		if (!known)
			name[n++] = other->name;
	}
	return n;
}
