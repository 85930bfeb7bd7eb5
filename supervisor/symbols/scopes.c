// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbols/scopes.h"

#include <dwarf.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "symbols/debugfile.h"
#include "symbols/demangle.h"
#include "symbols/names.h"

/*
 * scopes.c - functions, inlined functions and lines by address, from DWARF by libdw.
 *
 * libdw answers "what is at this address" by walking a unit's whole tree each time. Stacks ask that
 * tens of thousands of times, so the tree is walked once per unit and flattened:
 *
 *	scopes      one per subprogram and inlined subroutine that has code, each knowing the scope
 *	            around it
 *	segments    [start, start of the next) -> the innermost scope, or none; sorted, without
 *	            overlap
 *	containers  namespaces, classes and functions as ranges of DIE offsets: the qualified name
 *	            of a DIE that has no linkage name
 *
 * A question is then two binary searches (unit, segment) and a walk from the innermost scope
 * outwards. Which unit an address is in is told by the units' own range lists; .debug_aranges,
 * which clang does not write and gcc leaves incomplete, is asked only about units that have none.
 *
 * DWARF comes from files that anybody may have made: trees are walked with a budget of one DIE per
 * byte, siblings must lead forward, nesting is bounded. A byte of a line table can be a line, which
 * libdw takes eighty for: there are no more bytes than go with the code that there is.
 */

#define DEPTH_MAX    200 /* nested DIEs; compilers stay below 50 */
#define SEGMENTS_MAX (4u << 20)
/* of all units: as many are looked at, wherever they are listed */
#define RANGES_MAX    (4u << 20)
#define QUALIFIED_MAX 4096 /* bytes of a name put together */
/*
 * Bytes of line tables that are read, for each of code, and anyway. Compilers write about one for
 * each; linkers leave those of functions that they dropped.
 */
#define LINES_PER_CODE 16u
#define LINES_ANYWAY   (1u << 20)
/* the same of ranges of scopes */
#define RANGES_PER_CODE 4u
#define RANGES_ANYWAY	(1u << 16)

struct scope {
	Dwarf_Die die;
	/* the scope that an inlined function was inlined into; -1: none */
	int32_t parent;
	bool inlined;
	bool resolved; /* the fields below are filled in */
	uint64_t copy; /* as in struct scope_frame */
	const struct name *name;
	const char *call_file;
	unsigned call_line, call_column;
};

struct segment {
	uint64_t low, high;
	int32_t scope; /* -1: none */
	int32_t depth; /* while they still overlap */
};

struct container {
	Dwarf_Off low, high; /* the DIEs within */
	Dwarf_Die die;
	int32_t parent;
};

struct copy {			 /* a function that was not inlined, at least here */
	const void *declaration; /* its DIE */
	uint64_t low;
};

struct unit {
	const void *cu; /* libdw's, the key of the tree of units */
	Dwarf_Die die;
	bool walked;
	bool has_ranges;	     /* its own DIE says where its code is */
	bool lines_known, has_lines; /* its line table may be read */
	struct scope *scope;
	struct segment *segment;
	struct container *container;
	struct copy *copy; /* sorted; made when first asked for */
	size_t copies;
	size_t scopes, segments, containers, scope_room, segment_room, container_room;
	uint64_t budget; /* DIEs that may still be visited */
	/* ranges of scopes that were looked at: many DIEs may name one list */
	size_t looked;
};

struct range {			   /* of addresses, to a unit */
	uint64_t low, high, reach; /* reach: the highest end so far */
	struct unit *unit;
};

struct scopes {
	Dwarf *dwarf;
	struct names *names;
	struct scope_span *span;
	size_t spans;
	void *units; /* tree of struct unit */
	struct range *range;
	size_t ranges, range_room;
	bool indexed, split;   /* split: a unit's rest is in a .dwo file */
	const Elf_Data *lines; /* .debug_line */
	uint64_t lines_left;   /* bytes of it that may still be read, */
	uint64_t ranges_left;  /* and ranges of scopes */
};

