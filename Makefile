# SPDX-License-Identifier: GPL-3.0-or-later
#
# make [all]        build/mtrun: static, the trampoline inside
# make check        all unit and system tests, in their short forms (TESTS="tests/system/x.sh ..." for some of them)
# make soak         the long forms      make bench  the figures, into build/bench.md      make fuzz  the decoders
# make demo         the main job, shown on a small server-like program and on one of the system's
# make install      PREFIX=/usr/local DESTDIR=: the executable, its manual, and the header that programs may include
# make deb          a Debian package of that: build/mtrun_VERSION_amd64.deb
#
# Switches: V=1 (show commands)  CC=clang  WERROR=1  SAN=address,undefined  COV=1  BUILD=dir (default build, build-san, build-cov)
# SAN and COV link shared, everything else static.

VERSION := 0.2.0

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
# It reads what may be hostile, as root: an overflow is to end it, and nothing else. (Sanitizers find more;
# _FORTIFY_SOURCE needs -O.)
FORTIFY = $(if $(filter -O1 -O2 -O3 -Os,$(OPT) $(CFLAGS)),-D_FORTIFY_SOURCE=3)
HARDEN = $(if $(SAN)$(COV)$(findstring fsanitize,$(OPT)),,-fstack-protector-strong $(FORTIFY))
ALL_CFLAGS = $(CSTD) $(OPT) $(HARDEN) $(WARN) $(NAMED_CFLAGS) $(CFLAGS)
NAMED_CFLAGS = -DMTRUN_VERSION='"$(VERSION)"' $(LIB_CFLAGS) $(MODE_CFLAGS) -iquote supervisor -iquote . -I$(B)

ifneq ($(SAN)$(COV),)
MODE_CFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all $(if $(findstring thread,$(SAN)),$(if $(findstring clang,$(CC)),,-Wno-tsan))) $(if $(COV),--coverage)
LINK := shared
else
MODE_CFLAGS :=
LINK := static
endif

# ---- libraries -----------------------------------------------------------------------------------------------------------------
PACKAGES := libdw libelf liblzma zlib libdeflate libunwind-ptrace capstone readline libprotobuf-c \
	libzstd libxxhash libevent_extra libevent_core
ifeq ($(filter clean uninstall,$(or $(MAKECMDGOALS),all)),)
ifneq ($(shell $(PKG_CONFIG) --exists $(PACKAGES) && echo yes),yes)
$(error missing libraries: $(shell $(PKG_CONFIG) --print-errors --exists $(PACKAGES) 2>&1 | \
	grep -o "Package '[^']*'" | sort -u | tr '\n' ' '): run \
	./bootstrap all, or install libdw-dev libelf-dev libunwind-dev libcapstone-dev libreadline-dev \
	libiberty-dev liblzma-dev zlib1g-dev libdeflate-dev libbz2-dev \
	libprotobuf-c-dev protobuf-c-compiler libzstd-dev libxxhash-dev libevent-dev pkg-config)
endif
LIB_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES))
LIBS_static := $(shell $(PKG_CONFIG) --static --libs $(PACKAGES)) -liberty -lm
LIBS_shared := $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -liberty -lm -lpthread
endif

# ---- lists ---------------------------------------------------------------------------------------------------------------------
SRC := $(wildcard supervisor/*.c supervisor/*/*.c shell/*.c shell/*/*.c)
PROTO := $(wildcard supervisor/*/*.proto)
CARRIED := $(wildcard supervisor/*/*.js supervisor/*/*.css)
OBJ := $(SRC:%.c=$(B)/%.o) $(PROTO:%.proto=$(B)/%.pb-c.o) $(CARRIED:%=$(B)/%.o)
MAIN := $(B)/supervisor/main.o
BLOB_SRC := $(wildcard inject/*.c inject/*.S)
BLOB_OBJ := $(addprefix $(B)/,$(addsuffix .o,$(basename $(BLOB_SRC))))
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*/test_*.c))

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
.PHONY: all check layers mutants format headers syntax print-quick soak bench bench-compare fuzz demo
.PHONY: install uninstall deb clean FORCE
.SUFFIXES:
.SECONDARY:

all: $(B)/mtrun

# ---- the supervisor ------------------------------------------------------------------------------------------------------------
$(B)/supervisor/session/static.o: MODE_CFLAGS += $(if $(filter static,$(LINK)),-DMTRUN_STATIC)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

