"""A letter is mended far up in what a model wrote, and the program is killed: it is mended, or as it was.

What stands behind the letter keeps its nodes, marks and token ids.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from srbwriter.story import Story
from srbwriter.story.model import DraftNode, Generation, Marks, Span, StoryDraft, path_to
from tests.sizes import few_or_all
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import two_at_once
from tests.terminal.terminal import CTRL_F, CTRL_Q, TAB, Terminal

KILLS = {False: 1, True: 12}
NODES = 12
MENDED = 3  # the node with the misspelt word

WRONG, RIGHT = "lanten", "lantern"
FOUND, MISSING = "lante", "r"  # what is looked for, and the letter that is typed behind it

MARKS = {
    0: Marks(chapter=True, title="One"),
    2: Marks(bookmark=True),
    5: Marks(note="too slow"),
    6: Marks(chapter=True, title="Two"),
    9: Marks(bookmark=True, tags=("quay",), note="keep"),
}


def generated(number: int, parent: str | None, order: int = 0) -> DraftNode:
    """A node as a model writes one, in tokens of four characters."""
    word = WRONG if number == MENDED else "lamp"
    text = f" Sentence {number} tells of a {word} by the water.".ljust(48, ".")
    run = Span(text, "model", tuple(number * 100 + n for n in range(len(text) // 4)), "a vocabulary")
    return DraftNode(
        f"{number}-{order}", parent, order, text, "model", [run], Generation(seed=number, model="m"),
        MARKS.get(number, Marks()) if not order else Marks(),
    )  # fmt: skip


def make_chain(folder: Path) -> Path:
    """A story of generated nodes one below the other; each has a sibling that was not picked."""
    nodes = [DraftNode("root")]
    parent = "root"
    for number in range(NODES):
        nodes += [generated(number, parent), generated(number, parent, 1)]
        parent = f"{number}-0"
    file = folder / "tale.srbw"
    Story.from_draft(file, StoryDraft(nodes, parent, "tale")).close()
    return file


@dataclass(frozen=True, slots=True)
class Place:
    """What a node on the way to the end says, what hangs on it, and the ids of its tokens."""

    text: str
    marks: tuple[object, ...]
    tokens: tuple[int, ...]


def way(file: Path) -> list[Place]:
    """The nodes on the way to where the writer stands, without the root."""
    with Story.open(file, readonly=True) as story:
        draft = story.to_draft()
    return [
        Place(
            node.text,
            (m.bookmark, m.chapter, m.title, m.note, *m.tags),
            tuple(token for span in node.spans for token in span.ids),
        )
        for node in path_to(draft, draft.current_id)[1:]
        for m in [node.marks]
    ]


def mend(terminal: Terminal, file: Path) -> None:
    """Open the story, look for the word, and type the letter."""
    terminal.start(file)
    terminal.wait_for("Sentence 11")
    terminal.press(CTRL_F)
    terminal.wait_for("↓ next")
    terminal.press(FOUND.encode())
    terminal.wait_for("1 of 1")
    terminal.press(TAB)
    terminal.wait_without("1 of 1")
    terminal.type(MISSING)
    terminal.wait_for(RIGHT)


def faults(before: list[Place], after: list[Place], must_be_mended: bool) -> list[str]:
    """What is neither as it was nor mended."""
    found: list[str] = []
    text, old = ("".join(place.text for place in places) for places in (after, before))
    if text not in ([] if must_be_mended else [old]) + [old.replace(WRONG, RIGHT)]:
        found.append(f"the text is {text!r}")
    if len(after) != len(before):
        found.append(f"the way is {len(after)} nodes long instead of {len(before)}")
    marks, old_marks = ([place.marks for place in places if any(place.marks)] for places in (after, before))
    if marks != old_marks:
        found.append(f"the marks are {marks}")
    ids = {token for place in after for token in place.tokens}
    lost = [n for n, place in enumerate(before) if n != MENDED and not ids.issuperset(place.tokens)]
    if lost:
        found.append(f"token ids are lost of nodes {lost}")
    return found


def mended_and_ended(new_terminal: NewTerminal, seed: int) -> str:
    """What is wrong after a kill at a moment; seed 0 leaves in order instead. Empty if nothing is."""
    chance = random.Random(seed)
    terminal = new_terminal(f"mended {seed}")
    file = make_chain(terminal.folder)
    before = way(file)
    mend(terminal, file)
    pause = chance.uniform(0, 1.3)
    if seed:
        terminal.rest(pause)
        terminal.kill()
    else:
        terminal.press(CTRL_Q)
        assert terminal.ended() == 0
    found = faults(before, way(file), must_be_mended=not seed)
    how = f"killed after {pause:.2f} s" if seed else "left in order"
    return f"{how}: {'; '.join(found)}" if found else ""


@few_or_all
def test_a_letter_mended_far_up_changes_nothing_else(new_terminal: NewTerminal, full: bool) -> None:
    found = two_at_once([partial(mended_and_ended, new_terminal, seed) for seed in range(KILLS[full] + 1)])
    wrong = [fault for fault in found if fault]
    assert not wrong, "\n".join(wrong)
