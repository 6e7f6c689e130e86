"""What the engine evaluates again after an edit of a long generated story."""

from __future__ import annotations

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import Stop
from srbwriter.session import Session
from tests.engine.support import decoded_rows

from .conftest import WAIT

SENTENCES = (
    "The {} fox ran down to the river and looked for his friend. ",
    '"Where are you?" he called, but there were only {} birds in the tall trees. ',
    "Then a little girl named Lily came with her {} umbrella and smiled at him. ",
    "They sat under the big tree and shared {} cookies until it was dark. ",
)
NODE_TOKENS = 64


def long_story(session: Session, tokens: int) -> list[int]:
    """A path of the model's own tokens, picked in parts; the ids of the whole of it."""
    engine, story = session.engine, session.story
    words = ("red", "blue", "seven", "funny", "cold", "old", "green", "happy", "three", "small", "warm")
    text = "".join(SENTENCES[n % 4].format(words[n % 11]) for n in range(tokens))
    ids = engine.model.tokenize_continuation(text)[:tokens]
    for start in range(0, tokens, NODE_TOKENS):
        part = ids[start : start + NODE_TOKENS]
        name = story.begin_branch(story.current, vocab=engine.model.fingerprint)
        story.stream(name, text_of(engine, part), part)
        story.finish(name, "length")
        story.pick(name)
    return ids


def text_of(engine: Engine, ids: list[int]) -> str:
    return b"".join(engine.model.pieces.bytes[i] for i in ids).decode()


def prompt(session: Session) -> tuple[int, ...]:
    """The tokens that the next round begins with."""
    return session._prompter.assemble(session.node, session.story.settings(session.node), session.stop).tokens


def rows_of_a_round(session: Session) -> tuple[int, int]:
    """(rows that the next round evaluates, tokens of its prompt)."""
    engine = session.engine
    with decoded_rows(engine) as rows:
        current = session.generate()
        current.generation.wait(WAIT)
    return sum(rows), len(current.generation.prompt_ids)


@pytest.fixture
def story(session: Session) -> list[int]:
    """The ids of a story that the engine has read."""
    session.n, session.stop = 1, Stop(max_tokens=1, ignore_eog=True)
    ids = long_story(session, 1900)
    assert rows_of_a_round(session)[0] >= len(ids)
    assert rows_of_a_round(session)[0] <= 1  # the end of the last branch, which is read ahead
    return ids


def test_a_fix_a_thousand_tokens_back_is_evaluated_from_there(session: Session, story: list[int]) -> None:
    text, path, before = session.text(), session.story.path(session.node), prompt(session)
    place = len(text_of(session.engine, story[:900]))
    place = text.index(" river", place) + 3
    session.set_text(f"{text[:place]}b{text[place + 1 :]}")
    after = prompt(session)
    assert len(session.story.path(session.node)) == len(path)
    same = next(n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    assert 900 <= same <= 960
    assert abs(len(after) - len(before)) <= 3  # the word is spelt in other tokens
    behind = len(before) - same - 1
    assert after[-behind + 3 :] == before[-behind + 3 :]  # what stands behind it keeps its own
    assert rows_of_a_round(session)[0] <= len(after) - same + 1
    session.undo()
    assert prompt(session) == before


def test_a_fix_at_the_end_evaluates_the_end_only(session: Session, story: list[int]) -> None:
    text = session.text()
    for back in (1, 2, 5):
        place = len(text) - back
        session.set_text(f"{text[:place]}b{text[place + 1 :]}")
        rows, tokens = rows_of_a_round(session)
        assert (rows <= 3, tokens >= len(story)) == (True, True), back
        session.undo()
        assert session.text() == text


def test_a_fix_before_a_healed_branch_leaves_the_branch_its_tokens(session: Session) -> None:
    session.n, session.stop = 1, Stop(max_tokens=24, ignore_eog=True)
    session.set_text("Once upon a ti")
    current = session.generate()
    current.generation.wait(WAIT)
    session.pick(0)
    before = prompt(session)
    [picked] = session.story.node(session.node).spans
    assert picked.lead and picked.ids
    session.set_text(session.text().replace("Once upon a ti", "Once upon a da"))
    assert session.story.node(session.node).spans == (picked,)
    assert prompt(session)[-len(picked.ids) + 1 :] == before[-len(picked.ids) + 1 :] == picked.ids[1:]
