"""A conversation over exllama's interface: `srbwriter --serve -d FOLDER --port 7862`, then this.

The whole conversation is sent each time; the server has read its beginning before.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from urllib.request import Request, urlopen

URL = os.environ.get("SRBWRITER_URL", "http://127.0.0.1:7862")
KEY = os.environ.get("SRBWRITER_KEY")
TEMPLATE = "A conversation between two friends who like stories.\n\n{user_input}\nFriend:"


def ask(path: str, body: dict[str, object] | None = None):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {KEY}"} if KEY else {})
    data = None if body is None else json.dumps(body).encode()
    return urlopen(Request(URL + path, data, headers))


with ask("/check") as answer:
    print(f"Talking to {json.load(answer)[0]}. An empty line ends it.")
turns: list[str] = []
while said := (sys.stdin.readline() if not sys.stdin.isatty() else input("User: ")).strip():
    turns.append(f"User: {said}")
    body = {"message": "\n".join(turns), "prompt": TEMPLATE, "max_new_tokens": 120, "stop": ["\nUser:"]}
    text, decoder = "", codecs.getincrementaldecoder("utf-8")("replace")
    with ask("/generate", body) as answer:
        while piece := answer.read1():
            text += (shown := decoder.decode(piece))
            print(shown, end="", flush=True)
    print()
    turns.append(f"Friend: {text.strip()}")
