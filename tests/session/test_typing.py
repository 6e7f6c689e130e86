"""Typing behind generated text, pasted words, and words that a branch goes on with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from srbwriter.session import Session
from srbwriter.session.prefix import in_whole_words
from srbwriter.session.typing import joint
from srbwriter.story import Edit
from tests.story.branches import added

OPENING = "The fox slept. It rain"


def end_with(session: Session, text: str) -> None:
    """Let the story end with ``text`` by a model."""
    story = session.story
    branch = story.begin_branch(story.current)
    story.stream(branch, text)
    story.finish(branch, "length")
    story.pick(branch)


@pytest.mark.parametrize(
    ("end", "letters", "branch", "expected"),
    [
        ("ed.", "T", "", " "),
        ("ed.", "T", " Then", " "),
        ("ed.", "T", "\n\nThen", "\n\n"),
        ("ed!”", "“", "", " "),
        ("ed.", "Then it", "", " "),
        ("ed.", " ", "", ""),
        ("ed.", ",", "", ""),
        ("ed and", "t", "", ""),  # the sentence is not complete, nor need the word be
        ("ed and", "T", "", " "),
        ("ed. ", "T", "", ""),  # there is one already
    ],
)
def test_the_first_letter_after_a_sentence_by_a_model_is_parted_from_it(
    session: Session, end: str, letters: str, branch: str, expected: str
) -> None:
    session.set_text(OPENING)
    end_with(session, end)
    branches = [SimpleNamespace(text=branch)]
    shown = SimpleNamespace(parent=session.node, branches=branches)
    place = len(session.text())
    assert joint(session.story, shown, place, letters) == expected  # type: ignore[arg-type]
    assert session.joint(place - 1, letters) == ""


def test_an_opening_that_came_from_a_file_is_parted_from_too(session: Session) -> None:
    added(session.story, session.node, ["It rained."], "imported", stand=True)
    assert session.joint(len(session.text()), "T") == " "


def test_there_is_none_after_the_writers_own_words(session: Session) -> None:
    session.set_text("It rained.")
    assert session.joint(10, "T") == ""
    end_with(session, " It snowed.")
    place = len(session.text())
    session.edit(Edit(place, place, session.joint(place, "T") + "T"))
    session.edit(Edit(place + 2, place + 2, "o"))
    assert session.text() == "It rained. It snowed. To"
    assert session.joint(place + 3, "d") == ""
    session.undo()
    assert session.text() == "It rained. It snowed."


def test_pasted_words_are_not_words_of_today(session: Session) -> None:
    session.edit(Edit(0, 0, "It rained. "))
    session.edit(Edit(11, 11, "Copied from a letter. "), pasted=True)
    assert session.story.today().words == 2
    session.edit(Edit(33, 33, "She read it."))
    assert session.story.today().words == 5 and session.story.words(session.node) == 9
    session.undo()
    assert session.undo() == "paste" and session.text() == "It rained. "
    assert session.story.today().words == 2


@pytest.mark.parametrize(
    ("before", "text", "shown"),
    [
        ("It rain", "ed all day", "rained all day"),
        ("It", " rained", " rained"),
        ("I don", "’t know", "don’t know"),
        ("今", "天", "天"),
        ("", "Once", "Once"),
    ],
)
def test_a_passage_that_begins_inside_a_word_is_shown_with_all_of_it(
    session: Session, before: str, text: str, shown: str
) -> None:
    session.set_text(before)
    end_with(session, text)
    assert in_whole_words(session.story, session.story.node(session.node)) == shown
