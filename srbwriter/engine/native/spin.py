"""How long OpenMP's threads spin where they wait for each other. Knows no llama.cpp.

A step of llama.cpp has some hundred barriers, most of them over in microseconds. Threads that go to sleep at
each make it two to five times as long; threads that spin for long take the cores of everything else, and of
each other where a neighbour holds a core. So they spin for a while, and sleep then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_SPIN = {
    "OMP_WAIT_POLICY": "active",  # for GCC's: 1000 rounds, not 100, where other teams of the process live too
    "GOMP_SPINCOUNT": "10000",  # rounds, some tenths of a millisecond; the runtime of GCC
    "KMP_BLOCKTIME": "1",  # milliseconds, the shortest that all versions take; the runtime of clang
}

_QUIET = {"GGML_NO_BACKTRACE": "1"}
"""No debugger is forked when the process ends in llama.cpp."""


@contextmanager
def load_variables() -> Generator[None]:
    """Set the variables that llama.cpp and its OpenMP read while they are loaded, and restore them then.

    They must reach neither the rest of the program nor its child processes. A variable that ggml sets by
    itself (``KMP_BLOCKTIME``, in ``ggml_cpu_init``) is removed, too.
    """
    own = any(name in os.environ for name in _SPIN)  # the user has chosen a wait policy
    chosen = _QUIET if own else {**_SPIN, **_QUIET}
    added = {name: value for name, value in chosen.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
        if "KMP_BLOCKTIME" not in os.environ:
            os.unsetenv("KMP_BLOCKTIME")


def on_own_thread(work: Callable[[], T], name: str) -> T:
    """Do ``work``, which computes with several threads, on a thread that ends with it.

    Gives or raises what it does. GCC's OpenMP keeps a team for every thread that has computed, as long as
    that lives. Once all teams together have more threads than there are cores, it lets them spin for a moment
    only (``gomp_managed_threads`` in its ``team.c``): steps of the engine's thread, which has a team of its
    own, then sleep at most barriers.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        return done.result()
    finally:
        if done.done():
            thread.join()
