# SPDX-License-Identifier: GPL-3.0-or-later
#
# Completion for bash: mtrun's options, which `mtrun --help` lists, and what follows them; then the program's own words.

_mtrun_options() { "$1" --help 2>/dev/null | sed -nE 's/^ {2,6}(-[a-zA-Z], )?(--[a-z-]+).*/\2/p'; }

_mtrun() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i word

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		--) _mtrun_program $((i + 1)) && return ;;
		-l | --limit | --on-limit | --limit-exit | -c | --count | -x | --execute | -X | --script | -d | --duration | -o | --output | --dump-every | \
			--leak-exitcode | --suppressions | --errors | -m | --mode | --log-dir | --log-size | --log-files | -s | --sample | --depth | --hook | \
			--listen | --listen-token | --listen-host | --push | --push-every | --push-label | --messages | --color | -p | --pid | -r | --replay)
			((i++))
			[ "$i" -eq "$COMP_CWORD" ] && break
			;;
		-*) ;;
		*) _mtrun_program "$i" && return ;;
		esac
	done
	case $prev in
	--on-limit) word='kill stop fail report' ;;
	-m | --mode) word='mem-fast mem log-fast log off' ;;
	-c | --count) word='heap mmap image heap,mmap' ;;
	--errors) word='report stop off' ;;
	--color) word='auto always never' ;;
	-p | --pid) word=$(ps -e -o pid= 2>/dev/null) ;;
	--log-dir) COMPREPLY=($(compgen -d -- "$cur")) && return ;;
	-X | --script | --suppressions | --listen-token | --messages | -o | --output | -r | --replay)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	*)
		if [[ $cur == --leak-check=* ]]; then
			COMPREPLY=($(compgen -W 'full summary no' -- "${cur#*=}"))
		elif [[ $cur == -* ]]; then
			COMPREPLY=($(compgen -W "$(_mtrun_options "${COMP_WORDS[0]}")" -- "$cur"))
		else
			COMPREPLY=($(compgen -c -- "$cur") $(compgen -f -- "$cur"))
		fi
		return
		;;
	esac
	COMPREPLY=($(compgen -W "$word" -- "$cur"))
}

# The words from the Nth on are a command line of their own. Without bash-completion its words are files.
_mtrun_program() {
	[ "$1" -lt "$COMP_CWORD" ] || return 1
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	else
		COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
	fi
}

complete -o filenames -F _mtrun mtrun
