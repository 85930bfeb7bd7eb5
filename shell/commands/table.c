// SPDX-License-Identifier: GPL-3.0-or-later
#include "shell/common/command.h"

/*
 * table.c - the commands, in the order of `help`. A new one is declared and listed here.
 */

extern const struct command cmd_status, cmd_report, cmd_text, cmd_tree, cmd_blocks, cmd_x, cmd_wait,
	cmd_stop, cmd_cont, cmd_bt, cmd_threads, cmd_processes, cmd_process, cmd_timeline,
	cmd_snapshot, cmd_diff, cmd_kill, cmd_detach, cmd_echo, cmd_source, cmd_shell, cmd_set,
	cmd_help, cmd_quit, cmd_top, cmd_every, cmd_on, cmd_history, cmd_fg, cmd_run, cmd_gdb,
	cmd_sample, cmd_record, cmd_log, cmd_map, cmd_leaks, cmd_who;
extern const struct command cmd_trace, cmd_list, cmd_export;
extern const struct command cmd_interval, cmd_limit, cmd_listen;
extern const struct command cmd_dump;
extern const struct command cmd_open, cmd_parse;

const struct command *const commands[] = {
	&cmd_status,   &cmd_report,  &cmd_top,	    &cmd_text,	    &cmd_tree,	  &cmd_timeline,
	&cmd_snapshot, &cmd_diff,    &cmd_map,	    &cmd_leaks,	    &cmd_who,	  &cmd_blocks,
	&cmd_x,	       &cmd_wait,    &cmd_every,    &cmd_on,	    &cmd_limit,	  &cmd_sample,
	&cmd_record,   &cmd_log,     &cmd_interval, &cmd_listen,    &cmd_list,	  &cmd_trace,
	&cmd_export,   &cmd_dump,    &cmd_open,	    &cmd_parse,	    &cmd_stop,	  &cmd_cont,
	&cmd_run,      &cmd_bt,	     &cmd_threads,  &cmd_processes, &cmd_process, &cmd_kill,
	&cmd_detach,   &cmd_fg,	     &cmd_gdb,	    &cmd_echo,	    &cmd_source,  &cmd_shell,
	&cmd_set,      &cmd_history, &cmd_help,	    &cmd_quit,	    NULL
};
