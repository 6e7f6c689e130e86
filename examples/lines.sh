#!/usr/bin/env bash
# A story told by turns over the line protocol, with nothing but bash: serve-lines.sh, then this.
set -euo pipefail
exec 3<>"/dev/tcp/${HOST:-127.0.0.1}/${PORT:-8081}"

# Send a line, and show what is written until the server is ready.
ask() {
  printf '%s\n' "$1" >&3
  while IFS= read -r answer <&3; do
    case $answer in
      'KV awaiting_prompt=true') return ;;
      'OUTPUT '*) printf '%b' "${answer#OUTPUT }" ;;
      ERROR* | FATAL*) printf '%s\n' "$answer" ;;
    esac
  done
  exit 1 # the server has closed the connection
}

ask "${SRBWRITER_KEY:+AUTH $SRBWRITER_KEY}"
ask "SET max_tokens=${TOKENS:-60}"
while printf '\n> ' && { IFS= read -r line || [ -n "$line" ]; }; do ask "PROMPT ${line//\\/\\\\}"; done
