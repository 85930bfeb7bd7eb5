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

# mtrun has a soft limit of its own raised, the program keeps it; under a hard one that is too low it says so, and nothing has run.
soft() { # NAME OPTION KIB
	got=$(ulimit -S "$2" "$3"; exec timeout -k 1 30 "$mtrun" -q -x 'wait exit' sh -c "ulimit -S $2" 2>"$tmp/ours.err")
	if [ "$got" = "$3" ]; then
		echo "ok $1"
	else
		echo "FAIL $1: '$got'; $(head -c 200 "$tmp/ours.err" | tr '\n' ' ')"
		status=1
	fi
}

hard() { # NAME OPTION RESOURCE KIB...
	name=$1 option=$2 resource=$3
	bad=
	shift 3
	for kib; do
		got=$(ulimit "$option" "$kib"; exec timeout -k 1 30 "$mtrun" -q -x 'wait exit' /bin/echo ran 2>"$tmp/ours.err")
		code=$?
		case "$code $got $(tr '\n' ' ' <"$tmp/ours.err")" in
		"0 ran " | [1-9]*"  mtrun: "*"$resource"*) ;;
		*) bad="$bad; $kib: $code '$got' $(head -c 200 "$tmp/ours.err" | tr '\n' ' ')" ;;
		esac
	done
	if [ -z "$bad" ]; then
		echo "ok $name"
	else
		echo "FAIL $name$bad"
		status=1
	fi
}

# The sanitizers' own memory is more than that.
case ${MTRUN_SLOW-} in '')
	soft soft_data -d 16000
	soft soft_address_space -v 60000
	hard hard_data -d RLIMIT_DATA 8000 16000 32000 40000 48000 64000
	hard hard_address_space -v RLIMIT_AS 24000 32000 40000 48000 56000 64000 80000 ;;
esac
exit $status
