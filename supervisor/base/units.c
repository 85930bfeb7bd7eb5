// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/*
 * A size that is misread as "no limit" costs somebody a night, so everything here is all or
 * nothing: digits, one unit, the end. No sign, no blank, no exponent, no silent overflow.
 */
static int digits(const char **text, uint64_t *n)
{
	const char *s = *text;
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	*text = s;
	*n = v;
	return 0;
}

int number_parse(const char *text, uint64_t *n)
{
	uint64_t v;
	int err = digits(&text, &v);

	if (err)
		return err;
	if (*text)
		return -EINVAL;
	*n = v;
	return 0;
}

int size_parse(const char *text, uint64_t *bytes)
{
	static const char letters[] = "KMGT";
	uint64_t v, unit = 1, step;
	const char *letter;
	int err = digits(&text, &v);

	if (err)
		return err;
	if (*text) {
		letter = strchr(letters, *text++);
		if (!letter)
			return -EINVAL;
		step = *text == 'B' ? 1000 : 1024;
		if (*text == 'B')
			text++;
		if (*text)
			return -EINVAL;
		for (const char *l = letters; l <= letter; l++)
			unit *= step;
	}
	if (__builtin_mul_overflow(v, unit, &v))
		return -ERANGE;
	*bytes = v;
	return 0;
}

int time_parse(const char *text, uint64_t *ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{ "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
	};
	uint64_t whole, part = 0, scale = 1;
	int err = digits(&text, &whole);

	if (err)
		return err;
	if (*text == '.') {
		text++;
		if (*text < '0' || *text > '9')
			return -EINVAL;
		for (; *text >= '0' && *text <= '9'; text++)
			if (scale < 1000000) {
				part = part * 10 + (uint64_t)(*text - '0');
				scale *= 10;
			}
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(text, units[i].name)) {
			if (__builtin_mul_overflow(whole, units[i].ms, &whole) ||
			    __builtin_add_overflow(whole, part * units[i].ms / scale, &whole))
				return -ERANGE;
			*ms = whole;
			return 0;
		}
	return -EINVAL;
}

/* `HH:MM:SS` and a fraction, up to the end. */
static int clock_parse(const char *s, struct tm *tm, uint64_t *part)
{
	uint64_t scale = 100;
	int used = 0;

	if (sscanf(s, "%2d:%2d:%2d%n", &tm->tm_hour, &tm->tm_min, &tm->tm_sec, &used) != 3 ||
	    used < 5 || s[used - 1] < '0' || s[used - 1] > '9')
		return -EINVAL;
	for (int i = 0; i < used; i++)
		if (s[i] != ':' && (s[i] < '0' || s[i] > '9'))
			return -EINVAL;
	if (tm->tm_hour > 23 || tm->tm_min > 59 || tm->tm_sec > 60)
		return -EINVAL;
	*part = 0;
	s += used;
	if (*s == '.' && s[1])
		for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
			*part += (uint64_t)(*s - '0') * scale;
	return *s ? -EINVAL : 0;
}

static int date_parse(const char **s, struct tm *tm)
{
	struct tm day = { 0 };
	int used = 0;

	for (int i = 0; i < 10; i++)
		if (i == 4 || i == 7 ? (*s)[i] != '-' : (*s)[i] < '0' || (*s)[i] > '9')
			return -EINVAL;
	if (sscanf(*s, "%4d-%2d-%2d%n", &tm->tm_year, &tm->tm_mon, &tm->tm_mday, &used) != 3 ||
	    used != 10 || (*s)[10] != 'T')
		return -EINVAL;
	if (tm->tm_mon < 1 || tm->tm_mon > 12 || tm->tm_mday < 1 || tm->tm_mday > 31)
		return -EINVAL;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	day.tm_year = tm->tm_year;
	day.tm_mon = tm->tm_mon;
	day.tm_mday = tm->tm_mday;
	timegm(&day);
	if (day.tm_mday != tm->tm_mday) /* the 31st of February */
		return -EINVAL;
	*s += 11;
	return 0;
}

