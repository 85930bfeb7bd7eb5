// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/heapfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "base/escape.h"
#include "base/intern.h"
#include "inject/wire_stack.h"
#include "ledger/ledger.h"
#include "symbols/elf.h"

/*
 *	heap profile: ...		the sums
 *	 COUNT: BYTES [...] @ 0x...	a row of the profile each, with all its addresses
 *	MAPPED_LIBRARIES:		the modules as rows of /proc/PID/maps
 *	# mtrun heap 1			from here on what mtrun itself reads, man/mtrun-heap.5:
 *	# pid ...			facts
 *	# module ...
 *	# s, # f, # n			strings, frames, nodes of the tree of stacks: each before
 *	                                what refers to it
 *	# r				the rows once more, by node
 *	# end CRC			of all before
 *
 * It is written as a stream: of all stacks only a bit for each node is held, and a number for each
 * string and each list of frames.
 */
#define BUFFER 65536u
/* room for what is put in one piece; strings are put byte by byte */
#define LINE 512u

struct writer {
	FILE *out;
	char buffer[BUFFER + LINE];
	size_t len;
	uint32_t crc;
	struct intern strings, lists; /* lists of frames, by their first frame */
	uint32_t *first;	      /* by list: its first frame's number */
	size_t first_room;
	uint32_t frames;
	struct sites *sites;
};

static void flush(struct writer *w)
{
	w->crc = (uint32_t)crc32(w->crc, (const Bytef *)w->buffer, (uInt)w->len);
	fwrite(w->buffer, 1, w->len, w->out);
	w->len = 0;
}

static void put_char(struct writer *w, char c)
{
	w->buffer[w->len++] = c;
	if (w->len >= BUFFER)
		flush(w);
}

/* Less than LINE bytes. */
static void PRINTF(2, 3) put(struct writer *w, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(w->buffer + w->len, LINE, format, args);
	va_end(args);
	w->len += n > 0 ? (size_t)n : 0;
	if (w->len >= BUFFER)
		flush(w);
}

static void put_address(struct writer *w, uint64_t address)
{
	static const char digit[] = "0123456789abcdef";
	char text[16];
	size_t n = sizeof(text);

	do
		text[--n] = digit[address & 15];
	while (address >>= 4);
	put_char(w, ' ');
	put_char(w, '0');
	put_char(w, 'x');
	while (n < sizeof(text))
		put_char(w, text[n++]);
}

/*
 * To the end of a line. What is unsafe to print (escape.h) is written byte by byte as \xNN, so that
 * readers need to know of nothing else. An equals sign would be an assignment to readers of
 * MAPPED_LIBRARIES.
 */
static void put_text(struct writer *w, const char *text)
{
	char as[ESCAPE_UNIT];

	for (size_t len; *text; text += len) {
		len = escape_unit(text, as);
		for (size_t i = 0; i < len; i++) {
			if (*as || text[i] == '=')
				put(w, "\\x%02x", (unsigned char)text[i]);
			else
				put_char(w, text[i]);
		}
	}
	put_char(w, '\n');
}

/* ---- what others read ---------------------------------------------------- */

static bool is_allocator(struct symbol_frames f)
{
	for (size_t i = 0; i < f.count; i++)
		if (!(f.frame[i].skip & SKIP_ALLOCATOR))
			return false;
	return true;
}

/*
 * Where the stack begins for others: they do not know all names that an allocator's functions have.
 */
static uint32_t leaf(struct sites *sites, uint32_t stack)
{
	for (uint32_t n = stack; n; n = sites_parent(sites, n))
		if (sites_address(sites, n) && !is_allocator(sites_frames(sites, n)))
			return n;
	return stack;
}

/*
 * jeprof takes the first address as it is and looks up all others less 1; go's pprof takes 1 from
 * all.
 */
static void put_stack(struct writer *w, uint32_t stack)
{
	bool first = true;

	for (uint32_t n = leaf(w->sites, stack); n; n = sites_parent(w->sites, n)) {
		raddr_t address = sites_address(w->sites, n);

		if (!address)
			continue;
		put_address(w, address + !first);
		first = false;
	}
	if (first)
		put_address(w, 1); /* a row without any is refused by some */
	put_char(w, '\n');
}

/*
 * Of a profile without totals, what is live stands for them. A reader takes bytes without a block
 * for an error.
 */
