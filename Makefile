# SPDX-License-Identifier: GPL-3.0-or-later
#
# make [all]        build/mtrun: static, the trampoline inside
# make check        all unit and system tests, in their short forms (TESTS="tests/system/x.sh ..." for some of them)
# make soak         the long forms      make bench  the figures, into build/bench.md      make fuzz  the decoders
# make demo         the main job, shown on a small server-like program and on one of the system's
# make install      PREFIX=/usr/local DESTDIR=
#
# Switches: V=1 (show commands)  CC=clang  WERROR=1  SAN=address,undefined  COV=1  BUILD=dir (default build, build-san, build-cov)
# SAN and COV link shared, everything else static.

VERSION := 0.1.0

CC := gcc
CXX := g++
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config
JOBS ?= 2

BUILD ?= build$(if $(SAN),-san)$(if $(COV),-cov)
B := $(BUILD)

CSTD := -std=gnu17 -D_GNU_SOURCE
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(if $(WERROR),-Werror)
OPT ?= -O2 -g
CFLAGS ?=
ALL_CFLAGS = $(CSTD) $(OPT) $(WARN) -DMTRUN_VERSION='"$(VERSION)"' $(LIB_CFLAGS) $(MODE_CFLAGS) $(CFLAGS)

ifneq ($(SAN)$(COV),)
MODE_CFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(if $(COV),--coverage)
LINK := shared
else
MODE_CFLAGS :=
LINK := static
endif

# ---- libraries -----------------------------------------------------------------------------------------------------------------
PACKAGES := libdw libelf libunwind-ptrace capstone
ifeq ($(filter clean fuzz-clean,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell $(PKG_CONFIG) --exists $(PACKAGES) && echo yes),yes)
$(error missing libraries: $(shell $(PKG_CONFIG) --print-errors --exists $(PACKAGES) 2>&1 | grep -o "Package '[^']*'" | sort -u | tr '\n' ' '): run ./bootstrap all, or install libdw-dev libelf-dev libunwind-dev libcapstone-dev libiberty-dev libbz2-dev pkg-config)
endif
LIB_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES))
LIBS_static := $(shell $(PKG_CONFIG) --static --libs $(PACKAGES)) -liberty
LIBS_shared := $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -liberty -lpthread
endif

# ---- lists ---------------------------------------------------------------------------------------------------------------------
SRC := $(wildcard supervisor/*.c supervisor/*/*.c shell/*.c)
OBJ := $(SRC:%.c=$(B)/%.o)
MAIN := $(B)/supervisor/main.o
BLOB_SRC := $(wildcard inject/*.c inject/*.S)
BLOB_OBJ := $(addprefix $(B)/,$(addsuffix .o,$(basename $(BLOB_SRC))))
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))

ifeq ($(V),)
Q := @
say = @printf '  %-5s %s\n' $(1) '$(2)';
else
Q :=
say =
endif
# Everything is made beside its place and then moved there, so that two makes in one tree never see each other's halves.
tmp = $@.$$$$.tmp

.DEFAULT_GOAL := all
.PHONY: all check soak bench fuzz demo install uninstall clean FORCE
.SUFFIXES:
.SECONDARY:

all: $(B)/mtrun

# ---- the supervisor ------------------------------------------------------------------------------------------------------------
$(B)/supervisor/static.o: MODE_CFLAGS += $(if $(filter static,$(LINK)),-DMTRUN_STATIC)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

$(B)/mtrun: $(OBJ) $(B)/blob.o
	$(call say,LINK,$@) $(CC) $(ALL_CFLAGS) $(if $(filter static,$(LINK)),-static) $(LDFLAGS) $^ -o $(tmp) $(LIBS_$(LINK)) && mv $(tmp) $@

# ---- the trampoline: freestanding, no undefined symbol, then carried in mtrun as bytes ------------------------------------------
BLOB_CFLAGS := $(CSTD) -O2 -g $(WARN) -fPIE -fno-plt -ffreestanding -nostdlib -mgeneral-regs-only -fno-stack-protector -fno-builtin \
	-fcf-protection=none -fvisibility=hidden -fomit-frame-pointer -fasynchronous-unwind-tables
BLOB_CFLAGS += $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns)

$(B)/inject/%.o: inject/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(BLOB_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

$(B)/inject/%.o: inject/%.S
	@mkdir -p $(@D)
	$(call say,AS,$<) $(CC) $(BLOB_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

$(B)/inject/blob.elf: $(BLOB_OBJ) $(wildcard inject/blob.ld)
	@mkdir -p $(@D)
	$(call say,LINK,$@) $(CC) -static -nostdlib -nostartfiles -Wl,-T,inject/blob.ld -Wl,--build-id=none -Wl,--no-warn-rwx-segments $(BLOB_OBJ) -o $(tmp) \
		&& if nm -u $(tmp) | grep .; then echo "$@: undefined symbols in the trampoline (above)" >&2; rm -f $(tmp); false; fi && mv $(tmp) $@

ifneq ($(and $(wildcard inject/blob.ld),$(BLOB_SRC)),)
BLOB := $(B)/inject/blob.elf
endif

$(B)/blob.o: $(BLOB) Makefile
	@mkdir -p $(@D)
	$(call say,EMBED,$@) printf '%s\n' '.section .rodata' '.balign 4096' '.globl blob_elf_start, blob_elf_end' 'blob_elf_start:' $(if $(BLOB),'.incbin "$(BLOB)"') \
		'blob_elf_end:' '.byte 0' '.section .note.GNU-stack,"",@progbits' >$(tmp).S && $(CC) -c $(tmp).S -o $(tmp) && mv $(tmp) $@; s=$$?; rm -f $(tmp).S; exit $$s

# ---- unit tests: each against an archive of everything but main.o, shared libraries ---------------------------------------------
# A file that does not compile keeps only those tests from linking that need it.
$(B)/libmtrun.a: $(filter-out $(MAIN),$(OBJ)) $(B)/blob.o
	$(call say,AR,$@) rm -f $(tmp); ar rcs $(tmp) $^ && mv $(tmp) $@

$(B)/unit/lib.a: FORCE
	@mkdir -p $(@D)
	@$(MAKE) -k --no-print-directory $(filter-out $(MAIN),$(OBJ)) $(B)/blob.o 2>$(tmp).log >$(tmp).out || \
		{ cat $(tmp).log; echo "note: the above did not compile; tests that do not need it are linked all the same" >&2; }; \
	grep -v 'is up to date\|Nothing to be done' $(tmp).out || true; rm -f $(tmp).log $(tmp).out; \
	set --; for o in $(filter-out $(MAIN),$(OBJ)) $(B)/blob.o; do [ -f $$o ] && set -- "$$@" $$o; done; \
	if [ ! -f $@ ] || [ -n "$$(find "$$@" -newer $@ | head -1)" ]; then rm -f $(tmp); ar rcs $(tmp) "$$@" && mv $(tmp) $@; fi

$(B)/unit/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -Isupervisor -Itests/unit -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

$(B)/unit/test_%: $(B)/unit/test_%.o $(B)/unit/lib.a
	$(call say,LINK,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) $< $(B)/unit/lib.a -o $(tmp) $(LIBS_shared) && mv $(tmp) $@

-include $(OBJ:.o=.d) $(BLOB_OBJ:.o=.d) $(wildcard $(B)/unit/*.d)
