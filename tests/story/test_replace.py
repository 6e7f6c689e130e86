"""An edit that arrives as an edit does what comparing the whole texts would have done."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from srbwriter.story import Edit, Refused, Story
from srbwriter.story.diff import apply_edits
from srbwriter.story.model import DraftNode, Span, StoryDraft
from srbwriter.story.shapes import row_sum
from srbwriter.story.store import ACTION, Body
from srbwriter.story.tree import Entry
from tests.story.branches import drafted, generated, sizes

LETTERS = ["a", "b", " ", ". ", "\n", "é", "\U0001f98a", "雨", "the fox ", "ran", "e\u0301", "\u200b"]


def words(rng: random.Random, most: int = 5) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(0, most)))


def history(story: Story) -> list[tuple[object, ...]]:
    columns = "id, parent, verb, node, was, became, typed, picked, changes"
    return story._document.store.db.execute(f"SELECT {columns} FROM action ORDER BY id").fetchall()


def looks(story: Story) -> tuple[object, ...]:
    """The tree with its runs and ids, where the writer is, and what can be undone."""
    tree = [entry._replace(created=0.0) for entry in story._document.tree]
    bodies = [story._document.body(entry.id) for entry in tree]
    return tree, bodies, story.current, story._history.head, history(story)


@pytest.fixture
def stories(tmp_path: Path) -> Iterator[Callable[[int], list[Story]]]:
    opened: list[Story] = []

    def create(number: int) -> list[Story]:
        opened.extend(Story.create(tmp_path / f"{number}-{side}.srbw") for side in "ab")
        return opened[-2:]

    yield create
    for story in opened:
        story.close()


def test_edits_in_many_places_are_one_action(stories: Callable[[int], list[Story]]) -> None:
    [story, _] = stories(0)
    rng = random.Random(1)
    story.use_token_sizes(sizes)
    for number in range(40):
        story.pick(generated(story, story.current, f"the fox ran {number} times. ")[0])
    for _ in range(7):
        text, before = story.text(story.current), drafted(story)
        places = sorted(rng.sample(range(len(text) + 1), 2 * rng.randint(1, 12)))
        edits = [Edit(a, b, words(rng)) for a, b in zip(places[::2], places[1::2], strict=True)]
        whole = apply_edits(text, edits)
        story.end_typing()
        head = story._history.head
        story.replace(*edits)
        assert story.text(story.current) == whole
        if whole == text:
            continue
        after = drafted(story)
        action = story.undo()
        assert action is not None and action.parent == head
        assert (story.text(story.current), drafted(story).nodes[: len(before.nodes)]) == (text, before.nodes)
        story.redo()
        assert drafted(story) == after


def bodies(story: Story) -> list[tuple[Entry, Body]]:
    return [(entry._replace(created=0.0), story._document.body(entry.id)) for entry in story._document.tree]


def test_a_word_replaced_everywhere_is_undone_and_redone_to_the_byte_and_after_opening_again(
    tmp_path: Path,
) -> None:
    nodes = [DraftNode("0")]
    for number in range(600):  # more nodes than are read at once; of every second no ends of tokens are known
        text = f"one fox {number:03} two one fox {'.' * (number % 2)}"
        span = Span(text, "model", (3,) * 8, "v")
        nodes.append(DraftNode(f"{number + 1}", f"{number}", text=text, author="model", spans=[span]))
    story = Story.from_draft(tmp_path / "fox.srbw", StoryDraft(nodes, "600"))
    story.use_token_sizes(sizes)
    story.append("A fox of the writer's own. ")
    story.end_typing()
    text, before = story.text(story.current), bodies(story)
    places = [at for at in range(len(text)) if text.startswith("fox", at)]
    story.replace(*[Edit(at, at + 3, "hen") for at in places])
    tokens = [
        sum(len(span.ids) for span in node.spans) for node in story.nodes(story.path(story.current)[1:])
    ]
    assert tokens == [4, 0] * 300 + [0], "fox is in two of eight tokens, twice"
    after = bodies(story)
    story.undo()
    assert bodies(story)[: len(before)] == before
    story.redo()
    assert bodies(story) == after
    path = story.file
    story.close()
    with Story.open(path) as again:
        assert again.text(again.current) == text.replace("fox", "hen")
        assert bodies(again) == after
        again.undo()
        assert bodies(again)[: len(before)] == before
        again.redo()
        assert bodies(again) == after


def test_a_change_as_earlier_versions_wrote_it_is_undone_and_redone(
    stories: Callable[[int], list[Story]],
) -> None:
    """They wrote the spans before and after each change into the action itself."""
    [story, _] = stories(0)
    story.use_token_sizes(sizes)
    node = generated(story, story.current, "the fox ran. ")[0]
    story.pick(node)
    before = bodies(story)
    story.replace(Edit(4, 7, "hen"))
    after = bodies(story)
    db = story._document.store.db

    def as_written_earlier() -> None:
        *row, changes = db.execute(f"SELECT {ACTION} FROM action ORDER BY id DESC LIMIT 1").fetchone()
        [change] = json.loads(changes)
        runs = [body.runs for entry, body in before + after if entry.id == node]
        change["runs_before"], change["runs_after"] = (b64encode(each).decode() for each in runs)
        row = [*row, json.dumps([change])]
        db.execute("UPDATE action SET changes = ?, sum = ? WHERE id = ?", (row[-1], row_sum(*row), row[0]))

    as_written_earlier()
    story.undo()
    assert bodies(story)[: len(before)] == before
    as_written_earlier()
    story.redo()
    assert bodies(story) == after


def test_edits_that_are_not_within_the_text_are_refused(stories: Callable[[int], list[Story]]) -> None:
    [story, _] = stories(0)
    story.append("One two")
    before = drafted(story)
    for edits in ([Edit(3, 8, "")], [Edit(-1, 0, "x")], [Edit(2, 1, "")], [Edit(4, 5, ""), Edit(0, 1, "")]):
        with pytest.raises(Refused, match="no place"):
            story.replace(*edits)
    assert drafted(story) == before
