"""llama.cpp's programs, played by small executables that speak as they do."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

BENCH = """
import json, sys
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
print("main: a line of talk")
print(json.dumps({"pp": int(value("-npp")), "tg": int(value("-ntg")), "pl": int(value("-npl")),
                  "t_tg": 0.5, "speed_tg": 2.0 * int(value("-ntg")) * int(value("-npl"))}))
"""

SERVER = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
seen = []  # it keeps the prompt of the last request and what its first branch wrote
class Handler(BaseHTTPRequestHandler):
    def answer(self, data):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer(b'{"status": "ok"}')
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        n, prompt = asked["n_cmpl"], asked["prompt"]
        assert n <= int(value("-np")) and prompt
        same = 0
        while same < min(len(seen), len(prompt) - 1) and seen[same] == prompt[same]:
            same += 1
        takes = [[10 * k + asked["seed"]] * asked["n_predict"] for k in range(n)]
        seen[:] = prompt + takes[0]
        if not asked.get("stream"):
            answers = [{"content": "", "tokens_predicted": len(take)} for take in takes]
            return self.answer(json.dumps(answers if n > 1 else answers[0]).encode())
        lines = [{"index": k, "stop": False, "content": "a", "tokens": [token]}
                 for k, take in enumerate(takes) for token in take]
        lines += [{"index": k, "stop": True, "timings": {"prompt_n": len(prompt) - same}} for k in range(n)]
        self.answer(b"".join(b"data: " + json.dumps(line).encode() + b"\\n\\n" for line in lines))
    def log_message(self, *_):
        pass
HTTPServer(("127.0.0.1", int(value("--port"))), Handler).serve_forever()
"""


def write_program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