static void put_amounts(struct writer *w, const struct profile *p, const struct profile_row *r)
{
	int64_t count = r->count ? r->count : r->size != 0;

	if (p->has_totals)
		put(w, "%6" PRId64 ": %8" PRId64 " [%6" PRIu64 ": %8" PRIu64 "] @", count, r->size,
		    r->total_count, r->total_size);
	else
		put(w, "%6" PRId64 ": %8" PRId64 " [%6" PRId64 ": %8" PRId64 "] @", count, r->size,
		    count, r->size);
}

static void put_profile(struct writer *w, const struct profile *p)
{
	struct profile_row all = profile_sum(p);

	put(w, "heap profile: ");
	put_amounts(w, p, &all);
	put(w, " heapprofile\n");
	for (size_t i = 0; i < p->count && !ferror(w->out); i++) {
		put_amounts(w, p, &p->row[i]);
		put_stack(w, p->row[i].stack);
		sites_rest(w->sites);
	}
}

/* The file's offset of what lies at text_start. */
static uint64_t text_offset(const struct module *m)
{
	const struct elf_segment *s;
	uint64_t vaddr = m->text_start - m->bias;
	size_t n = elf_segments(m->elf, &s);

	for (size_t i = 0; i < n; i++) {
		uint64_t from = s[i].vaddr & ~UINT64_C(4095);

		if (s[i].type == 1 /* PT_LOAD */ && vaddr >= from &&
		    vaddr < s[i].vaddr + s[i].memsz)
			return vaddr - from + (s[i].offset & ~UINT64_C(4095));
	}
	return m->text_start - m->start;
}

static bool overlaps_living(const struct modules *list, const struct module *m)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct module *o = list->module[i];

		if (o != m && (o->dead == UINT32_MAX || m->dead != UINT32_MAX) &&
		    m->text_start < o->text_end && o->text_start < m->text_end)
			return true;
	}
	return false;
}

/*
 * As the kernel has them, the text alone. What was unloaded is there, too, unless something else
 * lies in its place.
 */
static void put_maps(struct writer *w, const struct modules *list)
{
	put(w, "\nMAPPED_LIBRARIES:\n");
	for (size_t i = 0; i < list->count; i++) {
		const struct module *m = list->module[i];

		if (m->dead != UINT32_MAX && overlaps_living(list, m))
			continue;
		put(w, "%08" PRIx64 "-%08" PRIx64 " r-xp %08" PRIx64 " %02x:%02x %-26" PRIu64 " ",
		    m->text_start, m->text_end, text_offset(m), (unsigned)(m->dev >> 32),
		    (unsigned)m->dev, m->inode);
		put_text(w, m->path);
	}
}

/* ---- what mtrun reads ---------------------------------------------------- */

/* The number of TEXT (NULL: 0), which is put if it is new. -ENOMEM */
static int put_string(struct writer *w, const char *text, uint32_t *number)
{
	size_t before = w->strings.count;

	*number = text ? intern(&w->strings, text) : 0;
	if (!text)
		return 0;
	if (!*number)
		return -ENOMEM;
	if (*number > before) {
		put(w, "# s ");
		put_text(w, text);
	}
	return 0;
}

static int put_frame(struct writer *w, const struct symbol_frame *f)
{
	uint32_t function, file, module;

	if (put_string(w, f->function, &function) || put_string(w, f->file, &file) ||
	    put_string(w, f->module, &module))
		return -ENOMEM;
	put(w, "# f %" PRIu32 " %" PRIu32 " %u %u %" PRIu32 " %" PRIx64 " %u %u\n", function, file,
	    f->line, f->column, module, f->address, f->skip & ~(unsigned)SKIP_USER, f->inlined);
	return 0;
}

/* The number of the first frame of F, which are put if they are new. -ENOMEM */
static int put_frames(struct writer *w, struct symbol_frames f, uint32_t *number)
{
	size_t before = w->lists.count;
	uint32_t list = intern(&w->lists, f.frame);

	if (!list)
		return -ENOMEM;
	if (list > before) {
		if (array_room(&w->first, before, &w->first_room, sizeof(*w->first)))
			return -ENOMEM;
		for (size_t i = 0; i < f.count; i++)
			if (put_frame(w, &f.frame[i]))
				return -ENOMEM;
		w->first[before] = w->frames + 1;
		w->frames += (uint32_t)f.count;
	}
	*number = w->first[list - 1];
	return 0;
}

static void use(struct writer *w, uint64_t *used, uint32_t stack)
{
	for (uint32_t n = stack; n && n < WIRE_NODES && !(used[n / 64] >> n % 64 & 1);
	     n = sites_parent(w->sites, n))
		used[n / 64] |= UINT64_C(1) << n % 64;
}

