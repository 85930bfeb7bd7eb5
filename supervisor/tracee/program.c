// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracee/program.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "patch/libc_signature.h"
#include "symbols/elf.h"

/*
 * program.c - which programs mtrun refuses to supervise: those for other processors, 32-bit ones,
 * and static ones without a symbol for malloc; and which ones lose rights under it.
 */

static const char *machine_name(unsigned machine)
{
	switch (machine) {
	case EM_386: return "i386";
	case EM_AARCH64: return "AArch64";
	case EM_ARM: return "ARM";
	case EM_RISCV: return "RISC-V";
	case EM_PPC64: return "PowerPC64";
	case EM_S390: return "S/390";
	case EM_MIPS: return "MIPS";
	default: return "unknown";
	}
}

static struct elf *refuse(int err, int *error)
{
	*error = err;
	return NULL;
}

/* Whether FD has all of its program headers: otherwise the kernel does not run it. */
static bool is_whole(int fd)
{
	Elf64_Ehdr h;
	struct stat st;

	return pread(fd, &h, sizeof(h), 0) == sizeof(h) && fstat(fd, &st) == 0 && h.e_phnum &&
	       h.e_phentsize == sizeof(Elf64_Phdr) && (off_t)h.e_phoff >= 0 &&
	       h.e_phoff <= (uint64_t)st.st_size &&
	       (uint64_t)h.e_phnum * sizeof(Elf64_Phdr) <= (uint64_t)st.st_size - h.e_phoff;
}

struct elf *program_open(int fd, bool hooks_given, int *error, char *why, size_t len)
{
	struct libc_function known[LIBC_FUNCTIONS_MOST];
	unsigned char head[20] = { 0 };
	struct elf *elf;
	unsigned machine;
	int err;

	if (pread(fd, head, sizeof(head), 0) < 0) {
		err = -errno;
		snprintf(why, len, "%s", strerror(-err));
		return refuse(err, error);
	}
	machine = head[18] | (unsigned)head[19] << 8;
	if (head[EI_CLASS] == ELFCLASS32 && (machine == EM_386 || machine == EM_X86_64)) {
		snprintf(why, len, "it is a 32-bit program, and mtrun supervises 64-bit ones");
		return refuse(-ENOTSUP, error);
	}
	if (head[EI_CLASS] != ELFCLASS64 || machine != EM_X86_64) {
		snprintf(why, len,
			 "it is for another processor (%s), and mtrun supervises x86-64 programs",
			 machine_name(machine));
		return refuse(-ENOTSUP, error);
	}
	elf = is_whole(fd) ? elf_open(fd, &err) : refuse(-ENOEXEC, &err);
	if (!elf) {
		snprintf(why, len, "%s", strerror(-err));
		return refuse(err, error);
	}
	if (elf_is_static(elf) && !elf_has_functions(elf) && !hooks_given &&
	    !libc_signature_find(elf, known)) {
		elf_unref(elf);
		snprintf(
			why, len,
			"it is statically linked and stripped of its symbols, so its allocator cannot be found (build it without -s, or do not strip it)");
		return refuse(-ENOTSUP, error);
	}
	return elf;
}

const char *program_lost_rights(int fd)
{
	struct stat st;

	if (geteuid() == 0 || fstat(fd, &st) < 0)
		return NULL;
	if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	    ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getegid()))
		return "it is set-user-ID or set-group-ID";
	if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "it has file capabilities";
	return NULL;
}
