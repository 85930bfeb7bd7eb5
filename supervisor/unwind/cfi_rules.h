/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cfi_rules.h - unwind rules, each once and with a number: the same few hundred serve a whole file,
 * and all files of an image. Rule 0 is CFA_NONE.
 */
#ifndef MTRUN_CFI_RULES_H
#define MTRUN_CFI_RULES_H

#include "base/types.h"
#include "inject/wire_stack.h"

#define RULE_SLOTS (WIRE_RULES * 2)

/* Some 2 MB, of which what is used is touched; malloc() is enough, then rules_begin(). */
struct cfi_rules {
	struct wire_rule rule[WIRE_RULES];
	/* index of a rule; 0: free (rule 0, CFA_NONE, is never looked for here) */
	uint16_t slot[RULE_SLOTS];
	uint32_t slots; /* of them in use: a power of two, at least twice as many as rules */
	uint32_t count;
};

void rules_begin(struct cfi_rules *r);
/* RULE's number. When all are taken new ones are 0: those stacks end in [truncated]. */
uint16_t rule_index(struct cfi_rules *r, const struct wire_rule *rule);

#endif