/* ---- small things -------------------------------------------------------- */

/* Linkers leave the ranges of functions they dropped at 0 or so. */
static bool is_code(const struct scopes *s, uint64_t low, uint64_t high)
{
	for (size_t i = 0; i < s->spans; i++)
		if (low >= s->span[i].low && low < s->span[i].high)
			return high > low;
	return false;
}

static int compare_units(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	return x->cu < y->cu ? -1 : x->cu > y->cu;
}

/* The record of the unit whose DIE is CUDIE. NULL: out of memory. */
static struct unit *unit_of(struct scopes *s, const Dwarf_Die *cudie)
{
	struct unit key = { .cu = cudie->cu }, *u;
	struct unit **found = tfind(&key, &s->units, compare_units);

	if (found)
		return *found;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->cu = cudie->cu;
	u->die = *cudie;
	if (!tsearch(u, &s->units, compare_units)) {
		free(u);
		return NULL;
	}
	return u;
}

static void free_unit(void *unit)
{
	struct unit *u = unit;

	free(u->scope);
	free(u->segment);
	free(u->container);
	free(u->copy);
	free(u);
}

/* As libdw has it: unpacked. */
static const Elf_Data *find_lines(Elf *elf)
{
	Elf_Scn *scn = debugfile_section(elf, ".debug_line");

	if (!scn)
		scn = debugfile_section(elf, ".zdebug_line");
	return scn ? elf_getdata(scn, NULL) : NULL;
}

struct scopes *scopes_new(Dwarf *dwarf, const struct scope_span *span, size_t nspans,
			  struct names *names)
{
	struct scopes *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->dwarf = dwarf;
	s->names = names;
	s->spans = nspans;
	s->span = calloc(nspans ? nspans : 1, sizeof(*span));
	if (!s->span) {
		free(s);
		return NULL;
	}
	memcpy(s->span, span, nspans * sizeof(*span));
	s->lines = find_lines(dwarf_getelf(dwarf));
	s->lines_left = LINES_ANYWAY;
	s->ranges_left = RANGES_ANYWAY;
	for (size_t i = 0; i < nspans; i++) {
		s->lines_left += span[i].stored * LINES_PER_CODE;
		s->ranges_left += span[i].stored * RANGES_PER_CODE;
	}
	return s;
}

void scopes_free(struct scopes *s)
{
	if (!s)
		return;
	tdestroy(s->units, free_unit);
	free(s->range);
	free(s->span);
	free(s);
}

bool scopes_whole(const struct scopes *s) { return s->indexed && !s->split; }

/* ---- which unit ---------------------------------------------------------- */

static void add_range(struct scopes *s, uint64_t low, uint64_t high, struct unit *u)
{
	if (is_code(s, low, high) &&
	    !array_room(&s->range, s->ranges, &s->range_room, sizeof(*s->range)))
		s->range[s->ranges++] = (struct range){ .low = low, .high = high, .unit = u };
}

