#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# quick
#
# man.sh - the manual page is clean mdoc, and it, --help and `help` name the same options and commands.
: "${MTRUN:=build/mtrun}"
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

same() { # NAME FILE FILE
	if [ -s "$2" ] && cmp -s "$2" "$3"; then
		echo "ok $1"
	else
		echo "FAIL $1: $(diff "$2" "$3" | grep '^[<>]' | tr '\n' ' ')"
		bad=1
	fi
}

if ! command -v mandoc >/dev/null; then
	echo "skip mandoc -T lint: mandoc is not installed"
elif mandoc -T lint man/mtrun.1 >"$dir/lint" 2>&1 && [ ! -s "$dir/lint" ]; then
	echo "ok mandoc -T lint"
else
	echo "FAIL mandoc -T lint: $(head -n 1 "$dir/lint")"
	bad=1
fi

"$MTRUN" --help >"$dir/help" || { echo "FAIL --help: exit status $?"; bad=1; }
sed -n 's/^  -\(.\), --\([a-z-]*\).*/\1 \2/p; s/^      --\([a-z-]*\).*/\1/p' "$dir/help" | tr ' ' '\n' | sort -u >"$dir/help.options"
awk '/^\.Sh/ { on = $2 == "DESCRIPTION" }
	on && /^\.It Fl / { for (i = 2; i < NF; i++) if ($i == "Fl") { x = $(i + 1); sub(/^-/, "", x); print x } }' man/mtrun.1 | sort -u >"$dir/man.options"
same "options of --help and the manual page" "$dir/help.options" "$dir/man.options"

"$MTRUN" -q -x help true 2>"$dir/shell.help" || { echo "FAIL help: exit status $?"; bad=1; }
sed -n 's/^  *\([a-z!][a-z]*\)\( .*\)*$/\1/p' "$dir/shell.help" | sort -u >"$dir/help.commands"
sed -n '/^\.Sh COMMANDS/,/^\.Sh ENV/p' man/mtrun.1 | awk '
	/^\.It Ic / { sub(/^\.It /, ""); take($0) }
	/^\.It Xo/ { getline; sub(/^\./, ""); take($0) }
	function take(line, n, w, i) { n = split(line, w, " "); for (i = 1; i < n; i++) if (w[i] == "Ic" || w[i] == ",") { x = w[i + 1]; sub(/^\\&/, "", x); if (x != "Ic" && x != ",") print x } }' |
	sort -u >"$dir/man.commands"
same "commands of help and the manual page" "$dir/help.commands" "$dir/man.commands"
exit $bad
