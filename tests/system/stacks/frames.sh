#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# frames.sh - the stacks of random allocations in real programs, as the hooks see them, are libunwind's at the same stop (tests/unit/tracee/test_frames.c).
# MTRUN_SOAK=1: 10000 allocations of each program, otherwise 150, or what comes in some seconds.
# Each difference is printed and fails the test; so does more than one stack in a thousand that ends in [truncated].
#
# timeout: 300

top=$(cd "$(dirname "$0")/../../.." && pwd)
build=${MTRUN_BUILD:-$top/build}
frames=$build/unit/tracee/test_frames
src=$top/tests/system/stacks/frames
tmp=$(mktemp -d /tmp/mtrun-test.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

if [ "${MTRUN_SOAK:-0}" = 1 ]; then
	count=10000 FRAMES_SECONDS=550
else
	count=150 FRAMES_SECONDS=24
fi
FRAMES_DONE=$tmp/done
export FRAMES_SECONDS FRAMES_DONE
failed=0

# try NAME PROGRAM ARG...: the program runs until $FRAMES_DONE exists.
try() {
	name=$1
	shift
	if ! command -v "$1" >/dev/null; then
		echo "skip $name: no $1 here"
		return
	fi
	rm -f "$FRAMES_DONE"
	timeout -k 5 $((FRAMES_SECONDS + 40)) "$frames" $count "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	status=$?
	result=$(grep '^stacks ' "$tmp/out")
	set -- $result
	if [ $# -lt 12 ]; then
		echo "FAIL $name: status $status, no result"
		tail -n 5 "$tmp/err"
		failed=1
	elif [ "$2" -lt 50 ]; then
		echo "FAIL $name: only $2 stacks"
		failed=1
	elif [ "$4" -ne 0 ] || [ "$6" -gt $(($2 / 1000)) ]; then
		grep '^#' "$tmp/out"
		echo "FAIL $name: $result"
		failed=1
	else
		grep '^#' "$tmp/out"
		echo "ok $name"
	fi
}

[ -x "$frames" ] || { echo "$frames is not built"; exit 1; }
gcc -O2 -g -D_GNU_SOURCE "$src/victim.c" -o "$tmp/signals" -lpthread || exit 1
try 'libcrypto, signals, threads' "$tmp/signals"

cat >"$tmp/threads.py" <<'EOF'
import json, os, re, threading, zlib
def work(n):
    while not os.path.exists(os.environ['FRAMES_DONE']):
        data = {str(i): [i, i * 1.5, {'k': 'v' * (i % 50)}] for i in range(200)}
        text = json.dumps(data)
        json.loads(text)
        re.sub(r'(\w)(\d+)', lambda m: m.group(2) + m.group(1), text)
        zlib.decompress(zlib.compress(text.encode()))
        sorted(data.items(), key=lambda kv: str(kv[1]))
ts = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[t.start() for t in ts]
[t.join() for t in ts]
EOF
try 'python3, threads' /usr/bin/python3 "$tmp/threads.py"

cat >"$tmp/redis.sh" <<'EOF'
redis-server --port 0 --unixsocket "$1/sock" --dir "$1" --save '' --io-threads 2 --io-threads-do-reads yes >/dev/null 2>&1 &
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -S "$1/sock" ] && break
	sleep 0.1
done
while [ ! -e "$FRAMES_DONE" ]; do
	redis-benchmark -s "$1/sock" -n 3000 -c 8 -r 1000 -q -t set,get,lpush,lpop,sadd,hset,zadd,lrange_100 >/dev/null 2>&1
done
redis-cli -s "$1/sock" shutdown nosave >/dev/null 2>&1
wait
EOF
if command -v redis-server >/dev/null; then
	try 'redis-server, its benchmark' sh "$tmp/redis.sh" "$tmp"
else
	echo 'skip redis-server: not here'
fi

cat >"$tmp/a.cc" <<'EOF'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() { std::map<std::string, std::regex> m; m["a"] = std::regex("x+"); std::cout << m.size(); }
EOF
cat >"$tmp/compile.sh" <<'EOF'
while [ ! -e "$FRAMES_DONE" ]; do g++ -O1 -c "$1/a.cc" -o "$1/a.o"; done
EOF
try 'g++' sh "$tmp/compile.sh" "$tmp"

cat >"$tmp/a.pl" <<'EOF'
until (-e $ENV{FRAMES_DONE}) {
	my %h = map { $_ => [1 .. $_ % 30] } 1 .. 300;
	my $t = join ',', map { "$_=@{$h{$_}}" } sort { $h{$a}[0] <=> $h{$b}[0] || $a <=> $b } keys %h;
	$t =~ s/(\d+)=(\d*)/sprintf('%x:%s', $1, $2)/ge;
	my @w = split /[ ,]/, $t;
	eval 'sub f { my ($n) = @_; return $n ? f($n - 1) . "x" : "" } f(20)';
}
EOF
try 'perl' perl "$tmp/a.pl"

cat >"$tmp/sql.sh" <<'EOF'
while [ ! -e "$FRAMES_DONE" ]; do
	printf '%s\n' 'create table t(a integer primary key, b text, c real);' \
		'with recursive n(i) as (select 1 union all select i+1 from n where i < 4000) insert into t select i, hex(i*7919), i*1.5 from n;' \
		'create index b on t(b);' "select count(*), group_concat(b) from t where b like '%1%' group by a % 7 order by 1;" \
		'select json_group_array(b) from t; update t set c = c + 1 where a % 3 = 0; delete from t where a % 2; vacuum;' | sqlite3 :memory: >/dev/null
done
EOF
command -v sqlite3 >/dev/null && try 'sqlite3' sh "$tmp/sql.sh"

cat >"$tmp/git.sh" <<'EOF'
cd "$1" && git init -q repo && cd repo && git config user.email t@example.org && git config user.name t
i=0
while [ ! -e "$FRAMES_DONE" ]; do
	i=$((i + 1))
	seq $i $((i + 500)) >f$((i % 9))
	git add . && git commit -q -m "$i" && git log -p -5 >/dev/null && git repack -q -a -d
done
EOF
command -v git >/dev/null && try 'git' sh "$tmp/git.sh" "$tmp"

if command -v musl-gcc >/dev/null; then
	musl-gcc -O2 -g -D_GNU_SOURCE "$src/musl.c" -o "$tmp/musl" && try 'musl' "$tmp/musl"
	musl-gcc -static -O2 -g -D_GNU_SOURCE "$src/musl.c" -o "$tmp/musl-static" && try 'musl, static' "$tmp/musl-static"
else
	echo 'skip musl: no musl-gcc here'
fi
exit $failed