# Made from a grammar: the code, and its header, which must be there before what includes it is compiled.
$(B)/%.pb-c.c $(B)/%.pb-c.h &: %.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$<) d=$(B)/proto.$$$$.tmp && mkdir -p $$d && protoc-c --c_out=$$d $< && mv $$d/$*.pb-c.c $$d/$*.pb-c.h $(@D)/; s=$$?; rm -rf $$d; exit $$s

$(B)/%.pb-c.o: $(B)/%.pb-c.c
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -c $< -o $(tmp) && mv $(tmp) $@

$(B)/supervisor/export/pprof.o: | $(B)/supervisor/export/profile.pb-c.h

# What exported pages carry, as bytes: NAME.js is NAME_js to NAME_js_end.
$(CARRIED:%=$(B)/%.o): $(B)/%.o: %
	@mkdir -p $(@D)
	$(call say,EMBED,$@) n=$(subst .,_,$(notdir $*)); printf '%s\n' '.section .rodata' ".globl $$n, $${n}_end" "$$n:" '.incbin "$<"' "$${n}_end:" '.byte 0' \
		'.section .note.GNU-stack,"",@progbits' >$(tmp).S && $(CC) -c $(tmp).S -o $(tmp) && mv $(tmp) $@; s=$$?; rm -f $(tmp).S; exit $$s

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

