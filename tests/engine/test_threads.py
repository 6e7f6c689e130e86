"""How many threads a step gets, on machines that are played and in the engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from srbwriter.engine.native.spin import spin_limits
from srbwriter.engine.threads import Threads
from tests.fakes.shared_model import load_engine

from .guards import with_threads
from .support import SMALL, short_model, works


class Machine:
    """``cores`` of which other programs want ``taken``, and an engine that always computes."""

    def __init__(self, cores: int, taken: float = 0.0) -> None:
        self.cores, self.taken = cores, taken
        self.clock = self.own = self.idle = 0.0
        self.threads = Threads(cores, lambda: self.clock, lambda: self.own, lambda: (cores, self.idle))

    def run(self, seconds: float, step: float = 0.02) -> list[int]:
        """Steps for so long; the number of threads of each. Who wants a core shares it fairly."""
        numbers: list[int] = []
        for _ in range(round(seconds / step)):
            wanted = self.threads.now + self.taken
            share = min(1.0, self.cores / wanted)
            self.clock += step
            self.own += step * self.threads.now * share
            self.idle += step * max(0.0, self.cores - wanted)
            numbers.append(self.threads.count())
        return numbers

    def rest(self, seconds: float) -> None:
        """Nothing to do for so long, while others compute."""
        self.threads.rest()
        self.clock += seconds
        self.idle += seconds * max(0.0, self.cores - self.taken)


@pytest.mark.parametrize("cores", [1, 2, 4, 16, 64])
def test_a_quiet_machine_keeps_all_its_cores(cores: int) -> None:
    assert set(Machine(cores).run(5.0)) == {cores}


@pytest.mark.parametrize(
    ("cores", "taken", "right"),
    [(2, 1, 1), (4, 1, 3), (16, 1, 15), (16, 9, 7), (2, 2, 1), (1, 1, 1), (4, 9, 1)],
)
def test_fewer_threads_while_others_use_cores_and_all_when_they_have_gone(
    cores: int, taken: int, right: int
) -> None:
    machine = Machine(cores)
    machine.run(5.0)
    machine.taken = taken
    machine.run(2.0)
    assert set(machine.run(20.0)) == {right}, "and it stays so"
    machine.taken = 0
    machine.run(2.0)
    assert set(machine.run(5.0)) == {cores}


def test_a_moment_of_another_program_costs_no_thread() -> None:
    machine = Machine(2)
    machine.run(1.0)
    machine.taken = 2
    assert set(machine.run(0.24)) == {2}
    machine.taken = 0
    assert set(machine.run(2.0)) == {2}


# ---- the engine


def test_the_engine_tells_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    with load_engine(short_model(), replace(SMALL, threads=None, threads_batch=5), thread=False) as engine:
        calls: list[tuple[int, int]] = []
        threads = engine._scheduler.threads
        assert threads is not None
        numbers = iter([9, 7, *[6] * 100])

        monkeypatch.setattr(threads, "count", lambda: next(numbers))
        monkeypatch.setattr(engine._context, "set_threads", lambda *given: calls.append(given))
        assert works(engine)
        assert calls[0] == (5, 5)  # the prompt
        assert (7, 7) in calls
        assert calls[-1] == (6, 6)


def test_an_engine_without_work_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    with load_engine(short_model(), replace(SMALL, threads=None), thread=False) as engine:
        threads = engine._scheduler.threads
        assert threads is not None
        counted: list[str] = []
        monkeypatch.setattr(threads, "count", lambda: counted.append("count") or 1)
        monkeypatch.setattr(threads, "rest", lambda: counted.append("rest"))
        assert works(engine)
        while engine.process():
            pass
        assert counted[0] == "count" and counted[-1] == "rest"


# ---- spinning


def test_threads_spin_for_a_while_unless_somebody_chose_otherwise() -> None:
    limits = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
    assert spin_limits({"HOME": "/"}) == limits
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        assert spin_limits({name: "5"}) == {}


SPINNING = [
    ({}, "ACTIVE", "10000"), ({"OMP_WAIT_POLICY": "passive"}, "PASSIVE", None),
    ({"GOMP_SPINCOUNT": "5"}, None, "5"),
]  # fmt: skip
"""Variables of whoever starts the program, and what the runtime says of waiting then."""
OPENMP = ("OMP_", "GOMP_", "KMP_", "GGML_")
USES_ENGINE = """
import os, subprocess
from srbwriter.demo import bundled_model
before = dict(os.environ)
inherited = subprocess.run(["env"], capture_output=True, text=True).stdout
from srbwriter.engine import Engine, EngineOptions, Request, Stop
def check():
    assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
    found = subprocess.run(["env"], capture_output=True, text=True).stdout
    assert found == inherited, set(found.split("\\n")) ^ set(inherited.split("\\n"))
check()
with Engine.load(bundled_model(), EngineOptions(gpu_layers=0, n_ctx=512, threads=2)) as engine:
    check()
    engine.submit(Request("Once", n=2, stop=Stop(max_tokens=2))).wait(60)
    engine.embed(["The fox"])
    check()
check()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the runtime of GCC tells its settings")
@pytest.mark.parametrize(("own", "policy", "rounds"), SPINNING[:1])
def test_openmp_spins_as_it_should_and_the_environment_is_as_it_was(
    own: dict[str, str], policy: str | None, rounds: str | None
) -> None:
    """Neither the program nor what it starts is left with variables that are for llama.cpp alone."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OPENMP)}
    environment = {**clean, "OMP_DISPLAY_ENV": "verbose", **own}
    done = subprocess.run(
        [sys.executable, "-c", USES_ENGINE], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    variables = dict(re.findall(r"(OMP_WAIT_POLICY|GOMP_SPINCOUNT) = '(\w+)'", done.stderr))
    assert policy is None or variables["OMP_WAIT_POLICY"] == policy
    assert rounds is None or variables["GOMP_SPINCOUNT"] == rounds
    assert own or "OMP_WAIT_POLICY" in variables


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_neither_loading_nor_embedding_leaves_a_team_of_threads_behind() -> None:
    """Where two teams live, OpenMP lets none of them spin, and each barrier of a step is a sleep."""
    run = subprocess.run(
        [sys.executable, "-c", TEAMS], env=with_threads(), capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    loaded, embedded, written = map(int, run.stdout.split())
    assert (loaded, embedded) == (0, 0)
    assert written == 1, "the engine's own team is the only one"


TEAMS = """
import os, threading, time
from srbwriter.demo import bundled_model
from srbwriter.engine import Engine, EngineOptions, Request, Stop

def others():  # threads that Python did not start
    known = {t.native_id for t in threading.enumerate()}
    return len({int(name) for name in os.listdir("/proc/self/task")} - known)

def settled(wanted):
    until = time.monotonic() + 30
    while others() != wanted and time.monotonic() < until:
        os.sched_yield()
    return others()

options = EngineOptions(threads=2, threads_batch=2, gpu_layers=0)
before = others()
with Engine.load(bundled_model(), options) as engine:
    print(settled(before) - before)
    engine.embed(["The fox ran home."] * 4)
    print(settled(before) - before)
    for _ in engine.submit(Request("Once", n=4, stop=Stop(max_tokens=8, ignore_eog=True))):
        pass
    print(settled(before + 1) - before)
"""
