// SPDX-License-Identifier: GPL-3.0-or-later
#include "test.h"

#include <errno.h>

#include "base/json.h"
#include "base/units.h"

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "4096", 4096 },
		{ "1K", 1024 },
		{ "3M", 3 << 20 },
		{ "2G", 2ull << 30 },
		{ "1T", 1ull << 40 },
		{ "1KB", 1000 },
		{ "100MB", 100000000 },
		{ "5GB", 5000000000ull },
		{ "2TB", 2000000000000ull },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "",		" ",
					   "M",		"-1",
					   "+1",	"1k",
					   "1m",	"16 M",
					   "16M ",	"16Mi",
					   "16MiB",	"16MBB",
					   "1B",	"1e6",
					   "0x10",	"1.5G",
					   "1,000",	"18446744073709551616",
					   "16777216T", "99999999999999999999999" };
	uint64_t v;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CHECK_EQ(size_parse(good[i].text, &v), 0);
		CHECK_EQ(v, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		v = 77;
		if (!size_parse(bad[i], &v))
			printf("# '%s' was taken\n", bad[i]);
		CHECK(size_parse(bad[i], &v) < 0 && v == 77);
	}
}

static void times(void)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "0", 0 },	    { "5", 5000 },	 { "250ms", 250 }, { "5s", 5000 },
		{ "2m", 120000 },   { "1h", 3600000 },	 { "0.5", 500 },   { "1.5s", 1500 },
		{ "0.25m", 15000 }, { "1.0625s", 1062 },
	};
	static const char *const bad[] = { "",
					   "s",
					   "-1",
					   "5 s",
					   "5S",
					   "5sec",
					   "5.",
					   ".5",
					   "5.5.5",
					   "1d",
					   "99999999999999999999",
					   "9999999999999999999h" };
	uint64_t v;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CHECK_EQ(time_parse(good[i].text, &v), 0);
		CHECK_EQ(v, good[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		v = 77;
		CHECK(time_parse(bad[i], &v) < 0 && v == 77);
	}
}

static void addresses(void)
{
	raddr_t a;

	CHECK_EQ(address_parse("0x7fffebac2010", &a), 0);
	CHECK_EQ(a, 0x7fffebac2010);
	CHECK_EQ(address_parse("4096", &a), 0);
	CHECK_EQ(a, 4096);
	CHECK(address_parse("0x", &a) && address_parse("0x12345678901234567", &a) &&
	      address_parse("7fff", &a) && address_parse("0xg", &a));
}

static void texts(void)
{
	struct text_buffer b;

	CHECK_STR(size_text(&b, 0), "0");
	CHECK_STR(size_text(&b, 1023), "1023");
	CHECK_STR(size_text(&b, 1024), "1.0K");
	CHECK_STR(size_text(&b, 1048575), "1.0M");
	CHECK_STR(size_aside(&b, 1023), "");
	CHECK_STR(size_aside(&b, 1024), " (1.0K)");
	CHECK_STR(size_aside(&b, UINT64_MAX), " (16.00E)");
	CHECK_STR(size_text(&b, 1536 * 1024), "1.5M");
	CHECK_STR(size_text(&b, 3ull << 29), "1.50G");
	CHECK_STR(time_text(&b, 250), "250 ms");
	CHECK_STR(time_text(&b, 59999), "59.9 s");
	CHECK_STR(time_text(&b, 187000), "3:07 min");
	CHECK_STR(time_text(&b, 7389000), "2:03:09 h");
	CHECK_STR(age_text(&b, 999), "999ms");
	CHECK_STR(age_text(&b, 12399), "12.3s");
	CHECK_STR(age_text(&b, 186000), "3.1m");
	CHECK_STR(age_text(&b, 7560000), "2.1h");
}

