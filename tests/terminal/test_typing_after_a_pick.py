"""Sentences typed right behind a pick: all of each is in the story, and no letter of it was a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from srbwriter.story import Story
from tests.terminal.support import OPENING, READ, ended, foot, make_story, says_saved
from tests.terminal.terminal import BACKSPACE, CTRL_N, CTRL_Q, Terminal

STEADY = 1 / 15  # seconds between two keys


@dataclass(frozen=True, slots=True)
class Sentence:
    """``text`` in one way to type it: a key each, ``erases`` first, or a ``paste``."""

    text: str
    how: str = "keys"

    def type(self, terminal: Terminal, pause: float) -> None:
        """Type it with ``pause`` seconds between keys; in one write where that is 0."""
        if self.how == "paste":
            terminal.paste(self.text)
            return
        keys = [character.encode() for character in self.text]
        if self.how == "erases":
            keys = [BACKSPACE, *keys]
        if not pause:
            terminal.press(b"".join(keys))
            return
        for key in keys:
            terminal.press(key)
            terminal.rest(pause)


SENTENCES = (
    Sentence("Every evening Rose came home."),  # a capital that is a command on a branch
    Sentence('"Who goes there?" she cried.'),
    Sentence(" and rose.", "erases"),
    Sentence("Kind words, pasted in.", "paste"),
)


def start(terminal: Terminal) -> Path:
    """The program over a story with two branches that have ended."""
    terminal.columns, terminal.lines = 80, 24
    terminal.configure(max_tokens=12)
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    return file


def branches_of(file: Path) -> list[str]:
    """The texts below where the writer stands."""
    with Story.open(file, readonly=True) as story:
        return [node.text for node in story.nodes(story.children(story.current))]


def have_ended(screen: str) -> bool:
    """Whether both branches in view have ended, and all words are saved."""
    return ended(screen) and says_saved(screen)


def story_has_keys(screen: str) -> bool:
    """Whether the last lines say that keys go into the story, digits too."""
    shown = foot(screen)
    return "STORY" in shown and "1–9" not in shown


def ask_for_branches(terminal: Terminal, file: Path) -> None:
    """Have two more branches written to their end."""
    before = len(branches_of(file))
    terminal.press(CTRL_N)

    def written(screen: str) -> bool:
        found = branches_of(file)
        return have_ended(screen) and len(found) == before + 2 and all(found[before:])

    terminal.wait(written, "two branches that have ended")


def pick_and_type(terminal: Terminal, file: Path, number: int, sentence: Sentence, pause: float) -> None:
    """Pick a branch of a new round, and type on at once; fails where the story is any other than that."""
    known = len(branches_of(file))  # of a round that began before the last letter was erased
    ask_for_branches(terminal, file)
    with Story.open(file, readonly=True) as story:
        here, before = story.current, story.text(story.current)
    terminal.rest(READ)
    terminal.press(str(number).encode())
    sentence.type(terminal, pause)

    def arrived(_: str) -> bool:
        with Story.open(file, readonly=True) as story:
            takes = [node.text for node in story.nodes(story.children(here))]
            text = story.text(story.current)
        if sentence.how == "erases":  # the edited passage stands in the model's place, whose own is beside it
            return any(text == before + take[:-1] + sentence.text for take in takes)
        take = takes[known + number - 1]
        behind = text.removeprefix(before + take)  # with a joint, where the branch ends a sentence or a word
        return behind != text and behind.lstrip() == sentence.text.lstrip()

    terminal.wait(arrived, f"{sentence.text!r} behind branch {number}")
    terminal.wait(have_ended, "the branches that follow the pick have ended")
    # The words reach the disk and a short round may end before the screen is painted once.
    terminal.wait(story_has_keys, "the line of keys of the story")


def assert_nothing_else_happened(file: Path, knobs: str) -> None:
    """No mark, no deletion, no knob, no title: what a letter could have done as a command."""
    with Story.open(file, readonly=True) as story:
        for node in story.reading_order():
            found = story.node(node)
            assert not (found.bookmark or found.tags or found.note or found.title)
        assert not list(story.bin())
        assert repr(story.settings(story.current)) == knobs


def type_all(terminal: Terminal, file: Path, sentences: Sequence[Sentence], pauses: Sequence[float]) -> None:
    """Type each sentence behind a pick of its own."""
    with Story.open(file, readonly=True) as story:
        knobs = repr(story.settings(story.current))
    for place, (sentence, pause) in enumerate(zip(sentences, pauses, strict=False)):
        pick_and_type(terminal, file, 1 + place % 2, sentence, pause)
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert_nothing_else_happened(file, knobs)


def test_what_is_typed_behind_a_pick_is_the_storys(terminal: Terminal) -> None:
    file = start(terminal)
    type_all(terminal, file, SENTENCES, (STEADY, 0, 0, 0))