/* Units that say nothing about their addresses. */
static void add_aranges(struct scopes *s)
{
	Dwarf_Aranges *table;
	size_t count;

	if (dwarf_getaranges(s->dwarf, &table, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Arange *a = dwarf_onearange(table, i);
		Dwarf_Addr low;
		Dwarf_Word len;
		Dwarf_Off offset;
		Dwarf_Die die;
		struct unit *u;

		if (!a || dwarf_getarangeinfo(a, &low, &len, &offset) != 0 ||
		    !dwarf_offdie(s->dwarf, offset, &die) || !(u = unit_of(s, &die)))
			continue;
		if (!u->has_ranges)
			add_range(s, low, low + len, u);
	}
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return x->high > y->high ? -1 : x->high < y->high;
}

static void index_units(struct scopes *s)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;
	size_t looked = 0;
	bool silent = false;

	s->indexed = true;
	while (dwarf_get_units(s->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
		Dwarf_Addr base, low, high;
		ptrdiff_t next = 0;
		struct unit *u;
		size_t before = s->ranges;

		s->split |= type == DW_UT_skeleton;
		if ((type != DW_UT_compile && type != DW_UT_skeleton) ||
		    dwarf_tag(&die) == DW_TAG_partial_unit || !(u = unit_of(s, &die)))
			continue;
		for (; looked < RANGES_MAX &&
		       (next = dwarf_ranges(&die, next, &base, &low, &high)) > 0;
		     looked++)
			add_range(s, low, high, u);
		u->has_ranges = s->ranges > before;
		silent |= !u->has_ranges;
	}
	if (silent)
		add_aranges(s);
	if (s->ranges)
		qsort(s->range, s->ranges, sizeof(s->range[0]), compare_ranges);
	for (size_t i = 0; i < s->ranges; i++) {
		s->range[i].reach = s->range[i].high;
		if (i && s->range[i - 1].reach > s->range[i].reach)
			s->range[i].reach = s->range[i - 1].reach;
	}
}

/* The number of ranges that begin at or below ADDR. */
static size_t ranges_up_to(const struct scopes *s, uint64_t addr)
{
	return SEARCH(i, s->ranges, s->range[i].low <= addr);
}

/* ---- a unit's tree ------------------------------------------------------- */

static bool is_container(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
	case DW_TAG_subprogram: return true;
	default: return false;
	}
}

static bool is_block(int tag)
{
	switch (tag) {
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
	case DW_TAG_common_block: return true;
	default: return false;
	}
}

/* Adds DIE as a scope if it has code. Its index, or -1. */
static int32_t add_scope(struct scopes *s, struct unit *u, Dwarf_Die *die, int tag, int32_t parent,
			 int depth)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t next = 0;
	int32_t index = -1;

	for (; u->looked < SEGMENTS_MAX && (next = dwarf_ranges(die, next, &base, &low, &high)) > 0;
	     u->looked++) {
		if (!is_code(s, low, high) || !s->ranges_left)
			continue;
		s->ranges_left--;
		if (index < 0) {
			if (array_room(&u->scope, u->scopes, &u->scope_room, sizeof(*u->scope)))
				return -1;
			index = (int32_t)u->scopes++;
			u->scope[index] =
				(struct scope){ .die = *die,
						.parent = tag == DW_TAG_inlined_subroutine ? parent
											   : -1,
						.inlined = tag == DW_TAG_inlined_subroutine };
		}
		if (!array_room(&u->segment, u->segments, &u->segment_room, sizeof(*u->segment)))
			u->segment[u->segments++] = (struct segment){
				.low = low, .high = high, .scope = index, .depth = depth
			};
	}
	return index;
}

static int32_t add_container(struct unit *u, Dwarf_Die *die, int32_t parent)
{
	if (array_room(&u->container, u->containers, &u->container_room, sizeof(*u->container)))
		return -1;
	u->container[u->containers] =
		(struct container){ .low = dwarf_dieoffset(die), .die = *die, .parent = parent };
	return (int32_t)u->containers++;
}

static void walk(struct scopes *s, struct unit *u, Dwarf_Die *parent, int32_t scope,
		 int32_t container, int depth)
{
	Dwarf_Off last = dwarf_dieoffset(parent);
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);
		Dwarf_Off offset = dwarf_dieoffset(&die);
		int32_t inner = scope, own = container;

		if (offset <= last || u->budget-- == 0) { /* backwards, or round and round */
			u->budget = 0;
			return;
		}
		last = offset;
		if (container >= 0)
			u->container[container].high = offset;
		if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
			inner = add_scope(s, u, &die, tag, scope, depth);
			if (tag == DW_TAG_inlined_subroutine && inner < 0)
				inner = scope;
		}
		if (!dwarf_haschildren(&die))
			continue;
		if (is_container(tag))
			own = add_container(u, &die, container);
		else if (tag != DW_TAG_inlined_subroutine && !is_block(tag))
			continue;
		walk(s, u, &die, inner, own, depth + 1);
		if (own >= 0 && container >= 0 &&
		    u->container[own].high > u->container[container].high)
			u->container[container].high = u->container[own].high;
	} while (u->budget && dwarf_siblingof(&die, &die) == 0);
}

