#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# limits.sh - resource limits are the program's: under each of them it does what it does without mtrun, and ends.
# Some are too tight for our part to be mapped; then the program runs without us, and it is said (that is in the messages, not looked at here).

mtrun=${MTRUN:-build/mtrun}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0

try() { # NAME COMMANDS
	sh -c "$2" >"$tmp/plain" 2>"$tmp/plain.err"
	plain=$?
	timeout -k 1 30 "$mtrun" -q --messages "$tmp/messages" -x 'wait exit' sh -c "$2" >"$tmp/ours" 2>"$tmp/ours.err"
	ours=$?
	if [ $plain = $ours ] && cmp -s "$tmp/plain" "$tmp/ours" && cmp -s "$tmp/plain.err" "$tmp/ours.err"; then
		echo "ok $1"
	else
		echo "FAIL $1: status $ours, plain $plain; $(head -c 200 "$tmp/ours.err" | tr '\n' ' ')"
		status=1
	fi
}

try files 'ulimit -f 1000; ls / | sort | sha256sum'
try files_reached 'ulimit -f 1000; head -c 3000000 /dev/zero >"'"$tmp"'/big"; echo $?; wc -c <"'"$tmp"'/big"'
try address_space_set_late 'ulimit -v 400000; ls / | sort | head -3; (echo a; echo b) | cat; echo $?'
try address_space 'ulimit -v 2000000; ls / | sort | head -3; (echo a; echo b) | cat'
try descriptors 'ulimit -n 3; (echo a); /bin/echo hi; echo $?'
try descriptors_none 'ulimit -n 0; /bin/echo hi; echo $?'
try data 'ulimit -d 2000; /bin/echo hi; echo $?'
try stack 'ulimit -s 200; sort /etc/passwd | sha256sum'
try locked 'ulimit -l 0; /bin/echo hi; echo $?'
try core 'ulimit -c 0; /bin/echo hi; echo $?'
try time 'ulimit -t 1; sh -c "while :; do :; done"; echo $?'
exit $status
