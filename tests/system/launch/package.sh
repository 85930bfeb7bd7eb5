#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# package.sh - `make deb`: what is in the package runs, its completions are read by their shells, and lintian has nothing to say beyond what the package explains.
# timeout: 120
set -uo pipefail

cd "$(dirname "$0")/../../.." || exit 1
command -v dpkg-deb >/dev/null || { echo "skip package: dpkg-deb is not installed"; exit 0; }
case $MTRUN_BUILD in
*/build) ;;
*) echo "skip package: it is made of the plain build"; exit 0 ;;
esac
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT

check() { # NAME COMMAND...
	local name=$1
	shift
	if "$@" >"$dir/log" 2>&1; then echo "ok $name"; else echo "FAIL $name: $(head -c 400 "$dir/log" | tr '\n' ' ')"; fi
}

check 'it is made' make -s deb
deb=$(ls "$MTRUN_BUILD"/mtrun_*_amd64.deb 2>/dev/null | head -n 1)
check 'it is unpacked' dpkg-deb -x "$deb" "$dir/root"
version=$(dpkg-deb -f "$deb" Version)
check 'its executable is of that version' bash -c "[ \"\$('$dir/root/usr/bin/mtrun' --version | head -n 1)\" = '$("$MTRUN" --version | head -n 1)' ] && [ '$version' = '${version#*-}' ]"
check 'its executable works alone' "$dir/root/usr/bin/mtrun" -q -x 'wait exit; report --json' -- ls /
check 'what programs include is there' test -s "$dir/root/usr/include/mtrun.h" -a -s "$dir/root/usr/include/memtracer/mt_info.h"
check 'the manual is there' test -s "$dir/root/usr/share/man/man1/mtrun.1.gz" -a -s "$dir/root/usr/share/man/man7/mtrun-migrating.7.gz"

# in a bash of its own: what Tab offers for `mtrun --lim`, and for `mtrun -m l`
complete() { # WORDS...
	PATH=$dir/root/usr/bin:$PATH bash --norc -c '
		. "$1"; shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_mtrun
		echo "${COMPREPLY[*]}"' _ "$dir/root/usr/share/bash-completion/completions/mtrun" "$@"
}
check 'bash: options' bash -c "[ '$(complete mtrun --limi)' = '--limit --limit-exit' ]"
check 'bash: values' bash -c "[ '$(complete mtrun -m l)' = 'log-fast log' ]"
check 'bash: a program' bash -c "case ' $(complete mtrun -q mkdi) ' in *' mkdir '*) ;; *) exit 1 ;; esac"
if command -v zsh >/dev/null; then
	check 'zsh reads its completion' zsh -n "$dir/root/usr/share/zsh/vendor-completions/_mtrun"
else
	echo "skip zsh reads its completion: zsh is not installed"
fi
if command -v lintian >/dev/null; then
	check 'lintian' bash -c "lintian --fail-on error,warning --allow-root '$deb' 2>/dev/null"
else
	echo "skip lintian: it is not installed"
fi
