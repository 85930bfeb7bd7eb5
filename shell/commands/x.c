// SPDX-License-Identifier: GPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/patient.h"
#include "base/units.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"

/* `x`: what is in a block, or anywhere else in the program's memory. */
#define DEFAULT_LEN 256
#define MAX_LEN	    (1u << 20)

/* columns of a line; of a window without room for that, a line has no more than it needs */
#define WIDE 84

static void dump(FILE *out, const struct layout *l, raddr_t address, const uint8_t *data,
		 size_t len)
{
	bool narrow = l->columns && l->columns < WIDE;
	int digits = snprintf(NULL, 0, "%" PRIx64, address + (len - 1) / 16 * 16);

	for (size_t at = 0; at < len; at += 16) {
		size_t n = len - at < 16 ? len - at : 16;

		fprintf(out, "0x%0*" PRIx64, digits, address + at);
		if (!narrow)
			putc(' ', out);
		for (size_t i = 0; i < 16; i++) {
			if (i == 8 && !narrow)
				putc(' ', out);
			if (i < n)
				fprintf(out, " %02x", data[at + i]);
			else
				fputs("   ", out);
		}
		fputs(narrow ? "  " : "  |", out);
		for (size_t i = 0; i < n; i++)
			putc(data[at + i] >= 0x20 && data[at + i] < 0x7f ? data[at + i] : '.', out);
		fputs(narrow ? "\n" : "|\n", out);
	}
}

static void print_json(FILE *out, raddr_t address, const uint8_t *data, size_t len, bool in_block,
		       const struct ledger_block *block)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = malloc(len * 2 + 1);
	struct json j;

	if (!hex)
		return;
	for (size_t i = 0; i < len; i++) {
		hex[2 * i] = digits[data[i] >> 4];
		hex[2 * i + 1] = digits[data[i] & 15];
	}
	hex[2 * len] = '\0';
	json_init(&j, out);
	json_object(&j, NULL);
	json_address(&j, "address", address);
	json_uint(&j, "length", len);
	if (in_block) {
		json_address(&j, "block", block->address);
		json_uint(&j, "size", block->size);
	} else {
		json_null(&j, "block");
		json_null(&j, "size");
	}
	json_string(&j, "bytes", hex);
	json_end_object(&j);
	json_finish(&j);
	free(hex);
}

/* A page of it may be withheld, for as long as that is waited for: the loop turns meanwhile. */
static ssize_t read_memory(struct shell *shell, const struct process *p, raddr_t address,
			   uint8_t *data, size_t len)
{
	pid_t via = p->via;
	ssize_t n;

	asking_unlock(shell->session);
	n = patient_read(via, address, data, len);
	asking_lock(shell->session);
	return n;
}

static int show(struct shell *shell, struct call *call, raddr_t address, uint64_t len)
{
	struct process *p = shell_process(shell);
	bool gone;
	struct ledger_block block;
	bool in_block = ledger_find(p->ledger, address, &block);
	uint8_t *data;
	ssize_t n;

	if (!len) {
		len = DEFAULT_LEN;
		if (in_block && block.address + block.size - address < len)
			len = block.address + block.size - address;
		if (!len)
			len = 16;
	}
	data = malloc(len);
	if (!data)
		return shell_error(shell, call, "out of memory");
	process_ref(p);
	n = read_memory(shell, p, address, data, len);
	gone = p->state == PROCESS_EXITED;
	process_unref(p);
	if (n <= 0) {
		free(data);
		return shell_error(shell, call, "cannot read 0x%" PRIx64 ": %s", address,
				   gone		     ? "the process is gone"
				   : n == -ETIMEDOUT ? "it does not come"
						     : "nothing is mapped there");
	}
	if (call->json) {
		print_json(call->out, address, data, (size_t)n, in_block, &block);
	} else {
		if (in_block)
			escape_printf(call->out,
				      "block 0x%" PRIx64 " of %" PRIu64 " byte%s, stack %" PRIu32
				      "\n",
				      block.address, block.size, plural(block.size), block.stack);
		dump(call->out, &call->layout, address, data, (size_t)n);
	}
	free(data);
	return 0;
}

static int examine(struct shell *shell, struct call *call)
{
	struct arguments a;
	raddr_t address = 0;
	uint64_t len = 0;
	int arg, words = 0;

	arguments_init(&a, shell, call, NULL);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_BAD)
			return -1;
		if (words == 0 && reporting_address(shell, call, a.value, &address))
			return -1;
		if (words == 1 && (size_parse(a.value, &len) || len == 0 || len > MAX_LEN))
			return shell_error(shell, call,
					   "invalid value '%s': expected a length from 1 to 1M",
					   a.value);
		if (words == 2)
			return arguments_unexpected(shell, call, a.value);
		words++;
	}
	if (!words)
		return shell_error(shell, call, "missing address");
	return show(shell, call, address, len);
}

const struct command cmd_x = {
	.name = "x",
	.usage = "ADDR [LEN] [--json]",
	.summary = "what is in memory at ADDR, as hex and text",
	.example = "x 0x55d5c0a1b2c0 64",
	.help = "Without LEN: to the end of the block that ADDR is in, at most 256 bytes. ADDR is 0x..., decimal, or a symbol's name as for `trace`.",
	.flags = COMMAND_LIST | COMMAND_AS_IS | COMMAND_JSON | COMMAND_LIVE,
	.run = examine,
};
