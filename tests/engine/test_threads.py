"""How many threads a step gets, on machines that are played and in the engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from .guards import with_threads

# ---- the engine


# ---- spinning


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