# Nothing may be left to a loader: no undefined symbol, and no absolute address in what the compiler made.
BLOB_C_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard inject/*.c))
$(B)/inject/blob.elf: $(BLOB_OBJ) $(wildcard inject/blob.ld)
	@for o in $(BLOB_C_OBJ); do \
		if readelf -rW $$o | awk '/^Relocation section/ { s = $$3 } / R_X86_64_(64|32|32S) / && s !~ /debug/' | grep .; then \
			echo "$$o: absolute addresses (above); the trampoline runs anywhere" >&2; exit 1; fi; done
	$(call say,LINK,$@) $(CC) -static -nostdlib -nostartfiles -Wl,-T,inject/blob.ld -Wl,--eh-frame-hdr -Wl,--build-id=none -Wl,--strip-debug $(BLOB_OBJ) -o $(tmp) \
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
	@mkdir -p $(@D); $(MAKE) -k --no-print-directory $(filter-out $(MAIN),$(OBJ)) $(B)/blob.o 2>$(tmp).log >$(tmp).out || \
		{ cat $(tmp).log; echo "note: the above did not compile; tests that do not need it are linked all the same" >&2; }; \
	grep -v 'is up to date\|Nothing to be done' $(tmp).out || true; rm -f $(tmp).log $(tmp).out; \
	set --; for o in $(filter-out $(MAIN),$(OBJ)) $(B)/blob.o; do [ -f $$o ] && set -- "$$@" $$o; done; \
	if [ ! -f $@ ] || [ -n "$$(find "$$@" -newer $@ | head -1)" ]; then rm -f $(tmp); ar rcs $(tmp) "$$@" && mv $(tmp) $@; fi

# What a test checks is compiled as it is shipped. The test itself needs no optimizer, but where it carries
# our own code: the hooks', mtrun.h's.
$(B)/unit/%.o: OPT := -O0 -g
$(B)/unit/inject/%.o $(B)/unit/symbols/test_note.o: OPT := -O2 -g

$(B)/unit/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CFLAGS) -iquote tests/unit -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $(tmp) && mv $(tmp) $@

$(UNIT): %: %.o $(B)/unit/lib.a
	$(call say,LINK,$@) $(CC) $(ALL_CFLAGS) $(LDFLAGS) $< $(B)/unit/lib.a -o $(tmp) $(LIBS_shared) && mv $(tmp) $@

# ---- what benchmarks and the demo run: small programs, linked with nothing of ours ---------------------------------------
# (tests/victims are built by the tests themselves, each in many ways: tests/lib/mt.py.)
SMALL_CFLAGS ?= -std=gnu17 -D_GNU_SOURCE -O2 -g -Wall -Wextra
SMALL_CXXFLAGS ?= -std=gnu++17 -O2 -g -Wall -Wextra
small = $(patsubst tests/%.c,$(B)/%,$(wildcard $(1:%=tests/%/*.c))) $(patsubst tests/%.cc,$(B)/%,$(wildcard $(1:%=tests/%/*.cc)))
BENCH := $(call small,bench)
DEMO := $(call small,demo)
PRELOAD := $(patsubst tests/preload/%.c,$(B)/preload/%.so,$(wildcard tests/preload/*.c))

define small_rules
$(B)/$(1)/%: tests/$(1)/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,$$<) gcc $$(SMALL_CFLAGS) -MMD -MP -MF $$@.d -MT $$@ $$< -o $$(tmp) -lpthread && mv $$(tmp) $$@
$(B)/$(1)/%: tests/$(1)/%.cc
	@mkdir -p $$(@D)
	$$(call say,CXX,$$<) g++ $$(SMALL_CXXFLAGS) -MMD -MP -MF $$@.d -MT $$@ $$< -o $$(tmp) -lpthread && mv $$(tmp) $$@
endef
$(foreach d,bench demo,$(eval $(call small_rules,$(d))))

$(B)/bench/ledger: tests/bench/ledger.c $(B)/libmtrun.a		# but this one
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(SMALL_CFLAGS) -iquote supervisor -iquote . $(MODE_CFLAGS) -MMD -MP -MF $@.d -MT $@ $< $(B)/libmtrun.a -o $(tmp) $(LIBS_shared) && mv $(tmp) $@

$(B)/preload/%.so: tests/preload/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<) gcc $(SMALL_CFLAGS) -fPIC -shared -MMD -MP -MF $@.d -MT $@ $< -o $(tmp) && mv $(tmp) $@

# ---- tests -----------------------------------------------------------------------------------------------------------------------
# Every executable file *.sh and *.py under tests/system is a test; what they share is in tests/lib.
RUN_ENV = $(if $(SAN)$(COV),MTRUN_SLOW=4) MTRUN=$(abspath $(B))/mtrun MTRUN_BUILD=$(abspath $(B))
SCRIPTS := $(shell find tests/system \( -name '*.sh' -o -name '*.py' \) -perm -u+x 2>/dev/null | LC_ALL=C sort)
TESTS ?= tests/layers $(UNIT) $(SCRIPTS)

check soak: all $(UNIT) $(BENCH) $(PRELOAD)
check:
	@$(RUN_ENV) tests/run -j $(JOBS) -o $(B)/check $(TESTS)
soak:
	@MTRUN_SOAK=1 $(RUN_ENV) tests/run -j $(JOBS) -o $(B)/soak $(TESTS)

# Single edits, and whether the tests notice (tests/mutants): ARGS='-n 20 limit.c'
mutants: all
	@tests/mutants $(ARGS)

# What may include what.
layers:
	@tests/layers

# The C of this tree in its style (.clang-format).
FORMATTED := $(shell git ls-files supervisor shell inject tests/unit tests/fuzz tests/bench 2>/dev/null | grep '\.[ch]$$' | grep -v '^inject/mtrun.h\|^inject/memtracer/')
format:
	clang-format -i $(FORMATTED)

# `headers`: every header alone through the compiler's front end. `syntax`: every source, too; for warnings
# (CC=clang WERROR=1).
HEADERS := $(wildcard supervisor/*/*.h shell/*.h shell/*/*.h inject/*.h inject/*/*.h)
headers:
	@bad=0; \
	for f in $(HEADERS); do echo "#include \"$$f\"" | $(CC) $(ALL_CFLAGS) -I. -fsyntax-only -x c - || bad=1; done; \
	for s in 'c -std=c89' 'c -std=c17' 'c++ -std=c++98' 'c++ -std=c++20'; do \
		echo '#include "inject/memtracer/mt_info.h"' | $(CC) -I. -Wall -Wextra -Wpedantic $(if $(WERROR),-Werror) -fsyntax-only -x $$s - || bad=1; done; \
	exit $$bad