/* Callers have the lower numbers, so that they come first. */
static int put_nodes(struct writer *w, const struct heap_facts *facts, const struct profile *p)
{
	uint64_t *used = calloc(WIRE_NODES / 64, sizeof(*used));
	int err = used ? 0 : -ENOMEM;

	if (!err)
		use(w, used, facts->request_stack);
	for (size_t i = 0; !err && i < p->count; i++)
		use(w, used, p->row[i].stack);
	for (uint32_t n = 1; !err && n < WIRE_NODES && !ferror(w->out); n++) {
		struct symbol_frames f;
		uint32_t frame;

		if (!used[n / 64])
			n |= 63;
		if (!(used[n / 64] >> n % 64 & 1))
			continue;
		f = sites_frames(w->sites, n);
		err = put_frames(w, f, &frame);
		if (!err)
			put(w, "# n %" PRIu32 " %" PRIu32 " %" PRIx64 " %" PRIu32 " %zu\n", n,
			    sites_parent(w->sites, n), sites_pc(w->sites, n), frame, f.count);
		sites_rest(w->sites);
	}
	free(used);
	return err;
}

static void put_facts(struct writer *w, const struct heap_facts *f, const struct profile *p)
{
	struct profile_row all = profile_sum(p);

	put(w, "# mtrun heap %u\n# pid %d\n", HEAP_VERSION, (int)f->pid);
	if (f->command) {
		put(w, "# command ");
		put_text(w, f->command);
	}
	if (f->exe) {
		put(w, "# exe ");
		put_text(w, f->exe);
	}
	put(w, "# why ");
	put_text(w, f->why);
	put(w, "# clock %" PRIu64 "\n# elapsed %" PRIu64 "\n", f->clock_ms, p->ms);
	put(w, "# counted%s%s\n", f->counted & LEDGER_COUNT_HEAP ? " heap" : "",
	    f->counted & LEDGER_COUNT_MMAP ? " mmap" : "");
	put(w, "# sample %" PRIu64 "\n", f->sample);
	put(w, "# live %" PRId64 " %" PRId64 "\n", all.size, all.count);
	if (p->has_totals)
		put(w, "# total %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", all.total_size,
		    all.total_count, all.temporary);
	put(w, "# peak %" PRIu64 " %" PRIu64 "\n", f->peak, f->peak_ms);
	if (f->limit_hit)
		put(w, "# limit %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", f->request,
		    f->allocated, f->limit, f->request_stack);
	if (f->preattach.state == PREATTACH_KNOWN)
		put(w, "# before %" PRIu64 " %" PRIu64 "\n", f->preattach.bytes,
		    f->preattach.blocks);
	if (f->preattach.state == PREATTACH_UNKNOWN) {
		put(w, "# before_unknown ");
		put_text(w, f->preattach.why);
	}
	for (size_t i = 0; f->marks && i < marks_count(f->marks); i++) {
		put(w, "# mark %" PRIu64 " ", marks_at(f->marks, i)->ms);
		put_text(w, marks_at(f->marks, i)->label);
	}
}

static void put_modules(struct writer *w, const struct modules *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct module *m = list->module[i];

		put(w,
		    "# module %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64
		    " %x ",
		    m->start, m->end, m->text_start, m->text_end, m->bias, text_offset(m),
		    m->roles);
		for (unsigned k = 0; k < m->build_id_len; k++)
			put(w, "%02x", m->build_id[k]);
		put(w, m->build_id_len ? " " : "- ");
		put_text(w, m->path);
	}
}

static void put_rows(struct writer *w, const struct profile *p)
{
	for (size_t i = 0; i < p->count && !ferror(w->out); i++) {
		const struct profile_row *r = &p->row[i];

		put(w, "# r %" PRIu32 " %" PRId64 " %" PRId64, r->stack, r->size, r->count);
		if (p->has_totals)
			put(w, " %" PRIu64 " %" PRIu64 " %" PRIu64, r->total_size, r->total_count,
			    r->temporary);
		put_char(w, '\n');
	}
}

int heap_write(FILE *out, const struct heap_facts *facts, const struct profile *p,
	       struct sites *sites)
{
	struct writer *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->out = out;
	w->sites = sites;
	w->strings.texts = true;
	put_profile(w, p);
	put_maps(w, facts->modules);
	put_facts(w, facts, p);
	put_modules(w, facts->modules);
	err = put_nodes(w, facts, p);
	if (!err)
		put_rows(w, p);
	flush(w);
	put(w, "# end %08" PRIx32 "\n", w->crc);
	flush(w);
	intern_release(&w->strings);
	intern_release(&w->lists);
	free(w->first);
	free(w);
	return err;
}
