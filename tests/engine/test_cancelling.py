"""Clients that submit and cancel without end take next to nothing from somebody who writes.

Time is played: a step costs what its rows cost, and what a client does happens while a step runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srbwriter.engine import scheduler
from srbwriter.engine.engine import Engine
from srbwriter.engine.native.context import ABORTED, OK

from .support import ask, drive, fixture_of, lengths, long_prompt, stepped

STEP, ROW = 0.007, 0.0005  # seconds


class Player:
    """A clock that goes on by what is decoded, and calls ``act`` every ``period`` seconds of it."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.codes = 1000.0, list[int]()
        self.act: Callable[[], None] = lambda: None
        self.period, self._next = 0.0, 0.0
        lib: Any = engine._context._lib
        native = lib.llama_decode

        def decode(context: int, batch: Any) -> int:
            ends = self.now + STEP + ROW * batch.n_tokens
            while self.period and self._next < ends:
                self.now = max(self.now, self._next)
                self._next += self.period
                self.act()
            code = native(context, batch)
            self.now = max(self.now, ends if code == OK else self.now + 0.001)
            self.codes.append(code)
            return code

        monkeypatch.setattr(lib, "llama_decode", decode)
        monkeypatch.setattr(scheduler.time, "monotonic", lambda: self.now)

    def every(self, period: float, act: Callable[[], None]) -> None:
        self.period, self._next, self.act = period, self.now, act


engine = fixture_of(stepped, "function")


def test_a_step_with_rows_of_others_is_finished(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    player = Player(engine, monkeypatch)
    writer = ask(engine, tokens=None)
    drive(engine, lambda: lengths(writer)[0] > 2)
    reader = ask(engine, long_prompt(engine, 1000), tokens=1)
    drive(engine, lambda: reader.prompt_done > 0)
    before, player.codes[:] = lengths(writer)[0], []
    player.every(1e9, reader.cancel)
    engine.process()
    assert player.codes == [OK]
    assert lengths(writer)[0] == before + 1


def test_commands_of_other_requests_do_not_end_a_step(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = Player(engine, monkeypatch)
    reader = ask(engine, long_prompt(engine, 400), tokens=1)
    writer = ask(engine, "The king", n=2, tokens=None)
    drive(engine, lambda: reader.prompt_done > 0 and min(lengths(writer)) > 0)
    player.codes.clear()
    player.every(1e9, writer.branches[0].stop)
    engine.process()
    assert player.codes == [OK]


def test_one_branch_that_is_stopped_does_not_end_the_prompt_of_the_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = Player(engine, monkeypatch)
    reader = ask(engine, long_prompt(engine, 600), n=2, tokens=1)
    drive(engine, lambda: reader.prompt_done > 0)
    for stopped, code in ((0, OK), (1, ABORTED)):
        player.codes.clear()
        player.every(1e9, reader.branches[stopped].stop)
        engine.process()
        assert player.codes == [code]
