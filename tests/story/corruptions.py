"""Damages copies of a story that the program made, opens them, and tells what was noticed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from srbwriter.story import ROOT, NotAStory, Settings, Story
from srbwriter.story.check import check
from srbwriter.story.search import index

NAME = "The story.srbw"
PAGE = 4096
_WORDS = "the harbour light went out and nobody on the quay said a word about it until morning".split()

State = dict[int, tuple[str, int | None, object]]
"""Node → its text, what it hangs on, and its marks."""


# -- the stories -----------------------------------------------------------------------------------------


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words)) + f" “{rng.random()}”.\n\n"


def _write(story: Story, rng: random.Random, rounds: int) -> None:
    """Typing, branches with tokens, picks, edits, cuts, marks, the bin and undo."""
    for number in range(rounds):
        story.end_typing()
        node = story.append(_text(rng, rng.choice([12, 90, 700])))
        story.mark(node, tags=["draft", f"round {number}"], note=_text(rng, 8), bookmark=number % 2 == 0)
        names = story.begin_branches(node, 3, model="m", vocab="v", seeds=[1, 2, 3])
        for name in names:
            text = _text(rng, rng.choice([30, 400]))
            story.stream(name, text, [7] * (len(text) // 4), [-0.5] * (len(text) // 4))
            story.finish(name, "length")
        story.pick(names[0], len(story.node(names[0]).text) // 2)
        story.edit(names[1], story.node(names[1]).text + "And on.")
        story.delete(names[2])
        story.undo()
        if number % 3:
            story.redo()
        story.put_settings(node, Settings(memory=_text(rng, 40)))
        story.merge(story.split(node, 9)) if number % 2 else story.split(node, 9)


def state_of(story: Story) -> State:
    nodes = story.nodes([entry.id for entry in story._document.tree])
    return {node.id: (node.text, node.parent, (node.state, node.marks)) for node in nodes}


@dataclass(frozen=True, slots=True)
class Base:
    """A folder with a story file, perhaps with what a killed writer leaves beside it, and what is in it."""

    folder: Path
    state: State


def make_bases(folder: Path) -> dict[str, list[Base]]:
    """A closed story; stories whose writer was killed at some instant; one of the version before."""
    closed = folder / "closed"
    closed.mkdir()
    rng = random.Random(1)
    with Story.create(closed / NAME, "The harbour") as story:
        story.put_settings(ROOT, Settings(memory="A harbour in winter."))
        _write(story, rng, 6)
        index(story._document)
        bases = {"closed": [Base(closed, state_of(story))], "killed": []}
    working = folder / "working"
    shutil.copytree(closed, working)
    with Story.open(working / NAME) as story:
        for number in range(3):
            _write(story, rng, 1)
            killed = folder / f"killed {number}"
            shutil.copytree(working, killed, ignore=shutil.ignore_patterns("*-shm"))
            bases["killed"].append(Base(killed, state_of(story)))
    old = folder / "old"
    shutil.copytree(closed, old)
    with sqlite3.connect(old / NAME) as db:  # as the version before wrote it: without sums
        for table in ("node", "body", "value", "action"):
            db.execute(f"ALTER TABLE {table} DROP COLUMN sum")
        db.execute("DROP TABLE search_characters")
        db.execute("DELETE FROM value WHERE key IN ('gaps', 'written')")
        db.execute("PRAGMA user_version = 5")
    db.close()
    bases["old"] = [Base(old, bases["closed"][0].state)]
    return bases


# -- the damage ------------------------------------------------------------------------------------------


def _change(path: Path, rng: random.Random, start: int, stop: int, times: int = 1) -> None:
    """Flip ``times`` bits between two places."""
    data = bytearray(path.read_bytes())
    for _ in range(times):
        data[rng.randrange(start, min(stop, len(data)))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _flip_in_a_text(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    words = [word.encode() for word in ("harbour", "nobody", "morning", "”.")]
    places = [at for word in words for at in _all(data, word)]
    at = rng.choice(places)
    _change(path, rng, at, at + 7)


def _all(data: bytes, what: bytes) -> list[int]:
    found, at = list[int](), data.find(what)
    while at >= 0:
        found.append(at)
        at = data.find(what, at + 1)
    return found


def _flip_anywhere(path: Path, rng: random.Random) -> None:
    _change(path, rng, 100, 1 << 40)


def _many_flips(path: Path, rng: random.Random) -> None:
    _change(path, rng, 100, 1 << 40, rng.choice([5, 50, 1000]))


def _blank_pages(path: Path, rng: random.Random, first: int = 1) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 3, 10])):
        page = rng.randrange(first, len(data) // PAGE)
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE) if rng.random() < 0.7 else rng.randbytes(PAGE)
    path.write_bytes(data)


def _cut_short(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    size = rng.randrange(PAGE, len(data))
    path.write_bytes(data[: size // PAGE * PAGE if rng.random() < 0.3 else size])


def _break_the_header(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    match rng.randrange(4):
        case 0:
            data[rng.randrange(100)] ^= 1 << rng.randrange(8)
        case 1:
            data[:100] = bytes(100)
        case 2:
            data[:100] = rng.randbytes(100)
        case _:
            data[:PAGE] = bytes(PAGE)
    path.write_bytes(data)


def _log(path: Path) -> Path:
    return Path(f"{path}-wal")


def _lose_the_log(path: Path, rng: random.Random) -> None:
    _log(path).unlink()


def _cut_the_log(path: Path, rng: random.Random) -> None:
    data = _log(path).read_bytes()
    _log(path).write_bytes(data[: rng.choice([0, rng.randrange(len(data)), rng.randrange(len(data))])])


def _break_the_log(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.5:
        _change(_log(path), rng, 0, 1 << 40)
    else:
        _blank_pages(_log(path), rng, 0)


def _break_what_has_a_log(path: Path, rng: random.Random) -> None:
    rng.choice([_flip_in_a_text, _flip_anywhere, _many_flips, _blank_pages, _cut_short])(path, rng)


def _break_an_old_one(path: Path, rng: random.Random) -> None:
    rng.choice([_flip_in_a_text, _many_flips, _blank_pages, _cut_short, _break_the_header])(path, rng)


KINDS: dict[str, tuple[str, int, Callable[[Path, random.Random], None]]] = {
    "a bit of a text": ("closed", _flip_in_a_text),
    "a bit anywhere": ("closed", _flip_anywhere),
    "many bits": ("closed", _many_flips),
    "pages overwritten": ("closed", _blank_pages),
    "cut short": ("closed", _cut_short),
    "the header": ("closed", _break_the_header),
    "the log is lost": ("killed", _lose_the_log),
    "the log is cut short": ("killed", _cut_the_log),
    "the log is broken": ("killed", _break_the_log),
    "a file with a log": ("killed", _break_what_has_a_log),
    "of an older version": ("old", _break_an_old_one),
}
"""Name → the kind of story, and what is done to it."""


# -- what is noticed -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What became of one damaged story."""

    kind: str
    seed: int
    refused: str = ""
    """The typed error, if there was one."""
    damaged: bool = False
    wrong: set[int] = field(default_factory=set[int])
    """Nodes whose text is not the one that was written, or that are not there."""
    unnamed: set[int] = field(default_factory=set[int])
    """Of these, those that the report does not name."""
    uncounted: bool = False
    """Whether the report says that it cannot know how many nodes there were."""
    changed: list[str] = field(default_factory=list[str])
    """Files that are not what they were, though damage was found."""
    faults: list[str] = field(default_factory=list[str])


