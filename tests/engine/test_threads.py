"""How many threads a step gets, on machines that are played: their clock stands still but for the steps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.native.spin import spin_limits
from srbwriter.engine.sizing import threads_of
from srbwriter.engine.threads import LATEST, Threads, shape
from srbwriter.engine.types import EngineOptions

from .guards import with_threads
from .support import SMALL, works

SHAPE = shape(8, 500)
WORK = 0.02  # seconds that one thread needs for a step


class Machine:
    """``cores`` of which other programs keep ``taken``; threads that share one wait for each other."""

    def __init__(self, cores: int, taken: int = 0) -> None:
        self.cores, self.taken = cores, taken
        self.clock = 0.0
        self.threads = Threads(cores, lambda: self.clock)
        self.wait = 10.0

    def seconds(self) -> float:
        crowded = self.threads.now > self.cores - self.taken
        return WORK / self.threads.now * (self.wait if crowded else 1.0)

    def run(self, seconds: float, jitter: Callable[[int], float] = lambda step: 1.0) -> list[int]:
        """Steps for so long; the number of threads of each."""
        end = self.clock + seconds
        used: list[int] = []
        while self.clock < end:
            took = self.seconds() * jitter(len(used))
            used.append(self.threads.now)
            self.clock += took
            self.threads.learn(SHAPE, took)
        return used


def most_used(used: list[int]) -> int:
    return max(set(used), key=used.count)


@pytest.mark.parametrize("cores", [2, 4, 16, 64])
def test_a_quiet_machine_keeps_all_its_cores(cores: int) -> None:
    machine = Machine(cores)
    used = machine.run(60.0, lambda step: 1.0 + 0.3 * (step % 3))
    assert machine.threads.now == cores
    assert used.count(cores) > 0.98 * len(used)


@pytest.mark.parametrize(
    ("cores", "taken", "right"), [(2, 1, {1}), (4, 1, {3}), (16, 1, {14, 15}), (16, 9, {6, 7})]
)
def test_fewer_threads_while_a_neighbour_is_busy_and_all_when_it_has_gone(
    cores: int, taken: int, right: set[int]
) -> None:
    machine = Machine(cores)
    machine.run(5.0)
    machine.taken = taken
    machine.run(20.0)
    assert most_used(machine.run(20.0)) in right
    machine.taken = 0
    machine.run(40.0)
    assert machine.threads.now == cores


def test_a_neighbour_is_noticed_within_a_dozen_of_slow_steps() -> None:
    machine = Machine(2)
    machine.run(5.0)
    machine.taken = 1
    slow = machine.run(1.0).index(1)
    assert slow <= 12


def test_a_neighbour_that_was_there_first_is_noticed_too() -> None:
    machine = Machine(2, taken=1)
    machine.run(3.0)
    assert most_used(machine.run(10.0)) == 1


def test_a_burst_that_is_over_costs_little() -> None:
    machine = Machine(2)
    machine.wait = 3.0
    machine.run(5.0)
    used: list[int] = []
    for _ in range(20):
        machine.taken = 1
        machine.run(0.5)
        machine.taken = 0
        used += machine.run(1.5)
    assert len(used) * WORK / 2 > 0.9 * 20 * 1.5


def test_asking_again_while_the_neighbour_stays_costs_little() -> None:
    machine = Machine(2, taken=1)
    machine.run(30.0)
    begun = machine.clock
    used = machine.run(120.0)
    assert len(used) * WORK > 0.95 * (machine.clock - begun)
    assert used.count(2) >= 120 / LATEST / 2  # it does ask


def test_steps_that_are_slow_with_fewer_threads_as_well_get_all_again() -> None:
    machine = Machine(4)
    machine.run(5.0)
    used = machine.run(60.0, lambda step: 3.0)  # the processor is hot, say
    assert used.count(4) > 0.95 * len(used)


def test_steps_of_another_shape_say_nothing_of_neighbours() -> None:
    machine = Machine(2)
    machine.run(5.0)
    for step in range(200):
        now = machine.threads.now
        machine.clock += (took := 0.5 / now)
        machine.threads.learn(shape(300, 500 + step), took)
    assert machine.threads.now == 2


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 10_000), st.floats(1e-6, 10.0)), max_size=300))
def test_the_number_stays_in_bounds_whatever_steps_take(steps: list[tuple[int, int, float]]) -> None:
    clock = 0.0
    threads = Threads(6, lambda: clock)
    for rows, cells, seconds in steps:
        clock += seconds
        assert 1 <= threads.learn(shape(rows, cells), seconds) <= 6


def test_one_core_is_one_thread() -> None:
    machine = Machine(1, taken=1)
    assert set(machine.run(10.0)) == {1}


# ---- the engine


def test_a_number_that_was_given_is_kept() -> None:
    assert threads_of(replace(SMALL, threads=3)) is None
    assert threads_of(replace(SMALL, threads=None)) is not None


def test_the_engine_tells_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.load(bundled_model(), replace(SMALL, threads=None, threads_batch=5), thread=False) as engine:
        told: list[tuple[int, int]] = []
        threads = engine._scheduler.threads
        assert threads is not None
        numbers = iter([7, 6, *[6] * 100])

        def learn(shape: object, seconds: float) -> int:
            threads.now = next(numbers)
            return threads.now

        monkeypatch.setattr(threads, "learn", learn)
        monkeypatch.setattr(engine._context, "set_threads", lambda *given: told.append(given))
        assert works(engine)
        assert told[0] == (5, 5)  # the prompt
        assert (7, 7) in told
        assert told[-1] == (6, 6)


# ---- spinning


def test_threads_spin_for_a_while_unless_somebody_chose_otherwise() -> None:
    limits = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
    assert spin_limits({"HOME": "/"}) == limits
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        assert spin_limits({name: "5"}) == {}


def test_the_spin_is_bounded_before_the_library_is_loaded() -> None:
    program = (
        "import os, sys; import srbwriter.engine.native.spin as spin\n"
        "limits = spin.spin_limits\n"
        "spin.spin_limits = lambda e: (print('llama_cpp.llama_cpp' in sys.modules), limits(e))[1]\n"
        "import srbwriter.engine.native.library\n"
        "print(os.environ['GOMP_SPINCOUNT'], os.environ.get('OMP_WAIT_POLICY'))\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "10000", "active"]


def test_threads_of_options_without_a_gpu_begin_with_all_cores() -> None:
    threads = threads_of(EngineOptions(gpu_layers=0))
    assert threads is not None
    assert threads.now == threads.most >= 1


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
