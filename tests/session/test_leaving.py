"""A round is left once: its branches are stopped once, and all that was written goes into one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from srbwriter.engine.generation import Generation
from srbwriter.engine.types import NoModel
from srbwriter.session import Session
from srbwriter.story import Story
from tests.session.conftest import write_round, written


@pytest.fixture
def counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often branches were cancelled, and how often verbs of the story were put together."""
    counts = Counter[str]()

    def count(owner: type, name: str) -> None:
        act: Callable[..., object] = getattr(owner, name)

        def counting(self: object, *arguments: object) -> object:
            counts[name] += 1
            return act(self, *arguments)

        monkeypatch.setattr(owner, name, counting)

    count(Generation, "cancel")
    count(Story, "pick")
    return counts


def test_a_pick_that_goes_on_stops_the_branches_once(session: Session, counted: Counter[str]) -> None:
    write_round(session)
    first = session.round
    counted.clear()
    node = session.pick(0, go_on=True)
    assert counted == {"cancel": 1, "pick": 1}
    assert session.round is not first and session.round is not None
    assert session.round.parent == node == session.node
    assert session.round.generation is not None, "the engine was not asked"


def test_a_pick_stands_where_nothing_can_go_on_from_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.generate()
    [text, *_] = written(session)

    def refuse(*_: object, **__: object) -> None:
        raise NoModel("gone")

    engine = session.engine
    monkeypatch.setattr(engine, "submit", refuse)
    with pytest.raises(NoModel, match="gone"):
        session.pick(0, go_on=True)
    assert session.text() == text
