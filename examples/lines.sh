#!/usr/bin/env bash
# A conversation over the older way in, with nothing but bash: serve-lines.sh, then this.
# A line says how many arguments follow; each ends with a NUL. From then on both sides speak plain text.
set -euo pipefail
prompt='A conversation at the fire.

User: Good evening!
Friend: Good evening. Shall I tell you a story?
User:'
arguments=(-n "${TOKENS:-120}" --temp 0.8 --repeat_penalty 1.1 --color -i -r 'User:' -p "$prompt")

exec 3<>"/dev/tcp/${HOST:-127.0.0.1}/${PORT:-8081}"
if [ -n "${SRBWRITER_KEY:-}" ]; then printf 'AUTH %s\n' "$SRBWRITER_KEY" >&3; fi
printf '%s\n' "${#arguments[@]}" >&3
printf '%s\0' "${arguments[@]}" >&3

cat <&3 &
reader=$!
trap 'kill "$reader" 2>/dev/null || true' EXIT
# When the server has left, the next line ends this.
while kill -0 "$reader" 2>/dev/null && { IFS= read -r line || [ -n "$line" ]; }; do printf '%s\n' "$line" >&3; done
