#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# seeds.sh NAME DIR - real input for a fuzzer to start from, small.
set -eu
name=$1 dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/a.c" <<'C'
__attribute__((noinline)) int f(int n, int (*g)(int)) { int a[n]; a[0] = n; return g(n) + a[0]; }
int main(int argc, char **argv) { (void)argv; return argc ? f(argc + 1, 0) : 0; }
C
for how in "-shared -fPIC -Wl,-soname,a.so" "-no-pie" "-pie -Wl,--hash-style=both" "-shared -fPIC -nostdlib -fno-omit-frame-pointer -s" "-static -nostdlib -Wl,-e,main"; do
	n=$(printf '%s' "$how" | cksum | cut -d ' ' -f 1)
	# shellcheck disable=SC2086
	gcc -O1 $how "$work/a.c" -o "$work/$n" -Wl,-z,noseparate-code
	case $name in
	fuzz_elf) cp "$work/$n" "$dir/$n" ;;
	fuzz_callframe)
		objcopy -O binary --only-section=.eh_frame --set-section-flags .eh_frame=alloc "$work/$n" "$work/$n.eh"
		{ printf '\000'; cat "$work/$n.eh"; } >"$dir/$n" ;;
	esac
done