/* Outer before inner. */
static int compare_segments(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	if (x->high != y->high)
		return x->high > y->high ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return x->scope < y->scope ? -1 : x->scope > y->scope;
}

struct flattening {
	struct segment *out;
	size_t count, room;
	struct segment *open; /* stack of those that POS is within */
	size_t opened, open_room;
	uint64_t pos;
};

/* What lies between the last position and UP_TO belongs to the innermost open one. */
static void emit(struct flattening *f, uint64_t up_to, int32_t scope)
{
	if (up_to <= f->pos)
		return;
	if (!array_room(&f->out, f->count, &f->room, sizeof(*f->out)))
		f->out[f->count++] =
			(struct segment){ .low = f->pos, .high = up_to, .scope = scope };
	f->pos = up_to;
}

static void close_until(struct flattening *f, uint64_t addr)
{
	while (f->opened && f->open[f->opened - 1].high <= addr) {
		emit(f, f->open[f->opened - 1].high, f->open[f->opened - 1].scope);
		f->opened--;
	}
}

/* Turns nested ranges into segments side by side. */
static void flatten(struct unit *u)
{
	struct flattening f = { 0 };

	if (u->segments)
		qsort(u->segment, u->segments, sizeof(u->segment[0]), compare_segments);
	for (size_t i = 0; i < u->segments; i++) {
		const struct segment *g = &u->segment[i];

		close_until(&f, g->low);
		if (f.opened)
			emit(&f, g->low, f.open[f.opened - 1].scope);
		if (g->low > f.pos)
			f.pos = g->low;
		if (!array_room(&f.open, f.opened, &f.open_room, sizeof(*f.open)))
			f.open[f.opened++] = *g;
	}
	close_until(&f, UINT64_MAX);
	free(f.open);
	free(u->segment);
	u->segment = f.out;
	u->segments = f.count;
}

static void walk_unit(struct scopes *s, struct unit *u)
{
	Dwarf_Die root = u->die, split;
	Dwarf_Off offset, next;
	size_t header;
	uint8_t type;

	if (u->walked)
		return;
	u->walked = true;
	if (dwarf_cu_info(root.cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) == 0 &&
	    type == DW_UT_skeleton &&
	    dwarf_cu_info(root.cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) == 0 && split.addr)
		root = split;
	/* No DIE is smaller than a byte, and no unit larger than what follows its DIE. */
	offset = dwarf_dieoffset(&root) - dwarf_cuoffset(&root);
	u->budget = dwarf_nextcu(dwarf_cu_getdwarf(root.cu), offset, &next, &header, NULL, NULL,
				 NULL) == 0 &&
				    next > offset
			    ? next - offset
			    : UINT32_MAX;
	walk(s, u, &root, -1, -1, 0);
	flatten(u);
}

/* ---- names --------------------------------------------------------------- */

static const char *string_attribute(Dwarf_Die *die, unsigned attribute)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, attribute, &attr));
}

/* The DIE that DIE is an instance or the definition of: where its name was declared. */
static void declaration(Dwarf_Die *die)
{
	for (int i = 0; i < 16; i++) {
		Dwarf_Attribute attr;
		Dwarf_Die origin;

		if (!dwarf_attr(die, DW_AT_abstract_origin, &attr) &&
		    !dwarf_attr(die, DW_AT_specification, &attr))
			return;
		if (!dwarf_formref_die(&attr, &origin))
			return;
		*die = origin;
	}
}

/* The innermost container of DIE in its unit, NULL: it is at the top. */
static struct container *container_of(struct scopes *s, Dwarf_Die *die, struct unit **unit)
{
	Dwarf_Off offset = dwarf_dieoffset(die);
	Dwarf_Die cudie;
	struct unit *u;
	size_t above;

