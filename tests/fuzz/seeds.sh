#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# seeds.sh NAME DIR - real input for a fuzzer to start from, small; what fuzzers have found before is in corpus/NAME.
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
[ ! -d "${0%/*}/corpus/$name" ] || cp "${0%/*}/corpus/$name"/* "$dir"
case $name in
fuzz_heap)
	# by hand: mtrun itself need not be built
	{
		printf 'heap profile:      1:       40 [     3:      120] @ heapprofile\n     1:       40 [     3:      120] @ 0x2fff 0x2000\n\n'
		printf 'MAPPED_LIBRARIES:\n00001000-00004000 r-xp 00000000 00:00 0 /bin/app\n# mtrun heap 1\n# pid 8\n# command app\n# exe /bin/app\n# why l\n'
		printf '# clock 1795273445123\n# elapsed 12\n# counted heap mmap\n# sample 0\n# live 40 1\n# total 120 3 1\n# peak 80 7\n# limit 10 80 90 5\n'
		printf '# before 70 3\n# mark 5 phase\n# module 1000 4000 1000 4000 1000 0 1 abcd /bin/app\n# s main\n# s /a.c\n# s /bin/app\n# f 1 2 4 1 3 2000 0 0\n'
		printf '# n 2 0 2000 1 1\n# s get\n# s std::f\n# f 5 2 9 1 3 3000 2 1\n# f 4 2 7 3 3 3000 0 0\n# n 5 2 3000 2 2\n# r 5 40 1 120 3 1\n'
	} >"$dir/whole"
	sed -n '/^# mtrun/,$p' "$dir/whole" | sed '1i heap profile: \n' >"$dir/short"
	table='--- symbol\nbinary=/bin/app\n0x0000000000001000 operator new(unsigned long)\n0x0000000000002004 main--grow\n---\n--- heap\n'
	{
		printf 'heap_v2/10\n  t*: 5: 80 [6: 120]\n@ 0x1000 0x2005\n  t*: 3: 30 [4: 70]\n  t1: 2: 20 [0: 0]\n@ 0x2004\n  t*: 2: 50 [2: 50]\n\n'
		printf 'MAPPED_LIBRARIES:\n00001000-00002000 r--p 00000000 00:00 1 /bin/app\n00002000-00004000 r-xp 00001000 00:00 1 /bin/app\n'
	} >"$dir/jemalloc"
	{
		printf '%b' "$table"
		cat "$dir/jemalloc"
	} >"$dir/jemalloc-symbols"
	{
		printf 'heap profile:      5:       80 [     6:      120] @ heap_v2/100\n     3:       30 [     4:       70] @ 0x2010 0x2005\n'
		sed -n '/^MAPPED/,$p' "$dir/jemalloc"
	} >"$dir/gperftools" ;;
fuzz_suppressions)
	printf '{\n one\n Memcheck:Leak\n match-leak-kinds: definite,possible\n fun:malloc\n ...\n obj:*/libc.so*\n src:a.c:*\n}\nleak:^f*g$\nmain\nf(int)\nstd::g<h>::i()\n0x12' \
		>"$dir/both"
	printf '# other tools\n{\n two\n Memcheck,Helgrind:Cond\n fun:f\n}\n{\n three\n Addrcheck,Memcheck:Leak\n fun:?????\n fun:f*\n}\nx' >"$dir/tools" ;;
fuzz_symbols)
	for how in "-gdwarf-5 -O2" "-gdwarf-4 -O1" "-g -O2 -gz" "-gdwarf-3 -O0"; do
		n=$(printf '%s' "$how" | cksum | cut -d ' ' -f 1)
		# shellcheck disable=SC2086
		gcc $how -shared -fPIC -nostdlib "$work/a.c" -o "$dir/$n" -Wl,-z,noseparate-code
	done ;;
fuzz_demangle)
	for n in _ZNSt6vectorIiSaIiEE9push_backEOi _ZZ4mainENKUliE_clEi _ZThn16_NSt3foo3barEv _ZN4PoolnwEm _RNvXs2_Cs5_7mycrateNtB2_1TNtNtCs1234_4core3fmt5Debug3fmt \
		'_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE' _D3std5stdio7writelnFZv main.cold malloc@@GLIBC_2.2.5; do
		printf '%s' "$n" >"$dir/$(printf '%s' "$n" | cksum | cut -d ' ' -f 1)"
	done ;;
fuzz_http)
	i=0
	for path in / /metrics /healthz /debug/pprof/ '/debug/pprof/heap?debug=1' '/debug/pprof/allocs?seconds=0' '/api/v1/report?n=3&by=stack' '/api/v1/diff?since=0s' \
		'/api/v1/text?match=a%20b&sort=size' '/api/v1/tree?pid=8' /api/v1/status '/?token=x' /events '/../etc/passwd' '/api/v1/x;y'; do
		printf 'GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$path" >"$dir/get$((i += 1))"
	done
	printf 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcHEAD /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n' >"$dir/two"
	printf 'GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer x\r\nCookie: a=b; mtrun=c\r\n\r\n5\r\nabcde\r\n0\r\n\r\n' >"$dir/chunked" ;;
esac
