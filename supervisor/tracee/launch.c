// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/message.h"
#include "symbols/elf.h"
#include "tracee/program.h"
#include "tracee/terminal.h"

/*
 * launch.c - finding a program, seeing whether it can be supervised, and starting it as if mtrun
 * were not there.
 *
 * The child waits on a pipe until it is seized, so that its exec is the first thing we see. It has
 * the environment, descriptors, signal mask, dispositions and timers that mtrun was started with,
 * and is in mtrun's process group, so that job control works as without us. Only the environment's
 * settings for MiniOB's MemTracer are changed.
 */

/*
 * sigaction(3) without libc, which hides two signals that it uses itself (32, 33), and gives them
 * handlers when a thread is made. Every signal that was ignored when mtrun was started is to be
 * ignored in the program.
 */
static int signal_action(int sig, const struct kernel_action *set, struct kernel_action *get)
{
	return (int)syscall(SYS_rt_sigaction, sig, set, get, sizeof(set->mask));
}

/*
 * Our memory files are large, we have files of our own open, and what we know of the program takes
 * memory. A limit on any of it is the program's, and must not be our end.
 */
static const __rlimit_resource_t limited[INHERITED_LIMITS] = { RLIMIT_FSIZE, RLIMIT_NOFILE,
							       RLIMIT_AS, RLIMIT_DATA };

void inherited_save(struct inherited *i)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &i->mask, sizeof(i->mask));
	for (int sig = 1; sig < 65; sig++)
		if (signal_action(sig, NULL, &i->action[sig]) < 0)
			i->action[sig] = (struct kernel_action){ 0 };
	for (size_t k = 0; k < INHERITED_LIMITS; k++)
		getrlimit(limited[k], &i->limit[k]);
}

void limits_raise(void)
{
	static const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	struct rlimit limit;

	for (size_t k = 0; k < INHERITED_LIMITS; k++) {
		if (getrlimit(limited[k], &limit) < 0 ||
		    (limited[k] != RLIMIT_NOFILE && setrlimit(limited[k], &none) == 0))
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(limited[k], &limit);
	}
}

const char *limits_error(int err)
{
	struct rlimit addresses = { RLIM_INFINITY, 0 }, data = addresses;

	getrlimit(RLIMIT_AS, &addresses);
	getrlimit(RLIMIT_DATA, &data);
	if (err != -EAGAIN && err != -ENOMEM)
		return strerror(-err);
	if (addresses.rlim_cur != RLIM_INFINITY)
		return "the limit on addresses (RLIMIT_AS, `ulimit -v`) is too low for mtrun";
	if (data.rlim_cur != RLIM_INFINITY)
		return "the limit on data (RLIMIT_DATA, `ulimit -d`) is too low for mtrun";
	return strerror(-err);
}

static void inherited_restore(const struct inherited *i)
{
	for (int sig = 1; sig < 65; sig++)
		signal_action(sig, &i->action[sig], NULL);
	for (size_t k = 0; k < INHERITED_LIMITS; k++)
		setrlimit(limited[k], &i->limit[k]);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &i->mask, NULL, sizeof(i->mask));
}

/* ---- finding ------------------------------------------------------------- */

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) < 0 ? -errno : 0;
}

static char *give_up(const char *name, int err, int *status)
{
	*status = err == -ENOENT || err == -ENOTDIR ? 127 : 126;
	message_error("cannot run '%s': %s", name, strerror(-err));
	return NULL;
}

char *launch_find(const char *name, int *status)
{
	const char *path = getenv("PATH");
	int err, worst = -ENOENT;

	if (strchr(name, '/')) {
		err = executable(name);
		return err ? give_up(name, err, status) : strdup(name);
	}
	if (!*name)
		return give_up(name, -ENOENT, status);
	if (!path)
		path = "/bin:/usr/bin";
	while (path) {
		const char *end = strchrnul(path, ':');
		char *file;

		if (asprintf(&file, "%.*s%s%s", (int)(end - path), path, end > path ? "/" : "",
			     name) < 0)
			return give_up(name, -ENOMEM, status);
		err = executable(file);
		if (!err)
			return file;
		free(file);
		if (err == -EACCES)
			worst = err;
		path = *end ? end + 1 : NULL;
	}
	return give_up(name, worst, status);
}

/*
 * MiniOB's libmemtracer.so in the program would enforce a limit and print by itself, beside mtrun;
 * it prints even when it is not told to. So it gets no limit, and an interval that never passes.
 */
static void silence_memtracer(bool linked)
{
	const char *preload = getenv("LD_PRELOAD");

	if (!linked && !getenv("MT_MEMORY_LIMIT") && !getenv("MT_PRINT_INTERVAL_MS") &&
	    !(preload && strstr(preload, "libmemtracer.so")))
		return;
	unsetenv("MT_MEMORY_LIMIT");
	setenv("MT_PRINT_INTERVAL_MS", "9223372036854775807", 1);
}