	if (!dwarf_diecu(die, &cudie, NULL, NULL) || !(u = unit_of(s, &cudie)))
		return NULL;
	walk_unit(s, u);
	*unit = u;
	above = SEARCH(i, u->containers, u->container[i].low < offset);
	for (int32_t i = (int32_t)above - 1; i >= 0; i = u->container[i].parent)
		if (u->container[i].high >= offset)
			return &u->container[i];
	return NULL;
}

/* NULL: it has a name, which cannot be read (dwz's common file is missing). */
static const char *plain_name(Dwarf_Die *die)
{
	if (dwarf_hasattr_integrate(die, DW_AT_name))
		return string_attribute(die, DW_AT_name);
	return dwarf_tag(die) == DW_TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
}

/* Whether FUNCTION, of a class without a name, is what compilers make of a lambda's body. */
static bool is_lambda(const char *function)
{
	static const char *const of[] = { "operator()", "_FUN", "__invoke" };

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		size_t len = strlen(of[i]);

		if (!strncmp(function, of[i], len) && (!function[len] || function[len] == '<'))
			return true;
	}
	return false;
}

/* gcc's `<lambda(int)>`, in names of templates, is in braces as the demangler's lambdas are. */
static void brace_lambdas(char *name)
{
	while ((name = strstr(name, "<lambda("))) {
		char *p = name + strlen("<lambda(");

		for (int depth = 1; *p && depth; p++)
			depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
		if (*p == '>') {
			*name = '{';
			*p = '}';
		}
		name++;
	}
}

/* Prepends "NAME::" or, at the end, "NAME" to what is in BUF from *START on. */
static bool prepend(char *buf, size_t *start, const char *name)
{
	size_t len = strlen(name), sep = buf[*start] ? 2 : 0;

	if (len + sep > *start)
		return false;
	*start -= len + sep;
	memcpy(buf + *start, name, len);
	memcpy(buf + *start + len, "::", sep);
	return true;
}

/*
 * The name of a function: the linkage name, or NULL and in BUF from *START on the qualified name
 * ("": none). Functions without a linkage name are C's, and in C++ those of local classes and
 * lambdas, and templates over them; their qualified name has no parameters.
 */
static const char *function_name(struct scopes *s, Dwarf_Die die, char *buf, size_t *start)
{
	*start = QUALIFIED_MAX - 1;
	buf[*start] = 0;
	for (int i = 0; i < DEPTH_MAX; i++) {
		const char *linkage = string_attribute(&die, DW_AT_linkage_name);
		const char *plain;
		struct container *c;
		struct unit *u;

		if (!linkage)
			linkage = string_attribute(&die, DW_AT_MIPS_linkage_name);
		if (linkage && demangle_kind(linkage) == MANGLING_NONE &&
		    dwarf_hasattr_integrate(&die, DW_AT_name))
			/* C: __GI_strdup is only how the assembler calls strdup */
			linkage = NULL;
		if (linkage && i == 0)
			return linkage;
		/* a local class of a function that has one */
		if (linkage && dwarf_tag(&die) == DW_TAG_subprogram) {
			const struct name *name = names_symbol(s->names, linkage);

			prepend(buf, start, name->text);
			return NULL;
		}
		plain = plain_name(&die);
		if (!plain || (i == 0 && !dwarf_hasattr_integrate(&die, DW_AT_name))) {
			buf[ *start = QUALIFIED_MAX - 1] = 0;
			return NULL;
		}
		if (i == 1 && dwarf_tag(&die) != DW_TAG_namespace && is_lambda(buf + *start) &&
		    !dwarf_hasattr_integrate(&die, DW_AT_name))
			plain = "{lambda}";
		if (!prepend(buf, start, plain))
			return NULL;
		declaration(&die);
		c = container_of(s, &die, &u);
		if (!c)
			return NULL;
		die = c->die;
	}
	return NULL;
}

/*
 * Drops what no one needs to read: "/./" and "//". Not "..", which may lead elsewhere where
 * directories are symbolic links.
 */
static void tidy(char *path)
{
	char *to = path;

	while (*path) {
		if (path[0] == '/' && path[1] == '/')
			path++;
		else if (path[0] == '/' && path[1] == '.' && path[2] == '/')
			path += 2;
		else
			*to++ = *path++;
	}
	*to = 0;
}