int moment_parse(const char *text, uint64_t began, uint64_t now, uint64_t end, uint64_t *ms)
{
	time_t last = (time_t)((began + now) / 1000), at;
	bool dated = strchr(text, '-');
	struct tm tm;
	uint64_t part;
	int err;

	if (*text == '-') {
		err = time_parse(text + 1, &part);
		if (err || part > end)
			return err ? err : -ERANGE;
		*ms = end - part;
		return 0;
	}
	if (!strchr(text, ':'))
		return time_parse(text, ms);
	localtime_r(&last, &tm);
	err = dated ? date_parse(&text, &tm) : 0;
	if (!err)
		err = clock_parse(text, &tm, &part);
	if (err)
		return err;
	tm.tm_isdst = -1;
	at = mktime(&tm);
	if (!dated && at > last) {
		tm.tm_mday--; /* yesterday's */
		tm.tm_isdst = -1;
		at = mktime(&tm);
	}
	if (at < 0 || (uint64_t)at * 1000 + part + 1000 <= began)
		return -ERANGE;
	*ms = (uint64_t)at * 1000 + part; /* (the second in which it began is in it) */
	*ms = *ms > began ? *ms - began : 0;
	return 0;
}

int address_parse(const char *text, raddr_t *address)
{
	uint64_t v = 0;
	const char *s = text;

	if (s[0] != '0' || (s[1] != 'x' && s[1] != 'X'))
		return number_parse(text, address);
	s += 2;
	if (!*s || strlen(s) > 16)
		return -EINVAL;
	for (; *s; s++) {
		int c = *s | 0x20;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return -EINVAL;
	}
	*address = v;
	return 0;
}

const char *size_text(struct text_buffer *b, uint64_t bytes)
{
	static const char letters[] = "KMGTPE";
	double v = (double)bytes;
	int i = -1;

	if (bytes < 1024) {
		snprintf(b->text, sizeof(b->text), "%" PRIu64, bytes);
		return b->text;
	}
	/* 1023.95 would print as 1024.0 */
	while (v >= 1023.95 && letters[i + 1]) {
		v /= 1024;
		i++;
	}
	snprintf(b->text, sizeof(b->text), i < 2 ? "%.1f%c" : "%.2f%c", v, letters[i]);
	return b->text;
}

const char *size_aside(struct text_buffer *b, uint64_t bytes)
{
	struct text_buffer size;

	b->text[0] = '\0';
	if (bytes >= 1024)
		snprintf(b->text, sizeof(b->text), " (%s)", size_text(&size, bytes));
	return b->text;
}

const char *time_text(struct text_buffer *b, uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (ms < 1000)
		snprintf(b->text, sizeof(b->text), "%" PRIu64 " ms", ms);
	else if (s < 60)
		snprintf(b->text, sizeof(b->text), "%.1f s", (double)(ms / 100) / 10);
	else if (s < 3600)
		snprintf(b->text, sizeof(b->text), "%" PRIu64 ":%02" PRIu64 " min", s / 60, s % 60);
	else
		snprintf(b->text, sizeof(b->text), "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " h",
			 s / 3600, s / 60 % 60, s % 60);
	return b->text;
}

const char *setting_text(struct text_buffer *b, uint64_t ms)
{
	uint64_t unit = ms % 1000 || !ms ? 1 : ms % 60000 ? 1000 : ms % 3600000 ? 60000 : 3600000;

	snprintf(b->text, sizeof(b->text), "%" PRIu64 "%s", ms / unit,
		 unit == 1	 ? "ms"
		 : unit == 1000	 ? "s"
		 : unit == 60000 ? "m"
				 : "h");
	return b->text;
}

const char *age_text(struct text_buffer *b, uint64_t ms)
{
	if (ms < 1000)
		snprintf(b->text, sizeof(b->text), "%" PRIu64 "ms", ms);
	else if (ms < 100000)
		snprintf(b->text, sizeof(b->text), "%.1fs", (double)(ms / 100) / 10);
	else if (ms < 6000000)
		snprintf(b->text, sizeof(b->text), "%.1fm", (double)(ms / 6000) / 10);
	else
		snprintf(b->text, sizeof(b->text), "%.1fh", (double)(ms / 360000) / 10);
	return b->text;
}

const char *wait_status_text(int wait_status, char *text, size_t len)
{
	if (WIFSIGNALED(wait_status))
		snprintf(text, len, "killed by SIG%s",
			 sigabbrev_np(WTERMSIG(wait_status)) ? sigabbrev_np(WTERMSIG(wait_status))
							     : "?");
	else
		snprintf(text, len, "exited with status %d", WEXITSTATUS(wait_status));
	return text;
}

int wait_status_number(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
