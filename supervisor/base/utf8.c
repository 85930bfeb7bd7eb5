// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/utf8.h"

/*
 * UTF-8 as RFC 3629 has it. A byte is read only if those before it belong to a sequence, so nothing
 * behind the NUL is read, and a sequence that the NUL cuts short is none.
 */

int utf8_length(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return (s[1] & 0xc0) == 0x80 ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
			return 0;
		return 3;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if ((s[1] & 0xc0) != 0x80 || (s[2] & 0xc0) != 0x80 || (s[3] & 0xc0) != 0x80)
			return 0;
		if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
			return 0;
		return 4;
	}
	return 0;
}

int utf8_decode(const char *text, uint32_t *value)
{
	const unsigned char *s = (const unsigned char *)text;
	int n = utf8_length(text);

	switch (n) {
	case 1: *value = s[0]; break;
	case 2: *value = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu); break;
	case 3: *value = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu); break;
	case 4:
		*value = (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 |
			 (s[3] & 0x3fu);
		break;
	}
	return n;
}
