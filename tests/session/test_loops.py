"""Branches that repeat themselves are marked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.engine.types import Sampling, Stop
from srbwriter.session import Session, loops
from srbwriter.tui.write.status import branch_facts

from .conftest import open_session, written

LOOP = "Yes" + ", and the big" * 6


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    """Without chance the short model goes on with the loop of its story."""
    rule = Stop(max_tokens=48, ignore_eog=True)
    with open_session(file, LOOP, n=2, sampling=Sampling(temperature=0.0), stop=rule) as opened:
        yield opened


def repeats(session: Session) -> list[bool]:
    return [loops.repeats(branch) for branch in session.round.branches]  # type: ignore[union-attr]


def test_a_branch_that_repeats_itself_is_marked(session: Session) -> None:
    session.generate()
    written(session)
    assert repeats(session) == repeats(session) == [True, True]
    assert "repeats" in branch_facts(session, 0)
    session.steer(0, "rewind", tokens=40)
    assert repeats(session)[1]
