// SPDX-License-Identifier: GPL-3.0-or-later
#include "unwind/cfi_rules.h"

#include <string.h>

/* cfi_rules.c - equal rules are found by a hash table, which grows with their number. */

#define SLOTS_FEW 2048u /* most files have some hundred rules */

static uint32_t rule_hash(const struct wire_rule *rule)
{
	uint64_t w[4], h;

	memcpy(w, rule, sizeof(w));
	h = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
	h = (h ^ h >> 32 ^ w[2] ^ w[3] * 0xc4ceb9fe1a85ec53ull) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 40);
}

void rules_begin(struct cfi_rules *r)
{
	memset(r->slot, 0, SLOTS_FEW * sizeof(*r->slot));
	memset(&r->rule[0], 0, sizeof(r->rule[0]));
	r->slots = SLOTS_FEW;
	r->count = 1;
}

/* Where RULE is, or the free slot where it belongs. */
static uint16_t *rule_slot(struct cfi_rules *r, const struct wire_rule *rule)
{
	for (uint32_t i = rule_hash(rule);; i++) {
		uint16_t *slot = &r->slot[i & (r->slots - 1)];

		if (!*slot || !memcmp(&r->rule[*slot], rule, sizeof(*rule)))
			return slot;
	}
}

static void rules_spread(struct cfi_rules *r)
{
	r->slots *= 4;
	memset(r->slot, 0, r->slots * sizeof(*r->slot));
	for (uint32_t n = 1; n < r->count; n++)
		*rule_slot(r, &r->rule[n]) = (uint16_t)n;
}

uint16_t rule_index(struct cfi_rules *r, const struct wire_rule *rule)
{
	uint16_t *slot;

	if (rule->cfa == CFA_NONE)
		return 0;
	slot = rule_slot(r, rule);
	if (*slot || r->count == WIRE_RULES)
		return *slot;
	if (r->count * 2 == r->slots && r->slots < RULE_SLOTS) {
		rules_spread(r);
		slot = rule_slot(r, rule);
	}
	*slot = (uint16_t)r->count;
	r->rule[r->count] = *rule;
	return (uint16_t)r->count++;
}
