"""Text token by token in a session: characters and ids, forks, and what is looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import strategies as st

from srbwriter.engine.capabilities import Capabilities
from srbwriter.session.tokens import Alternative, TokenText, shown
from tests.tui.stepped_session import SteppedSession

WAIT = 30.0
TEXT = "It rained all day. The naïve cat 🐈 sat by the window."


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SteppedSession]:
    made = SteppedSession(tmp_path, TEXT, 3)
    yield made
    made.close()


def until(session: SteppedSession, holds: Callable[[], object]) -> None:
    while not holds():
        assert session.engine.process(1) or holds(), "the engine has nothing to do"


def alternatives(session: SteppedSession, text: TokenText, place: int) -> tuple[Alternative, ...]:
    until(session, lambda: session.tokens.look(text, place) is not None)
    return session.tokens.look(text, place) or ()


def written(session: SteppedSession, tokens: int = 12) -> None:
    """Branches with some tokens, which have ended."""
    session.generate()
    session.step(tokens)
    session.stop_all()
    until(session, lambda: not any(branch.live for branch in session.round.branches))
    session.sync()


@pytest.mark.parametrize(
    ("piece", "words"), [(b" a", " a"), (b"\n\n", "⏎⏎"), (b"\xf0\x9f", "‹f0 9f›"), (b"", "nothing")]
)
def test_a_token_is_shown_sensibly(piece: bytes, words: str) -> None:
    assert shown(piece) == words


def test_a_branch_is_read_as_its_tokens(session: SteppedSession) -> None:
    written(session)
    branch = session.round.branches[1]
    text = session.tokens.branch_tokens(1).result(WAIT)
    assert tuple(token.id for token in text.tokens) == branch.ids
    assert "".join(branch.text[token.start : token.end] for token in text.tokens) == branch.text
    found = alternatives(session, text, 5)
    assert any(one.id == branch.ids[5] for one in found)
    assert [one.logprob for one in found[:20]] == sorted((one.logprob for one in found[:20]), reverse=True)


def test_a_fork_begins_exactly_so_and_takes_a_row_for_its_token(session: SteppedSession) -> None:
    written(session)
    text = session.tokens.branch_tokens(0).result(WAIT)
    other = next(one for one in alternatives(session, text, 4) if one.id != text.tokens[4].id)
    until(session, lambda: all(one.done for one in text.asked.values()))
    while session.engine.process():
        pass
    before = session.engine.stats()
    index = session.tokens.fork(text, 4, other.id)
    until(session, lambda: len(session.round.branches) > index and len(session.round.branches[index].ids) > 5)
    fork, after = session.round.branches[index], session.engine.stats()
    assert fork.ids[:5] == (*session.round.branches[0].ids[:4], other.id)
    assert after.branch_rows + after.prompt_rows - before.branch_rows - before.prompt_rows == 1
    assert session.round.branches[0].ids == tuple(token.id for token in text.tokens)
    session.step(2)
    session.sync()
    node = session.story.node(session.round.node_of(index))
    assert fork.text.startswith(node.text) and [t for span in node.spans for t in span.ids][:5] == list(
        fork.ids[:5]
    )


def test_the_story_is_forked_inside_of_a_character(session: SteppedSession) -> None:
    text = session.tokens.story_tokens().result(WAIT)
    assert "".join(TEXT[a.start : b.start] for a, b in zip(text.tokens, text.tokens[1:], strict=False))
    place = next(k for k, token in enumerate(text.tokens) if token.inside and TEXT[token.start] == "🐈")
    own = text.tokens[place].id
    assert alternatives(session, text, place)
    session.tokens.fork(text, place, own)
    session.step(3)
    assert session.text() == TEXT[: TEXT.index("🐈")]
    first = next(k for k in range(place, -1, -1) if not text.tokens[k].inside)
    for branch in session.round.branches:
        assert branch.ids[: place + 1 - first] == tuple(token.id for token in text.tokens[first : place + 1])
    session.undo()
    assert session.text() == TEXT


def test_an_engine_that_tells_none_writes_all_the_same(
    session: SteppedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.tokens.gather = True
    monkeypatch.setattr(type(session.engine), "capabilities", Capabilities({"logprobs": "it reports none"}))
    written(session)
    assert session.round.generation.request.logprobs is None and session.round.branches[0].text


PATH = st.lists(st.integers(0, 2), max_size=6).map(tuple)
