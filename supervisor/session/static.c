// SPDX-License-Identifier: GPL-3.0-or-later
#ifdef MTRUN_STATIC

#include <errno.h>
#include <pwd.h>
#include <stddef.h>

/*
 * static.c - what the static link must not drag in.
 *
 * libdw asks debuginfod servers for symbols through a libdebuginfod that it dlopen()s. A static
 * executable cannot rely on dlopen (it needs the very glibc that it was linked with), and mtrun
 * asks nobody over the network. With these three definitions the linker leaves libdw's client out.
 * Nor does the prompt look up users: readline completes ~NAME through glibc's name service, which
 * it opens in the same way. The shared builds (SAN=, COV=) and the unit tests use the shared libdw
 * and compile nothing here.
 */

struct Dwfl;

int __libdwfl_debuginfod_find_executable(struct Dwfl *dwfl, const unsigned char *build_id,
					 size_t len);
int __libdwfl_debuginfod_find_debuginfo(struct Dwfl *dwfl, const unsigned char *build_id,
					size_t len);
void __libdwfl_debuginfod_end(void *client);

int __libdwfl_debuginfod_find_executable(struct Dwfl *dwfl, const unsigned char *build_id,
					 size_t len)
{
	(void)dwfl, (void)build_id, (void)len;
	return -ENOSYS;
}

int __libdwfl_debuginfod_find_debuginfo(struct Dwfl *dwfl, const unsigned char *build_id,
					size_t len)
{
	(void)dwfl, (void)build_id, (void)len;
	return -ENOSYS;
}

void __libdwfl_debuginfod_end(void *client) { (void)client; }

struct passwd *getpwnam(const char *name)
{
	(void)name;
	return NULL;
}

struct passwd *getpwuid(uid_t uid)
{
	(void)uid;
	return NULL;
}

struct passwd *getpwent(void) { return NULL; }
void setpwent(void) {}
void endpwent(void) {}

#else
typedef int static_c_is_empty_here;
#endif
