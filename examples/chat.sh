#!/usr/bin/env bash
# A conversation in the shell: curl asks, python reads and writes the JSON.
set -euo pipefail
url=${SRBWRITER_URL:-http://127.0.0.1:9090}
auth=(${SRBWRITER_KEY:+-H "Authorization: Bearer $SRBWRITER_KEY"})
messages='[]'

add() { # add ROLE TEXT
  messages=$(python3 -c 'import json,sys; print(json.dumps(json.loads(sys.argv[1]) + [{"role": sys.argv[2], "content": sys.argv[3]}]))' "$messages" "$1" "$2")
}

while printf '> ' && IFS= read -r line; do
  add user "$line"
  reply=$(curl -sf "${auth[@]}" "$url/v1/chat/completions" -d "{\"messages\": $messages, \"max_tokens\": 256}" |
    python3 -c 'import json,sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])')
  printf '%s\n' "$reply"
  add assistant "$reply"
done