/*
 * libdw puts the directory before a file's name, but not always the unit's directory before a
 * relative one.
 */
static const char *source_path(struct scopes *s, struct unit *u, const char *path)
{
	const char *dir = NULL, *interned;
	size_t len = 0;
	char *whole;

	if (!path || !strcmp(path, "???"))
		return NULL;
	if (path[0] != '/')
		dir = string_attribute(&u->die, DW_AT_comp_dir);
	if (dir && dir[0] == '/') /* distributions make it ".", or like it */
		len = strlen(dir);
	whole = malloc(len + strlen(path) + 2);
	if (!whole)
		return names_intern(s->names, path);
	if (len) {
		memcpy(whole, dir, len);
		whole[len++] = '/';
	}
	strcpy(whole + len, path);
	tidy(whole);
	interned = names_intern(s->names, whole);
	free(whole);
	return interned;
}

/* What the line table at OFFSET says that it takes. */
static uint64_t line_table_size(const Elf_Data *lines, uint64_t offset)
{
	uint32_t size;
	uint64_t large;

	if (!lines || offset > lines->d_size || lines->d_size - offset < sizeof(size))
		return 0;
	memcpy(&size, (const char *)lines->d_buf + offset, sizeof(size));
	if (size != UINT32_MAX)
		return size;
	if (lines->d_size - offset < sizeof(size) + sizeof(large))
		return 0;
	memcpy(&large, (const char *)lines->d_buf + offset + sizeof(size), sizeof(large));
	return large;
}

static bool may_read_lines(struct scopes *s, struct unit *u)
{
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	uint64_t size;

	if (u->lines_known)
		return u->has_lines;
	u->lines_known = true;
	if (dwarf_formudata(dwarf_attr(&u->die, DW_AT_stmt_list, &attr), &offset) != 0)
		return u->has_lines = true; /* it has none, or libdw knows where */
	size = line_table_size(s->lines, offset);
	if (size > s->lines_left)
		return false;
	s->lines_left -= size;
	return u->has_lines = true;
}

static unsigned number_attribute(Dwarf_Die *die, unsigned attribute)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, attribute, &attr), &value) != 0 || value > INT32_MAX)
		return 0;
	return (unsigned)value;
}

static void resolve_call(struct scopes *s, struct unit *u, struct scope *scope)
{
	Dwarf_Die cudie;
	Dwarf_Files *files;
	Dwarf_Attribute attr;
	Dwarf_Word index;
	size_t count;

	scope->call_line = number_attribute(&scope->die, DW_AT_call_line);
	scope->call_column = number_attribute(&scope->die, DW_AT_call_column);
	if (may_read_lines(s, u) &&
	    dwarf_formudata(dwarf_attr(&scope->die, DW_AT_call_file, &attr), &index) == 0 &&
	    dwarf_diecu(&scope->die, &cudie, NULL, NULL) &&
	    dwarf_getsrcfiles(&cudie, &files, &count) == 0 && index < count)
		scope->call_file = source_path(s, u, dwarf_filesrc(files, index, NULL, NULL));
}

static bool is_cxx(Dwarf_Die *die)
{
	Dwarf_Die cudie;

	if (!dwarf_diecu(die, &cudie, NULL, NULL))
		return false;
	switch (dwarf_srclang(&cudie)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	/* C++17 and C++20, which libdw 0.188's header has no names for */
	case 0x2b:
	case 0x2c: return true;
	default: return false;
	}
}

static int compare_copies(const void *a, const void *b)
{
	const struct copy *x = a, *y = b;

	return x->declaration < y->declaration ? -1 : x->declaration > y->declaration;
}

static void find_copies(struct unit *u)
{
	u->copy = calloc(u->scopes, sizeof(*u->copy));
	for (size_t i = 0; u->copy && i < u->scopes; i++) {
		Dwarf_Die die = u->scope[i].die;
		Dwarf_Addr base, low, high;

		if (u->scope[i].inlined || dwarf_ranges(&die, 0, &base, &low, &high) <= 0)
			continue;
		declaration(&die);
		u->copy[u->copies++] = (struct copy){ .declaration = die.addr, .low = low };
	}
	if (u->copies)
		qsort(u->copy, u->copies, sizeof(*u->copy), compare_copies);
}

