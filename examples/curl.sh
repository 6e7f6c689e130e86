#!/usr/bin/env bash
# The three dialects with nothing but curl.
set -euo pipefail
url=${SRBWRITER_URL:-http://127.0.0.1:9090}
auth=(${SRBWRITER_KEY:+-H "Authorization: Bearer $SRBWRITER_KEY"})

echo "# Branches as event lines"
curl -sN "${auth[@]}" "$url/v1/completions" -d '{"prompt": "Once upon a time,", "n": 2}'

echo "# OpenAI"
curl -s "${auth[@]}" "$url/v1/completions" -d '{"model": "any", "prompt": "Once upon a time,", "n": 2, "max_tokens": 16}'
echo

echo "# llama.cpp"
curl -s "${auth[@]}" "$url/completion" -d '{"prompt": "Once upon a time,", "n_predict": 16}'
echo
