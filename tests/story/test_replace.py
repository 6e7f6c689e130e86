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
from tests.sizes import examples
from tests.story.branches import drafted, generated, sizes
from tests.story.machine import without_waiting

LETTERS = ["a", "b", " ", ". ", "\n", "é", "\U0001f98a", "雨", "the fox ", "ran", "e\u0301", "\u200b"]


def words(rng: random.Random, most: int = 5) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(0, most)))


def random_edit(rng: random.Random, text: str, near: int) -> Edit:
    """Typing on, taking back, and now and then something elsewhere or large."""
    kind, size = rng.random(), len(text)
    start = min(near, size) if kind < 0.5 else rng.randint(0, size)
    if kind < 0.35:
        return Edit(start, start, rng.choice(LETTERS))
    if kind < 0.5:
        return Edit(max(0, start - rng.randint(1, 2)), start, "")
    end = min(size, start + (rng.randint(0, size) if rng.random() < 0.2 else rng.randint(0, 6)))
    if rng.random() < 0.2:  # a passage that comes back nearly as it was
        new = text[start:end].replace("fox", "hen").replace("a", "b", 1)
        return Edit(start, end, new)
    return Edit(start, end, words(rng))


def history(story: Story) -> list[tuple[object, ...]]:
    columns = "id, parent, verb, node, was, became, typed, picked, changes"
    return story._document.store.db.execute(f"SELECT {columns} FROM action ORDER BY id").fetchall()


def looks(story: Story) -> tuple[object, ...]:
    """The tree with its runs and ids, where the writer is, and what can be undone."""
    tree = [entry._replace(created=0.0) for entry in story._document.tree]
    bodies = [story._document.body(entry.id) for entry in tree]
    return tree, bodies, story.current, story._history.head, history(story)


class Twins:
    """Two stories that are told the same: of the first the whole text, of the second the edit alone."""

    def __init__(self, stories: list[Story], seed: int) -> None:
        self.stories, self.rng, self.near = stories, random.Random(seed), 0
        self.names: list[int] = []
        self.now = 0.0
        for story in stories:
            story.use_token_sizes(sizes)
            story._clock = lambda: self.now
            without_waiting(story)

    @property
    def text(self) -> str:
        return self.stories[0].text(self.stories[0].current)

    def both(self, act: Callable[[Story], object]) -> None:
        for story in self.stories:
            act(story)

    def step(self) -> None:
        rng = self.rng
        self.now += rng.choice((0.1, 0.3, 5.0))
        kind = rng.random()
        if kind < 0.1:
            made = rng.choice(("the fox ran. ", "abababab", "aa b. c ", "雨雨雨雨", " \n the"))
            self.both(lambda story: story.pick(generated(story, story.current, made, "other")[0]))
        elif kind < 0.13:
            path = self.stories[0].path(self.stories[0].current)
            node = rng.choice(path)
            length = len(self.stories[0].node(node).text)
            if length > 1:
                at = rng.randint(1, length - 1)
                self.both(lambda story: story.split(node, at))
        elif kind < 0.18:
            self.both(lambda story: story.undo())
        elif kind < 0.22:
            self.both(lambda story: story.redo())
        elif kind < 0.24:
            self.both(lambda story: story.end_typing())
        else:
            self.edit(random_edit(rng, self.text, self.near))

    def edit(self, edit: Edit) -> None:
        text = apply_edits(self.text, [edit])
        self.stories[0].set_text(text)
        self.stories[1].replace(edit)
        self.near = edit.start + len(edit.text)
        assert self.text == text

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            first, second = map(looks, self.stories)
            assert first == second


@pytest.fixture
def stories(tmp_path: Path) -> Iterator[Callable[[int], list[Story]]]:
    opened: list[Story] = []

    def create(number: int) -> list[Story]:
        opened.extend(Story.create(tmp_path / f"{number}-{side}.srbw") for side in "ab")
        return opened[-2:]

    yield create
    for story in opened:
        story.close()


def test_an_edit_alone_does_what_the_whole_text_does(stories: Callable[[int], list[Story]]) -> None:
    """The same text, runs and ids, place of the writer, words counted, and history, action by action."""
    for seed in range(examples(20)):
        Twins(stories(seed), seed).run(50)


def test_edits_in_many_places_are_one_action(stories: Callable[[int], list[Story]]) -> None:
    [story, _] = stories(0)
    rng = random.Random(1)
    story.use_token_sizes(sizes)
    for number in range(40):
        story.pick(generated(story, story.current, f"the fox ran {number} times. ")[0])
    for _ in range(examples(30)):
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


def test_many_edits_take_as_long_as_the_text_and_they_do(stories: Callable[[int], list[Story]]) -> None:
    """Each is done once: 20 000 edits of a megabyte are no 20 000 megabytes."""
    [story, _] = stories(0)
    text = "The tide came in and nobody said a word about it. " * 20_000
    story.append(text)
    story.end_typing()
    read = 0
    body = story._document.body

    def counted(node: int) -> object:
        nonlocal read
        read += 1
        return body(node)

    story._document.body = counted  # type: ignore[method-assign, assignment]
    story.replace(*[Edit(at + 21, at + 27, "somebody") for at in range(0, len(text), 50)])
    assert story.text(story.current) == text.replace("nobody", "somebody")
    assert read < 100
    story.undo()
    assert story.text(story.current) == text
