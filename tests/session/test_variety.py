"""How the branches of a round differ, and their order on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.types import Sampling, Stop
from srbwriter.session import Session
from srbwriter.session.sampling import Variety

from .conftest import open_session, write_round

STORY = "Once upon a time, there was a little fox who lived in the wood."


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    """All branches of a round are the same, as they have no chance."""
    stop = Stop(max_tokens=48, ignore_eog=True)
    with open_session(file, STORY, n=3, sampling=Sampling(temperature=0.0), stop=stop) as opened:
        yield opened


def test_a_round_is_drawn_as_the_writer_wants(session: Session) -> None:
    session.variety = Variety("distinct")
    session.sampling = Sampling(temperature=1.2, seed=3)
    write_round(session)
    request = session.round.generation.request  # type: ignore[union-attr]
    assert request.siblings == "distinct"
    session.sampling = Sampling(mirostat=2)  # steers by its own choices
    session.generate()
    request = session.round.generation.request  # type: ignore[union-attr]
    assert request.siblings == "independent"


def test_what_an_engine_lacks_is_not_asked_for() -> None:
    wanted, none = Variety("distinct"), Capabilities({"siblings": "no logits"})
    assert wanted.request_fields((Sampling(),), Capabilities()) == {"siblings": "distinct"}
    assert wanted.request_fields((Sampling(),), none) == {}
