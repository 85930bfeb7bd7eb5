#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# quick
# timeout: 300
#
# build.sh - what the executable and the tree must be like, whatever the code does.
: "${MTRUN:=build/mtrun}" "${MTRUN_BUILD:=build}"
cd "$(dirname "$0")/../../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

result() { # NAME STATUS WHY
	if [ "$2" -eq 0 ]; then
		echo "ok $1"
	else
		echo "FAIL $1: $3"
		bad=1
	fi
}

if [ ! -x "$MTRUN" ]; then
	echo "FAIL build: there is no $MTRUN"
	exit 1
fi
headers=$(readelf -lW "$MTRUN")
if nm "$MTRUN" | grep -q -e __asan_init -e __tsan_init -e __ubsan_handle -e __gcov_; then
	echo "skip static: this is a build with sanitizers or coverage, which is linked shared"
else
	! printf '%s\n' "$headers" | grep -q -e INTERP -e DYNAMIC
	result static $? "$MTRUN is a dynamic executable"
	nm -u "$MTRUN_BUILD"/supervisor/*/*.o >"$dir/log" &&
		grep -q '__stack_chk_fail$' "$dir/log" && grep -q '__mem[a-z]*_chk$' "$dir/log"
	result "overflows are looked for" $? "no stack protector, or no _FORTIFY_SOURCE, in supervisor/"
fi
! printf '%s\n' "$headers" | grep -q 'RWE'
result "no segment writable and executable" $? "readelf -l"
[ -z "$(nm -u "$MTRUN_BUILD/inject/blob.elf")" ]
result "the trampoline has no undefined symbol" $? "nm -u $MTRUN_BUILD/inject/blob.elf"

bare=$(grep -lE 'remote_(read|read_spans|write)\(' -r supervisor shell --include='*.c' |
	grep -v '^supervisor/base/')
[ -z "$bare" ]
result "the memory of a program is read through base/patient.h alone" $? "$bare"

make -s install BUILD="$MTRUN_BUILD" PREFIX=/usr DESTDIR="$dir/root" >"$dir/log" 2>&1 && [ -x "$dir/root/usr/bin/mtrun" ] &&
	[ -s "$dir/root/usr/share/man/man1/mtrun.1" ] && [ -s "$dir/root/usr/share/man/man5/mtrun-heap.5" ] && [ -s "$dir/root/usr/share/man/man5/mtrun-log.5" ] &&
	[ -s "$dir/root/usr/include/mtrun.h" ] && [ -s "$dir/root/usr/include/memtracer/mt_info.h" ] && cmp -s "$MTRUN" "$dir/root/usr/bin/mtrun"
result "make install" $? "$(tail -n 1 "$dir/log")"
examples=$(find man/examples -type f | wc -l)
[ "$(find "$dir/root" -type f | wc -l)" = $((10 + examples)) ]
result "make install installs ten files and the examples" $? "$(find "$dir/root" -type f | tr '\n' ' ')"
for lang in c c++; do
	if ! command -v "g$([ $lang = c ] && echo cc || echo ++)" >/dev/null; then
		echo "skip the headers, as $lang: no compiler"
		continue
	fi
	printf '#include <mtrun.h>\n#include <memtracer/mt_info.h>\nint main(void) { return (int)mtrun_allocated_memory(); }\n' >"$dir/use.$lang"
	gcc -x $lang -Wall -Wextra -Werror -I"$dir/root/usr/include" "$dir/use.$lang" -o "$dir/use" 2>"$dir/log" && "$dir/use"
	result "the installed headers serve $lang" $? "$(head -n 1 "$dir/log")"
done

# (CI has clang look at the sources, too.)
make -s WERROR=1 BUILD="$dir" headers >"$dir/log" 2>&1
result "each header stands alone" $? "$(grep -m 1 error "$dir/log")"
exit $bad