syntax: headers $(PROTO:%.proto=$(B)/%.pb-c.h)
	@bad=0; \
	for f in $(SRC) $(wildcard tests/unit/*/test_*.c); do \
		$(CC) $(ALL_CFLAGS) -iquote tests/unit -fsyntax-only $$f || bad=1; done; \
	for f in $(filter %.c,$(BLOB_SRC)); do $(CC) $(BLOB_CFLAGS) -fsyntax-only $$f || bad=1; done; \
	exit $$bad

# The tests that carry a line `# quick` are what the sanitizer builds run in CI, beside the unit tests.
print-quick:
	@echo $(UNIT) $(if $(SCRIPTS),$(shell grep -l '^\# quick$$' $(SCRIPTS)))

bench: all $(BENCH)
	@$(RUN_ENV) tests/bench/run
	@cat $(B)/bench.md
# make bench-compare A=old.json: what the figures of build/bench.json have become since
bench-compare:
	@$(RUN_ENV) tests/bench/run --compare $(A)

# tests/fuzz/*.c: each an LLVMFuzzerTestOneInput over one decoder. FUZZ_TIME: seconds for each.
FUZZ_TIME ?= 60
FUZZERS := $(patsubst tests/fuzz/%.c,build-fuzz/fuzz/%,$(wildcard tests/fuzz/*.c))
build-fuzz/fuzz/%: tests/fuzz/%.c FORCE
	@mkdir -p $(@D) build-fuzz/corpus/$*
	@$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz OPT='-O1 -g -fsanitize=fuzzer-no-link,address,undefined' build-fuzz/unit/lib.a
	$(call say,LINK,$@) clang $(CSTD) -O1 -g -fsanitize=fuzzer,address,undefined -iquote supervisor -iquote . $< build-fuzz/unit/lib.a -o $@ $(LIBS_shared)
fuzz: $(FUZZERS)
	@for f in $(FUZZERS); do n=$${f##*/}; \
		tests/fuzz/seeds.sh $$n build-fuzz/corpus/$$n && \
		$$f -max_total_time=$(FUZZ_TIME) -max_len=65536 -artifact_prefix=$$f. -verbosity=0 -print_final_stats=1 build-fuzz/corpus/$$n >$$f.log 2>&1 || \
			{ tail -n 40 $$f.log; echo "FAIL $$n: its input is beside $$f"; exit 1; }; \
		echo "ok   $$n:$$(sed -n 's/.*number_of_executed_units://p' $$f.log) inputs in $(FUZZ_TIME) s"; done

demo: all $(DEMO)
	@$(RUN_ENV) tests/demo/demo

# ---- install -----------------------------------------------------------------------------------------------------------------------
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
INCLUDEDIR ?= $(PREFIX)/include
INSTALL ?= install

# each file, and what it becomes
INSTALLED := \
	man/mtrun.1:$(DATADIR)/man/man1/mtrun.1 \
	man/mtrun-heap.5:$(DATADIR)/man/man5/mtrun-heap.5 \
	man/mtrun-log.5:$(DATADIR)/man/man5/mtrun-log.5 \
	man/mtrun-migrating.7:$(DATADIR)/man/man7/mtrun-migrating.7 \
	man/mtrun-serve.7:$(DATADIR)/man/man7/mtrun-serve.7 \
	$(foreach f,$(wildcard man/examples/*),$(f):$(DATADIR)/doc/mtrun/examples/$(notdir $(f))) \
	shell/completion/mtrun.bash:$(DATADIR)/bash-completion/completions/mtrun \
	shell/completion/_mtrun:$(DATADIR)/zsh/vendor-completions/_mtrun \
	inject/mtrun.h:$(INCLUDEDIR)/mtrun.h \
	inject/memtracer/mt_info.h:$(INCLUDEDIR)/memtracer/mt_info.h

install: all
	$(INSTALL) -D -m 755 $(B)/mtrun $(DESTDIR)$(BINDIR)/mtrun
	$(foreach f,$(INSTALLED),$(INSTALL) -D -m 644 $(subst :, $(DESTDIR),$(f)) &&) true

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/mtrun $(foreach f,$(INSTALLED),$(DESTDIR)$(lastword $(subst :, ,$(f))))
	-rmdir $(DESTDIR)$(INCLUDEDIR)/memtracer $(DESTDIR)$(DATADIR)/doc/mtrun/examples $(DESTDIR)$(DATADIR)/doc/mtrun 2>/dev/null || true

deb: all
	$(Q)rm -rf $(B)/deb
	$(Q)$(MAKE) -s install PREFIX=/usr DESTDIR=$(abspath $(B))/deb
	$(Q)debian/build $(VERSION) $(B)/deb $(B)/mtrun_$(VERSION)_amd64.deb

clean:
	rm -rf $(BUILD) build-san build-cov build-fuzz build-clang

-include $(wildcard $(B)/bench/*.d $(B)/demo/*.d $(B)/preload/*.d)
-include $(OBJ:.o=.d) $(BLOB_OBJ:.o=.d) $(wildcard $(B)/unit/*/*.d)
