"""Branches of a prompt, read while they are written. Standard library only.

python branches.py "Once upon a time," 4
"""

from __future__ import annotations

import json
import os
import sys
from urllib.request import Request, urlopen

URL = os.environ.get("SRBWRITER_URL", "http://127.0.0.1:9090")
KEY = os.environ.get("SRBWRITER_KEY")


def branches(prompt: str, n: int) -> list[str]:
    """The texts of ``n`` branches; every event is shown on standard error as it comes."""
    body = json.dumps({"prompt": prompt, "n": n}).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    texts = [""] * n
    with urlopen(Request(f"{URL}/srb/v1/completions", body, headers)) as lines:
        for line in filter(bytes.strip, lines):
            event = json.loads(line.removeprefix(b"data: "))
            if event["event"] == "stream":
                texts[event["index"]] += event["text"]
                print(event["index"], repr(event["text"]), file=sys.stderr)
    return texts


if __name__ == "__main__":
    prompt = sys.argv[1] if len(sys.argv) > 1 else "Once upon a time,"
    for index, text in enumerate(branches(prompt, int(sys.argv[2]) if len(sys.argv) > 2 else 4)):
        print(f"── {index}\n{prompt}{text}\n")
