"""While a step is computed the engine publishes the last one, and looks at who has been stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation

from .support import ask, drive, finish, fixture_of, lengths, stepped

DECODE, WAIT, TOLD = "decode", "synchronize", "published"


class Seam:
    """Calls of llama.cpp and of a request's listener, in order; ``meanwhile`` is done once after a decode."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.meanwhile: Callable[[], object] | None = None
        lib: Any = engine._context._lib
        for name, word in (("llama_decode", DECODE), ("llama_synchronize", WAIT)):
            monkeypatch.setattr(lib, name, self._spy(getattr(lib, name), word))

    def _spy(self, native: Callable[..., Any], word: str) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            self.calls.append(word)
            code = native(*args)
            if word == DECODE and self.meanwhile is not None:
                act, self.meanwhile = self.meanwhile, None
                act()
            return code

        return called

    def listen(self, generation: Generation) -> None:
        generation.add_listener(lambda: self.calls.append(TOLD))


engine = fixture_of(stepped, "function")


@pytest.fixture
def seam(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(engine, monkeypatch)


def writing(engine: Engine, n: int = 3, tokens: int = 4, **more: Any) -> Generation:
    """A request in the middle of its text."""
    generation = ask(engine, n=n, tokens=40, **more)
    drive(engine, lambda: min(lengths(generation)) >= tokens)
    return generation


@pytest.mark.parametrize(
    ("overlaps", "step"),
    [(True, [DECODE, TOLD, WAIT]), (None, [DECODE, WAIT, TOLD])],
    ids=["an accelerator: while the next is computed", "a processor: before it is"],
)
def test_when_a_step_is_published(engine: Engine, seam: Seam, overlaps: bool | None, step: list[str]) -> None:
    if overlaps is not None:  # else as the engine has it on a processor
        engine._scheduler.overlaps = overlaps
    generation = writing(engine)
    seam.listen(generation)
    seam.calls.clear()
    for _ in range(4):
        engine.process()
    assert seam.calls == step * 4


def test_what_is_published_in_between_is_the_same_text(engine: Engine) -> None:
    logs: list[list[str]] = []
    for overlaps in (False, True):
        engine.reset()
        engine._scheduler.overlaps = overlaps
        generation = ask(engine, n=3, tokens=20)
        finish(engine, generation)
        assert "".join(generation.branches[0].read().text) == generation.branches[0].text
        logs.append([str(event) for event in generation.log])
    assert logs[0] == logs[1]
