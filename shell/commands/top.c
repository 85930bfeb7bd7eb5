// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/message.h"
#include "base/units.h"
#include "report/print.h"
#include "report/view.h"
#include "session/asking.h"
#include "shell/common/arguments.h"
#include "shell/common/command.h"
#include "shell/common/reporting.h"
#include "shell/common/shell.h"
#include "shell/prompt/keyboard.h"
#include "shell/prompt/screen.h"
#include "tracee/terminal.h"

/*
 * `top`: one line of totals and a report, drawn over itself each second, on the terminal's
 * alternate screen. Each picture is printed into memory first and goes out in one piece, every line
 * cut at the window's width, so that nothing scrolls or flickers.
 */
#define REFRESH_MS 1000

/* Leaves out the last of LINE's parts, which two blanks keep apart, until it fits. */
static void fit(char *line, const struct layout *l)
{
	size_t n = strlen(line);

	while (n && l->columns && layout_width(l, line) > l->columns) {
		while (n && strncmp(line + n, "  ", 2))
			n--;
		line[n] = '\0';
	}
}

static void head(struct shell *shell, FILE *out, const struct process *p, const struct layout *l)
{
	struct text_buffer heap, mmap, peak, time;
	struct ledger_totals t;
	const char *about;
	char line[256];

	ledger_totals(p->ledger, &t);
	about = print_about(t.estimated);
	snprintf(line, sizeof(line),
		 "%.64s (%d) %s  %s%s  heap %s%s  mmap %s  peak %s%s  %s%llu blocks",
		 p->command ? p->command : "?", (int)p->pid,
		 process_state_name(process_state_seen(p)), p->off ? "off since " : "",
		 time_text(&time, shell_moment(shell, p)), about, size_text(&heap, t.heap),
		 size_text(&mmap, t.mmap), about, size_text(&peak, t.peak), about,
		 (unsigned long long)t.live_blocks);
	fit(line, l);
	escape_printf(out, "%s\n", line);
}

static int picture(struct shell *shell, struct call *call, size_t rows, const struct layout *l,
		   FILE *out)
{
	struct view_options options = { .key = VIEW_SITE, .sort = SORT_SIZE, .limit = rows };
	struct profile profile;
	struct sites *sites;
	struct view view;
	int err;

	if (reporting_live(shell, call, NULL, false, &profile, &sites))
		return -1;
	head(shell, out, shell_subject(shell), l);
	asking_unlock(shell->session);
	err = view_make(&view, &profile, sites, &options);
	asking_lock(shell->session);
	profile_release(&profile);
	if (err)
		return shell_failed(shell, call, err);
	print_report(out, &view, sites, false, l);
	view_release(&view);
	return 0;
}

/* TEXT's first lines on the screen, over what is there. */
static void draw(const struct shell *shell, const char *text)
{
	unsigned rows, columns;
	char *all = NULL;
	size_t total;
	FILE *out = open_memstream(&all, &total);

	if (!out)
		return;
	terminal_size(shell->terminal, &rows, &columns);
	fputs("\033[H", out);
	for (unsigned row = 0; *text && row + 1 < rows; row++) {
		size_t len = strcspn(text, "\n"), bytes = 0;

		for (unsigned column = 0; bytes < len; bytes++)
			if (((unsigned char)text[bytes] & 0xc0) != 0x80 && column++ == columns)
				break;
		/*
		 * first: behind a line as wide as the window the cursor stands on its last
		 * character
		 */
		fputs("\033[K", out);
		fwrite(text, 1, bytes, out);
		fputs("\r\n", out);
		text += len + (text[len] == '\n');
	}
	fputs("\033[J", out);
	if (!fclose(out))
		screen_draw(shell->screen, all, total);
	free(all);
}

static int refresh(struct shell *shell, struct call *call, uint64_t wanted)
{
	struct layout l = call->layout;
	unsigned screen_rows;
	char *text = NULL;
	size_t len, rows;
	FILE *out;
	int err;

	terminal_size(shell->terminal, &screen_rows, &l.columns);
	/* the head, the total, the titles, the others, the cursor's */
	rows = screen_rows > 6 ? screen_rows - 6 : 1;
	out = open_memstream(&text, &len);
	if (!out)
		return shell_error(shell, call, "out of memory");
	err = picture(shell, call, wanted < rows ? (size_t)wanted : rows, &l, out);
	fclose(out);
	if (!err)
		draw(shell, text);
	free(text);
	return err;
}

static bool lives(const struct shell *shell)
{
	return shell_subject(shell)->state <= PROCESS_STOPPED;
}

static int top(struct shell *shell, struct call *call)
{
	static const struct argument table[] = { { "rows", 'n', true }, ARGUMENTS_END };
	size_t rows = VIEW_ALL;
	bool lived = false, over = false;
	struct arguments a;
	int arg, err = 0;

	arguments_init(&a, shell, call, table);
	while ((arg = arguments_next(&a)) != ARG_END) {
		if (arg == ARG_WORD)
			return arguments_unexpected(shell, call, a.value);
		if (arg == ARG_BAD || reporting_rows(shell, call, "-n", a.value, &rows))
			return -1;
	}
	if (!shell->screen || call->out != message_stream())
		return shell_error(
			shell, call,
			"it needs the terminal of an interactive run (`every 1s { report }` repeats anywhere)");
	shell_flush(shell);
	screen_enter(shell->screen, SCREEN_DRAWN);
	terminal_mode(shell->terminal, TERMINAL_KEYS);
	do {
		shell_leave_subject(shell); /* each picture is of the program of then */
		err = refresh(shell, call, rows);
		over = lived && !lives(shell);
		lived = !over && lives(shell);
	} while (!err && !over && keyboard_key(shell, REFRESH_MS) == KEY_NONE);
	terminal_mode(shell->terminal, TERMINAL_SANE);
	screen_enter(shell->screen, SCREEN_COMMAND);
	return err;
}

const struct command cmd_top = {
	.name = "top",
	.usage = "[-n N] [--bytes]",
	.summary = "what is live, refreshed on the screen each second until a key is pressed",
	.example = "top -n 15",
	.help = "It ends with the program, too. What was on the screen comes back then, and below it what the program printed meanwhile.",
	.flags = COMMAND_LIVE | COMMAND_BYTES | COMMAND_AS_IS,
	.run = top,
};