static uint64_t copy_of(struct unit *u, Dwarf_Die die)
{
	struct copy key, *found;

	if (!u->copy)
		find_copies(u);
	declaration(&die);
	key.declaration = die.addr;
	found = u->copies ? bsearch(&key, u->copy, u->copies, sizeof(key), compare_copies) : NULL;
	return found ? found->low : 0;
}

static void resolve_scope(struct scopes *s, struct unit *u, struct scope *scope)
{
	char *buf = malloc(QUALIFIED_MAX);
	const char *linkage;
	size_t start;

	scope->resolved = true;
	if (scope->inlined)
		resolve_call(s, u, scope);
	if (!buf)
		return;
	linkage = function_name(s, scope->die, buf, &start);
	if (!linkage)
		brace_lambdas(buf + start);
	if (linkage || buf[start])
		scope->name = names_symbol(s->names, linkage ? linkage : buf + start);
	if (!linkage && scope->name && is_cxx(&scope->die))
		scope->copy = copy_of(u, scope->die);
	free(buf);
}

/* ---- questions ----------------------------------------------------------- */

static int32_t scope_at(const struct unit *u, uint64_t addr)
{
	size_t at = SEARCH(i, u->segments, u->segment[i].high <= addr);

	return at < u->segments && u->segment[at].low <= addr ? u->segment[at].scope : -1;
}

static void find_line(struct scopes *s, struct unit *u, uint64_t addr, struct scope_frame *at)
{
	Dwarf_Line *line = may_read_lines(s, u) ? dwarf_getsrc_die(&u->die, addr) : NULL;
	int number;

	if (!line)
		return;
	at->file = source_path(s, u, dwarf_linesrc(line, NULL, NULL));
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		at->line = (unsigned)number;
	if (dwarf_linecol(line, &number) == 0 && number > 0)
		at->column = (unsigned)number;
}

static size_t find_in_unit(struct scopes *s, struct unit *u, uint64_t addr,
			   struct scope_frame *frame, size_t max)
{
	struct scope_frame at = { 0 };
	int32_t index;
	size_t n = 0;

	walk_unit(s, u);
	find_line(s, u, addr, &at);
	index = scope_at(u, addr);
	if (index < 0) {
		if (!at.file)
			return 0;
		frame[0] = at;
		return 1;
	}
	while (index >= 0) {
		struct scope *scope;

		if (!u->scope[index].resolved)
			resolve_scope(s, u, &u->scope[index]);
		scope = &u->scope[index];
		at.name = scope->name;
		at.inlined = scope->inlined;
		at.copy = scope->copy;
		if (n == max)
			n--;
		/* a part of a function that gcc split off may be inlined without a name */
		if (at.name || !at.inlined)
			frame[n++] = at;
		at = (struct scope_frame){ .file = scope->call_file,
					   .line = scope->call_line,
					   .column = scope->call_column };
		index = scope->parent;
	}
	return n;
}

size_t scopes_find(struct scopes *s, uint64_t addr, struct scope_frame *frame, size_t max)
{
	struct unit *nameless = NULL;

	if (!s->indexed)
		index_units(s);
	/*
	 * Mostly one unit. Where ranges overlap: the one that begins last and knows a function,
	 * else any that knows a line.
	 */
	for (size_t i = ranges_up_to(s, addr); i > 0 && s->range[i - 1].reach > addr; i--) {
		struct range *r = &s->range[i - 1];
		size_t n = r->high > addr ? find_in_unit(s, r->unit, addr, frame, max) : 0;

		if (n && frame[n - 1].name)
			return n;
		if (n && !nameless)
			nameless = r->unit;
	}
	return nameless ? find_in_unit(s, nameless, addr, frame, max) : 0;
}
