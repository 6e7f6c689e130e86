"""After a fork the child has no engine: everything says so at once, and its end is quiet."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from .guards import ROOT, with_threads
from .scripted import Scripted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

PRELUDE = """
import os, sys, threading, time
from tests.fakes.short_model import short_model
from srbwriter.engine import Engine, EngineClosed, EngineOptions, Request, Stop

ENDLESS = Stop(max_tokens=None, ignore_eog=True)
OPTIONS = EngineOptions(gpu_layers=0, n_ctx=1024, threads=2)

def refused(function, *args):
    try:
        function(*args)
    except EngineClosed as error:
        assert "fork" in str(error), error
        return
    raise AssertionError("it was not refused")

def in_child(work):
    # the child ends as a program does, with all that is registered for its end
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def run(code: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PRELUDE + dedent(code)], cwd=ROOT, env=with_threads(), capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert "Traceback" not in child.stderr, child.stderr


def test_the_child_is_told_and_the_parent_goes_on() -> None:
    run(
        """
        engine = Engine.load(short_model(), OPTIONS)
        generation = engine.submit(Request("Once", n=4, stop=ENDLESS))
        done = engine.submit(Request("Once", stop=Stop(max_tokens=2))).wait(30)
        waiting = engine.embedder.embed(["The fox"], None, 2)
        heard = []
        next(iter(generation))
        generation.add_listener(lambda: heard.append(os.getpid()))

        def child():
            heard.clear()
            assert not engine.alive
            refused(engine.submit, Request("Once"))
            refused(engine.call, print)
            refused(engine.flush)
            refused(engine.embed, ["The fox"])
            refused(engine.embedder.embed, ["The fox"], None, 2)
            refused(generation.wait, 30)
            assert list(generation)
            assert done.wait(0).branches[0].text == text
            generation.branches[0].reroll()
            refused(generation.wait, 30)
            assert engine.tokenize("Once")
            engine.close()
            engine.close()
            assert not heard

        text = done.branches[0].text
        assert in_child(child) == 0
        assert engine.alive
        assert waiting.result(30)
        generation.cancel()
        generation.wait(30)
        assert set(heard) == {os.getpid()}
        assert engine.submit(Request("Once", stop=Stop(max_tokens=2, ignore_eog=True))).wait(30)
        engine.close()
        """
    )


def test_locks_that_were_held_keep_nobody_waiting() -> None:
    """Children of a busy engine, forked at any moment of its steps, that neither close nor drop it."""
    run(
        """
        engine = Engine.load(short_model(), OPTIONS)
        generation = engine.submit(Request("Once", n=2, stop=ENDLESS))
        for event in generation:
            if event.__class__.__name__ == "Text" and len(generation.log) > 40:
                break
        for _ in range(4):
            def child():
                refused(generation.wait, 30)
                refused(engine.submit, Request("Once"))
                assert engine.tokenize("Once")
            assert in_child(child) == 0
            engine.flush()
        assert engine.alive
        """
    )


def test_a_child_drops_the_engine_and_loads_one_of_its_own() -> None:
    run(
        """
        import gc
        engine = Engine.load(short_model(), OPTIONS)
        engine.submit(Request("Once", stop=Stop(max_tokens=2, ignore_eog=True))).wait(30)
        def child():
            with Engine.load(short_model(), EngineOptions(gpu_layers=0, n_ctx=512, threads=1)) as own:
                assert own.alive
                own.submit(Request("Once", stop=Stop(max_tokens=2, ignore_eog=True))).wait(30)
            global engine
            del engine
            gc.collect()
        assert in_child(child) == 0
        assert engine.submit(Request("Once", stop=Stop(max_tokens=2, ignore_eog=True))).wait(30)
        """
    )


def test_an_engine_that_is_stepped() -> None:
    run(
        """
        engine = Engine.load(short_model(), OPTIONS, thread=False)
        generation = engine.submit(Request("Once", stop=ENDLESS))
        engine.process()
        def child():
            assert not engine.alive
            refused(engine.process)
            refused(engine.sequences.new_seq)
            refused(generation.wait, 30)
            engine.close()
        assert in_child(child) == 0
        generation.cancel()
        while not generation.done:
            engine.process()
        """
    )


def test_a_child_does_not_disturb_a_connection() -> None:
    server = Scripted("vllm")
    try:
        run(
            f"""
            from srbwriter.engine.remote.engine import RemoteEngine
            from srbwriter.engine.remote.options import RemoteOptions
            engine = RemoteEngine.connect(RemoteOptions({server.url!r}))
            def child():
                refused(engine.submit, Request("Once upon a time"))
                engine.close()
            assert in_child(child) == 0
            for _ in range(3):
                engine.submit(Request("Once upon a time", stop=Stop(max_tokens=8))).wait(30)
            engine.close()
            """
        )
    finally:
        server.close()
