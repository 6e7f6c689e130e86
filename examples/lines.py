"""A conversation over the line protocol: `srbwriter --serve --tcp 8081`, then `python lines.py [HOST:PORT]`.

What you type is what the text goes on with. /stop, /undo, /reset and /quit are commands; ctrl+c stops a turn.
"""

from __future__ import annotations

import codecs
import os
import re
import socket
import sys

host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081").rpartition(":")
server = socket.create_connection((host, int(port)))
lines = server.makefile("r", encoding="utf-8", newline="\n")
LETTERS = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0"}


def send(text: str) -> None:
    server.sendall(text.encode() + b"\n")


def meant(match: re.Match[bytes]) -> bytes:
    """What an escape stands for."""
    letter = match.group(1).decode()
    return codecs.decode(letter[1:], "hex") if len(letter) > 1 else LETTERS.get(letter, match.group(1))


def until_ready() -> dict[str, str]:
    """Print what is written; the facts that are told on the way."""
    facts: dict[str, str] = {}
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "OUTPUT":
            sys.stdout.buffer.write(re.sub(rb"\\(x[0-9A-Fa-f]{2}|.)", meant, rest.encode()))
            sys.stdout.flush()
        elif word in ("ERROR", "FATAL"):
            print(f"{word}: {rest}")
        elif word == "KV":
            name, _, value = rest.partition("=")
            facts[name] = value
            if (name, value) == ("awaiting_prompt", "true"):
                return facts
    sys.exit("the server has closed the connection")


send(f"AUTH {os.environ['SRBWRITER_KEY']}" if "SRBWRITER_KEY" in os.environ else "")
facts = until_ready()
print(f"Writing with {facts['model']}, {facts['remaining_tokens']} tokens left.")
for typed in sys.stdin:
    typed = typed.rstrip("\n")
    if typed == "/quit":
        break
    escaped = typed.replace("\\", "\\\\")
    send(typed[1:].upper() if typed.startswith("/") else f"PROMPT {escaped}")
    while True:
        try:
            facts = until_ready()
            break
        except KeyboardInterrupt:
            send("STOP")
    if "remaining_tokens" in facts:
        print(f"\n[{facts['remaining_tokens']} tokens left]")
