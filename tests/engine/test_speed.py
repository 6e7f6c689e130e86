"""The speed of a branch is that of its writing: what it rested in between is not counted."""

from __future__ import annotations

import pytest

from srbwriter.engine import generation
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import BranchState, Request


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(generation.time, "monotonic", lambda: self.now)


def written(branch: Branch, clock: Clock, tokens: int) -> None:
    """Ten tokens a second, as the engine publishes them."""
    for _ in range(tokens):
        clock.now += 0.1
        branch.changed_at = clock.now
        if not branch.buffer.ids:
            branch.started_at = clock.now
        branch.buffer.ids.append(1)


@pytest.mark.parametrize(
    "rest",
    [
        (BranchState.PAUSED, BranchState.WAITING),
        (BranchState.DONE, BranchState.WAITING, BranchState.PROMPT),
        (BranchState.WAITING, BranchState.PROMPT),
    ],
)
def test_a_rest_is_no_time_of_writing(rest: tuple[BranchState, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    request = Generation(1, Request("", n=1), lambda command: None)
    branch = Branch(request, 0, request.request.sampling, request.request.stop, 1)  # type: ignore[arg-type]
    branch.state = BranchState.WRITING
    assert branch.tokens_per_second == 0.0
    written(branch, clock, 11)
    assert branch.tokens_per_second == pytest.approx(10)
    for state in rest:
        branch.state = state
        clock.now += 30
    branch.state = BranchState.WRITING
    assert branch.tokens_per_second == pytest.approx(10)
    written(branch, clock, 10)
    assert branch.tokens_per_second == pytest.approx(10)