def run(kind: str, seed: int, bases: dict[str, list[Base]], folder: Path) -> Outcome:
    """Damage a copy of a story, and look at it in every way there is."""
    name, spoil = KINDS[kind]
    rng = random.Random(f"{kind} {seed}")
    base = rng.choice(bases[name])
    place = folder / f"{kind} {seed}"
    shutil.copytree(base.folder, place)
    path = place / NAME
    spoil(path, rng)
    outcome = Outcome(kind, seed)
    before = _files(path)
    try:
        check(path)
    except NotAStory as error:
        outcome.refused = type(error).__name__
    except Exception as error:
        outcome.faults.append(f"check: {error!r}")
    if _files(path) != before:
        outcome.changed.append("check")
    try:
        _open(path, base.state, outcome)
    except NotAStory as error:
        outcome.refused = type(error).__name__
    except Exception as error:
        outcome.faults.append(f"open: {error!r}")
    if (outcome.damaged or outcome.refused) and _files(path) != before:
        outcome.changed.append("open")
    shutil.rmtree(place)
    return outcome


def _files(path: Path) -> list[bytes | None]:
    both = path, _log(path)
    return [file.read_bytes() if file.exists() else None for file in both]


def _open(path: Path, expected: State, outcome: Outcome) -> None:
    with Story.open(path) as story:
        found = state_of(story)
        damage = story.damage
        named = set[int]()
        if damage is not None:
            outcome.damaged = True
            named = {*damage.missing_nodes, *damage.missing_text, *damage.displaced}
            named |= {*damage.doubtful}
            outcome.uncounted = "how many nodes there were" in str(damage)
        for node, (text, _, _) in expected.items():
            if node not in found or found[node][0] != text:
                outcome.wrong.add(node)
        outcome.unnamed = outcome.wrong - named
        story.text(story.current)
        story.search("harbour")
        list(story.reading_order())
        story.to_draft()
        if damage is not None:
            made = story.recover(path.with_name("recovered.srbw"), "Recovered")
            with Story.open(made) as again:
                assert again.read_only is None
                assert state_of(again) == found
                again.append("And on.")
            assert check(made).sound, check(made)