/* ---- what kind of program ------------------------------------------------ */

static int refuse(const char *path, const char *why)
{
	message_error("cannot supervise '%s': %s", path, why);
	return 126;
}

static int check_elf(const char *path, int fd, bool hooks_given)
{
	char why[256];
	int err;
	struct elf *elf = program_open(fd, hooks_given, &err, why, sizeof(why));

	if (!elf && err == -ENOTSUP)
		return refuse(path, why);
	if (!elf) {
		message_error("cannot run '%s': %s", path, why);
		return 126;
	}
	silence_memtracer(elf_needs(elf, "libmemtracer.so"));
	elf_unref(elf);
	return 0;
}

static int check_file(const char *path, bool hooks_given, int scripts)
{
	unsigned char head[256] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = 0;
	const char *lost;
	ssize_t n;

	if (fd < 0)
		return refuse(
			path,
			"it may be executed but not read, and the kernel hides such a program from tracers: run mtrun as root");
	lost = program_lost_rights(fd);
	if (lost) {
		close(fd);
		message_error(
			"cannot supervise '%s': %s, which the kernel does not honour under a tracer: run mtrun as root",
			path, lost);
		return 126;
	}
	n = pread(fd, head, sizeof(head) - 1, 0);
	if (n >= 20 && !memcmp(head, ELFMAG, SELFMAG))
		ret = check_elf(path, fd, hooks_given);
	else if (n > 2 && head[0] == '#' && head[1] == '!' && scripts < 5) {
		char *interpreter = (char *)head + 2;

		interpreter += strspn(interpreter, " \t");
		interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
		if (*interpreter && access(interpreter, X_OK) == 0)
			ret = check_file(interpreter, hooks_given, scripts + 1);
	}
	close(fd);
	return ret;
}

int launch_check(const char *path, bool hooks_given) { return check_file(path, hooks_given, 0); }

/* ---- starting ------------------------------------------------------------ */

#define TIMERS 3 /* of getitimer(2) */

/* What an exec keeps, but a fork does not. */
struct passed_on {
	struct itimerval timer[TIMERS];
	int subreaper;
};

/* Takes them from mtrun: after alarm(2) and exec, as in perl scripts, the timer is the program's. */
static void pass_on(struct passed_on *p)
{
	static const struct itimerval none;

	for (int i = 0; i < TIMERS; i++)
		if (setitimer((__itimer_which_t)i, &none, &p->timer[i]) < 0)
			p->timer[i] = none;
	if (prctl(PR_GET_CHILD_SUBREAPER, &p->subreaper) < 0)
		p->subreaper = 0;
}

static void take_over(const struct passed_on *p)
{
	for (int i = 0; i < TIMERS; i++)
		setitimer((__itimer_which_t)i, &p->timer[i], NULL);
	if (p->subreaper)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static _Noreturn void child(int wait_fd, int tell_fd, const char *path, char **argv,
			    const struct inherited *inherited, const struct passed_on *passed_on,
			    bool stdin_null, const struct terminal *terminal)
{
	char byte = 0; /* still 0 if mtrun died before it said go */
	int err;

	if (stdin_null) {
		int null = open("/dev/null", O_RDONLY);

		if (null >= 0) {
			dup2(null, 0);
			if (null > 0)
				close(null);
		} else
			close(0);
	}
	if (terminal)
		terminal_enter(terminal);
	inherited_restore(inherited);
	take_over(passed_on);
	while (read(wait_fd, &byte, 1) < 0 && errno == EINTR)
		;
	if (byte == 'g')
		execv(path, argv);
	err = errno;
	if (write(tell_fd, &err, sizeof(err)) < 0)
		_exit(125);
	_exit(126);
}

int launch_fork(struct launch *l, const char *path, char **argv, const struct inherited *inherited,
		bool stdin_null, const struct terminal *terminal)
{
	struct passed_on passed_on;
	int go[2], tell[2], err;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(tell, O_CLOEXEC) < 0) {
		err = -errno;
		goto no_tell;
	}
	pass_on(&passed_on);
	l->pid = fork();
	if (l->pid < 0) {
		err = -errno;
		goto no_fork;
	}
	if (l->pid == 0) {
		close(go[1]);
		child(go[0], tell[1], path, argv, inherited, &passed_on, stdin_null, terminal);
	}
	close(go[0]);
	close(tell[1]);
	l->go = go[1];
	l->failed = tell[0];
	return 0;
no_fork:
	close(tell[0]);
	close(tell[1]);
no_tell:
	close(go[0]);
	close(go[1]);
	return err;
}
