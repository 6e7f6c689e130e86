#!/usr/bin/env bash
# A server for lines.sh and lines.py; what stands in the file PERSONA is read before anybody is let in.
set -euo pipefail
exec srbwriter --serve --port "${HTTP_PORT:-9090}" --tcp "${HOST:-127.0.0.1}:${PORT:-8081}" \
  ${PERSONA:+--preload "$PERSONA"} ${SRBWRITER_KEY:+--api-key "$SRBWRITER_KEY"} "$@"
