"""What scenarios share: stories on the disk, a typist, and what was lost of their words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from srbwriter.story import Story
from tests.terminal.terminal import CTRL_G, CTRL_N, ENTER, TAB, Key, Terminal

Result = TypeVar("Result")

OPENING = "It rained. "
READ = 0.5  # seconds in which a reader has seen a branch, so that a digit can be meant for it

_WORDS = (
    "the a lamp river keeper went down to see what had come in with fog and all boats lay still under their "
    "tarpaulins she counted them twice nobody answered bell rang once far out over black water"
).split()


def make_story(folder: Path, text: str = OPENING) -> Path:
    """A story file that holds ``text``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tale.srbw"
    with Story.create(file) as story:
        story.append(text)
    return file


def text_of(file: Path) -> str:
    """The text up to where the writer stood last."""
    with Story.open(file, readonly=True) as story:
        return story.text(story.current)


def node_texts(file: Path) -> list[str]:
    """The text of every living node."""
    with Story.open(file, readonly=True) as story:
        return [node.text for node in story.nodes(list(story.reading_order()))]


def all_ended(file: Path) -> bool:
    """Whether the end of every branch is in the file, and so all of its words."""
    with Story.open(file, readonly=True) as story:
        nodes = story.nodes(list(story.reading_order()))
        return all(node.finish_reason for node in nodes if node.author == "model")


def prose(chance: random.Random) -> Iterator[str]:
    """Characters of words with spaces between them, without an end."""
    while True:
        yield from chance.choice(_WORDS)
        yield " "


def words_from(chance: random.Random, count: int = 400) -> str:
    """So many characters of words."""
    characters = prose(chance)
    return "".join(next(characters) for _ in range(count))


def steady(chance: random.Random, least: float = 0.06, most: float = 0.25) -> Iterator[float]:
    """Seconds between the keys of somebody who types on without a pause."""
    while True:
        yield chance.uniform(least, most)


@dataclass(frozen=True, slots=True)
class Loss:
    """What of the typed words was not kept when the program ended at a moment."""

    where: str
    typed: int
    kept: int
    age: float
    """How long before the end the oldest lost character was typed, in seconds; 0 if none was lost."""

    def __str__(self) -> str:
        lost = f"{self.typed - self.kept} lost, the oldest {self.age:.2f} s old" if self.age else "all kept"
        return f"{self.where}: {self.typed} typed, {lost}"


def loss(where: str, typed: Sequence[Key], kept: str, moment: float) -> Loss:
    """Compare ``kept`` with what was typed until ``moment``; fails where they are not the same words."""
    text = "".join(key.text for key in typed)
    assert text.startswith(kept), f"{where}: kept are other words than were typed\n{kept!r}\n{text!r}"
    missing = list(typed[len(kept) :])
    while missing and missing[0].text.isspace():  # a question takes no blanks at the end of its answer
        missing.pop(0)
    age = moment - missing[0].at if missing else 0.0
    return Loss(where, len(typed), len(kept), age)


def report(title: str, losses: Iterable[Loss]) -> None:
    """Print what was measured; pytest shows it with -s, and when a test fails."""
    found = list(losses)
    ages = sorted(loss.age for loss in found)
    print(f"\n{title}")
    for line in found:
        print(f"  {line}")
    print(f"  oldest lost character: median {ages[len(ages) // 2]:.2f} s, most {ages[-1]:.2f} s")


def losses_within(bound: float, acts: Sequence[Callable[[], Loss]]) -> list[Loss]:
    """What each of ``acts`` lost; one that lost what is older than ``bound`` seconds is done twice more.

    A machine that holds a program up for a while says nothing about it; what is amiss is so every time.
    """
    found = two_at_once(acts)
    for number, act in enumerate(acts):
        for _ in range(2):
            if found[number].age > bound:
                found[number] = act()
    return found


def two_at_once(acts: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of ``acts`` in their order; more than two programs at once would slow each other down."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(act) for act in acts]]


def to_branches(terminal: Terminal) -> None:
    """Choose a branch: plain keys are commands then."""
    terminal.press(TAB)
    terminal.wait_for("BRANCH")


def in_menu(command: str) -> bytes:
    """The keys that run a command from the menu, by its id, as they arrive in one read."""
    return CTRL_G + command.encode() + ENTER


def choose(terminal: Terminal, command: str) -> None:
    """Run a command from the menu, by its id."""
    terminal.press(CTRL_G)
    terminal.wait_for("🔎")
    terminal.press(*(letter.encode() for letter in command), ENTER)
    terminal.wait_without("🔎")


def wait_for_model(terminal: Terminal) -> None:
    """Wait until the model is loaded: two branches have been written from the story's end, and ended."""
    terminal.press(CTRL_N)
    terminal.wait(ended, "branches that have ended, so a model is there")


def with_branches(terminal: Terminal) -> Path:
    """The program over a story with two branches that have ended, the keys on the first."""
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    terminal.press(CTRL_N)
    terminal.wait(ended, "branches that have ended")
    to_branches(terminal)
    return file


def ended(screen: str) -> bool:
    """Whether there are branches, and none of them waits or is written."""
    return "writes branches" not in screen and not re.search(r"\d +[·…▸‖] (?:wait|read|writ|paus)", screen)


def foot(screen: str) -> str:
    """The last two lines: what holds now, and what keys do."""
    return "\n".join(screen.splitlines()[-2:])


def picks(screen: str) -> bool:
    """Whether digits pick while the story has the keys."""
    return "STORY" in foot(screen) and "1–9 pick" in foot(screen)


def says_not_saved(screen: str) -> bool:
    """Whether the line at the foot says that words are not safe."""
    return "not saved" in foot(screen).lower()


def says_saved(screen: str) -> bool:
    """Whether the line at the foot says that all words are safe."""
    return bool(re.search(r"\bsaved\b", foot(screen))) and not says_not_saved(screen)


def shows_question(screen: str) -> bool:
    """Whether the line of keys has given way to a question."""
    return "^q quit" not in foot(screen)
