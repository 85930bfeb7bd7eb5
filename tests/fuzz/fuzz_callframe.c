// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fuzz_callframe.c - unwind information as hostile as can be. The first byte says which format; the
 * rest is the section.
 */
#include "unwind/callframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sink;

static void row(void *ctx, uint32_t offset, const struct wire_rule *rule)
{
	const uint8_t *bytes = (const uint8_t *)rule;

	(void)ctx;
	sink += offset;
	for (size_t i = 0; i < sizeof(*rule); i++)
		sink += bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct callframe_source source = { .vaddr = 0x400000,
					   .text_base = 0x1000,
					   .data_base = 0x2000 };
	struct callframe_list list;

	if (size < 1)
		return 0;
	source.debug_frame = data[0] & 1;
	source.data = data + 1;
	source.size = size - 1;
	if (callframe_scan(&list, &source, 0, 0x7fffffff))
		return 0;
	for (size_t i = 0; i < list.count && i < 256; i++) {
		callframe_rows(&list, i, row, NULL);
		sink += (uint64_t)callframe_find(&list, list.frame[i].start);
		sink += callframe_rule(&list, i, list.frame[i].start).cfa;
	}
	callframe_release(&list);
	return 0;
}
