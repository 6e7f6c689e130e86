"""llama.cpp's own programs beside the engine: what they are told, and how their answers are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engine import peers
from benchmarks.engine.setting import Setting
from benchmarks.engine.sides import ServerSide
from benchmarks.peers.__main__ import main as compare_peers
from srbwriter.engine import Engine
from tests.fakes.llama_programs import write_program


@pytest.fixture
def setting() -> Setting:
    return Setting(Path("model.gguf"), prompt=16, tokens=6)


@pytest.fixture
def server(programs: Path, setting: Setting) -> Iterator[peers.Server]:
    server = peers.Server(setting, peers.program(programs, "llama-server"), 3)
    yield server
    server.close()
    assert server.process.poll() is not None


def test_batched_bench_is_read(programs: Path, setting: Setting) -> None:
    bench = peers.BatchedBench(setting, peers.program(programs, "llama-batched-bench"))
    score = bench.write(4, 1)
    assert (score.tokens, score.seconds, score.speed) == (24, 0.5, 48.0)


def test_batched_bench_that_fails_says_why(tmp_path: Path, setting: Setting) -> None:
    broken = write_program(tmp_path, "llama-batched-bench", "raise SystemExit('no such model')")
    with pytest.raises(RuntimeError, match="no such model"):
        peers.BatchedBench(setting, broken).write(4, 1)


@pytest.mark.parametrize("n", [1, 3])
def test_server_writes_n_completions(server: peers.Server, engine: Engine, setting: Setting, n: int) -> None:
    score = peers.ServerContestant(setting, engine, server).write(n, 1)
    assert score.tokens == n * setting.tokens
    assert score.seconds > 0


def test_a_stream_is_a_round_of_branches(server: peers.Server) -> None:
    side = ServerSide(server)
    first = side.write([1, 2, 3, 4], 2, 3, seed=7)
    assert first.ids == [[7, 7, 7], [17, 17, 17]]
    assert first.evaluated == 4
    assert 0 < first.first <= first.seconds
    assert side.write([1, 2, 3, 4, 7, 7, 7, 5, 6], 2, 1, seed=1).evaluated == 2


def test_defaults_are_the_servers_own(
    programs: Path, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    echo = (
        "import os, sys; spin = os.environ.get('GOMP_SPINCOUNT', 'its own')\n"
        "open(sys.argv[0] + '.args', 'w').write(' '.join([*sys.argv[1:], '-spin', spin])); sys.exit(3)"
    )
    program = write_program(programs, "echo", echo)
    commands: list[list[str]] = []
    for defaults in (False, True):
        with pytest.raises(RuntimeError, match="ended with 3"):
            peers.Server(replace(setting, defaults=defaults), program, 5)
        commands.append(Path(f"{program}.args").read_text().split())
    equal, own = commands
    assert {"-t", "-tb", "-fa", "-b", "-ub"} <= set(equal) - set(own)
    assert {"-m", "-c", "-np", "-kvu"} <= set(own)
    assert (equal[-1], own[-2:]) == ("7", ["its", "own"])


def test_server_that_ends_at_once_is_told(tmp_path: Path, setting: Setting) -> None:
    ends = write_program(tmp_path, "llama-server", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="ended with 3"):
        peers.Server(setting, ends, 1)


def test_programs_are_found_in_a_build_folder(programs: Path) -> None:
    assert peers.program(programs, "llama-server") == programs / "bin" / "llama-server"
    assert peers.program(programs / "bin", "llama-server") == programs / "bin" / "llama-server"
    for folder in (programs.parent, None):
        with pytest.raises(SystemExit, match="llama-server"):
            peers.program(folder, "llama-server")


@pytest.mark.full
def test_the_same_work_through_several_programs(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--counts", "2", "--rounds", "1", "--tokens", "4", "--prompt", "32", "--cells", "512")
    compare_peers(["--settings", "equal", "--threads", "1", *sizes])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("| 2")]
    found = {name.strip(): [float(cell) for cell in cells] for _, name, *cells in rows}
    assert found.keys() == {"srbwriter", "srbwriter, used HOME", "llama-cpp-python"}
    for name, (evaluated, first, speed, after, text, *_) in found.items():
        again = 0 if name.startswith("srbwriter") else 1  # the end of the prompt, for the second branch
        assert 32 - 4 <= evaluated <= 32 + again and first > 0 and speed > 0 and text > 0
        assert 1 <= after <= 1 + 5 * again  # the last token of what was picked
