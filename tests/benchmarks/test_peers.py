"""llama.cpp's own programs as contestants, played by small executables that speak as they do."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.engine import peers
from benchmarks.engine.setting import Setting
from srbwriter.engine import Engine

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
class Handler(BaseHTTPRequestHandler):
    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.answer({"status": "ok"})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["n_cmpl"] <= int(value("-np")) and asked["prompt"]
        take = {"content": "", "tokens_predicted": asked["n_predict"]}
        self.answer(take if asked["n_cmpl"] == 1 else [take] * asked["n_cmpl"])
    def log_message(self, *_):
        pass
HTTPServer(("127.0.0.1", int(value("--port"))), Handler).serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    def make(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\n{body}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def setting() -> Setting:
    return Setting(Path("model.gguf"), prompt=16, tokens=6)


def test_batched_bench_is_read(program: Callable[[str, str], Path], setting: Setting) -> None:
    bench = peers.BatchedBench(setting, program("llama-batched-bench", BENCH))
    score = bench.write(4, 1)
    assert (score.tokens, score.seconds, score.speed) == (24, 0.5, 48.0)


def test_batched_bench_that_fails_says_why(program: Callable[[str, str], Path], setting: Setting) -> None:
    broken = program("llama-batched-bench", "raise SystemExit('no such model')")
    with pytest.raises(RuntimeError, match="no such model"):
        peers.BatchedBench(setting, broken).write(4, 1)


@pytest.mark.parametrize("n", [1, 3])
def test_server_writes_n_completions(
    program: Callable[[str, str], Path], setting: Setting, engine: Engine, n: int
) -> None:
    server = peers.Server(setting, engine, program("llama-server", SERVER), most=3)
    try:
        assert server.write(n, 1).tokens == n * setting.tokens
    finally:
        server.close()
    assert server.process.poll() is not None


def test_server_that_ends_at_once_is_told(
    program: Callable[[str, str], Path], setting: Setting, engine: Engine
) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        peers.Server(setting, engine, program("llama-server", "raise SystemExit(3)"), most=1)


def test_programs_are_found_in_a_build_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "llama-server").touch()
    assert peers.find(tmp_path, "llama-server") == tmp_path / "bin" / "llama-server"
    assert peers.find(tmp_path, "llama-batched-bench") is None
    assert peers.find(None, "llama-server") is None