static void json(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL);
	json_int(&j, "min", INT64_MIN);
	json_uint(&j, "max", UINT64_MAX);
	json_string(&j, "s", "a\"b\\c\n\t\x01\x7f/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	json_string(&j, "bad", "\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82");
	json_string(&j, "none", NULL);
	json_array(&j, "list");
	json_bool(&j, NULL, true);
	json_null(&j, NULL);
	json_array(&j, NULL);
	json_end_array(&j);
	json_object(&j, NULL);
	json_end_object(&j);
	json_address(&j, NULL, 0x7f00);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
	fclose(out);
	CHECK_STR(
		text,
		"{\"min\":-9223372036854775808,\"max\":18446744073709551615,\"s\":\"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\","
		"\"bad\":\"\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\",\"none\":null,"
		"\"list\":[true,null,[],{},\"0x7f00\"]}\n");
	free(text);
}

static void moments(void)
{
	static const char *const bad[] = { "",
					   "x",
					   "-x",
					   "1:2",
					   "03:12",
					   "24:00:00",
					   "03:60:00",
					   "03:12:07x",
					   "03:12:07.",
					   "2026-11-20",
					   "2026-11-20T",
					   "2026-13-20T03:12:07",
					   "2026-11-31T03:12:07",
					   "2026-11-20 03:12:07",
					   "26-11-20T03:12:07",
					   " 3:12:07",
					   "3:-1:07",
					   "+3:12:07",
					   "2026-11-20T03:12:07Z" };
	const uint64_t began = 1795748400000; /* 2026-11-27 03:00:00 UTC */
	uint64_t ms;

	setenv("TZ", "UTC0", 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ms = 0;
		if (moment_parse(bad[i], began, 3600000, 8000, &ms) != -EINVAL)
			printf("# '%s'\n", bad[i]);
		CHECK_EQ(moment_parse(bad[i], began, 3600000, 8000, &ms), -EINVAL);
	}
	CHECK(moment_parse("250ms", began, 0, 8000, &ms) == 0 && ms == 250);
	CHECK(moment_parse("7", began, 0, 8000, &ms) == 0 && ms == 7000);
	CHECK(moment_parse("-2500ms", began, 0, 8000, &ms) == 0 && ms == 5500);
	CHECK(moment_parse("-8", began, 0, 8000, &ms) == 0 && ms == 0);
	CHECK(moment_parse("-0s", began, 0, 8000, &ms) == 0 && ms == 8000);
	CHECK_EQ(moment_parse("-8001ms", began, 0, 8000, &ms), -ERANGE);
	CHECK_EQ(moment_parse("--8s", began, 0, 8000, &ms), -EINVAL);
	CHECK(moment_parse("03:00:07", began, 3600000, 8000, &ms) == 0 && ms == 7000);
	CHECK(moment_parse("03:12:07.25", began, 3600000, 8000, &ms) == 0 &&
	      ms == 12 * 60000 + 7250);
	CHECK(moment_parse("2026-11-27T03:12:07.5", began, 3600000, 8000, &ms) == 0 &&
	      ms == 12 * 60000 + 7500);
	/* to come: the caller's to refuse */
	CHECK(moment_parse("2026-11-27T05:00:00", began, 3600000, 8000, &ms) == 0 && ms == 7200000);
	CHECK_EQ(moment_parse("2026-11-27T02:59:58", began, 3600000, 8000, &ms), -ERANGE);
	/* yesterday's is before it began */
	CHECK_EQ(moment_parse("23:00:00", began, 3600000, 8000, &ms), -ERANGE);
	/* the day after */
	CHECK(moment_parse("02:00:00", began, 24 * 3600000, 8000, &ms) == 0 && ms == 23 * 3600000);
	/* yesterday's */
	CHECK(moment_parse("23:00:00", began, 24 * 3600000, 8000, &ms) == 0 && ms == 20 * 3600000);
	CHECK(moment_parse("03:00:00", began + 400, 3600000, 8000, &ms) == 0 && ms == 0);
}

int main(void)
{
	RUN(moments);
	RUN(sizes);
	RUN(times);
	RUN(addresses);
	RUN(texts);
	RUN(json);
	return test_status();
}
