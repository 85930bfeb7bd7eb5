#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# quick
#
# man.sh - the manual page is clean mdoc, and it, --help and `help` name the same options and commands. The README stays short.
: "${MTRUN:=build/mtrun}"
cd "$(dirname "$0")/../../.." || exit 1
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
elif mandoc -T lint man/*.[1-9] >"$dir/lint" 2>&1 && [ ! -s "$dir/lint" ]; then
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

# Each command with its options, as `NAME -n --by ...`: from its usage line, and from its entry in the manual.
"$MTRUN" -q -x help true >/dev/null 2>"$dir/shell.help" || { echo "FAIL help: exit status $?"; bad=1; }
names=$(sed -n 's/^\([a-z!][a-z]*\)  *[a-z].*/\1/p' "$dir/shell.help")
for name in $names; do
	"$MTRUN" -q -x "help $name" true 2>&1 >/dev/null | head -n 1 |
		awk '{ gsub(/[][|]/, " "); printf "%s", $1; for (i = 2; i <= NF; i++) if ($i ~ /^-/) printf " %s", $i; print "" }'
done | sort >"$dir/help.commands"
awk '/^\.Sh/ { on = $2 == "COMMANDS" }
	!on { next }
	/^\.It Ic / { take($0); next }
	/^\.It Xo/ { xo = 1; line = ""; next }
	/^\.Xc/ { xo = 0; take(".It" line); next }
	xo { line = line " " substr($0, 2) }
	function take(text, n, w, i, x) {
		gsub(/\\&/, "", text)
		n = split(text, w, " ")
		printf "%s", w[3]
		for (i = 4; i < n; i++)
			if (w[i] == "Fl") printf " -%s", w[i + 1]
		print ""
	}' man/mtrun.1 | sort >"$dir/man.commands"
same "commands of help and the manual page, with their options" "$dir/help.commands" "$dir/man.commands"
lines=$(wc -l <README.md) columns=$(LC_ALL=C.UTF-8 wc -L <README.md)
if [ "$lines" -le 220 ] && [ "$columns" -le 110 ]; then
	echo "ok README.md has at most 220 lines of 110 columns"
else
	echo "FAIL README.md: $lines lines, $columns columns"
	bad=1
fi
exit $bad
