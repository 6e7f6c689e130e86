"""The verbs of the tree one by one, where a random walk would not say what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import ROOT, Marks, NoSuchNode, Refused, Settings, Story
from srbwriter.story.model import LoreEntry, Template
from tests.story.branches import generated

# -- the tree ------------------------------------------------------------------------------------------


def test_merging_keeps_marks_and_settings(story: Story) -> None:
    [top] = story.add(ROOT, ["a"])
    [low] = story.add(top, ["b"])
    [below] = story.add(low, ["c"])
    story.mark(top, tags=["x"], note="up")
    story.mark(low, tags=["y"], note="down", bookmark=True)
    story.put_settings(top, Settings(memory="m", author_note="n"))
    story.put_settings(low, Settings(author_note="o"))
    before = story.settings(below)
    story.merge(low)
    assert story.marks(top) == Marks(bookmark=True, tags=("x", "y"), note="up\ndown")
    assert story.settings(below) == before
    story.undo()
    assert story.marks(top) == Marks(tags=("x",), note="up")
    assert story.own_settings(top) == Settings(memory="m", author_note="n")


def test_the_root_stays_what_it_is(story: Story) -> None:
    [node] = story.add(ROOT, ["a"])
    for verb in (
        lambda: story.delete(ROOT),
        lambda: story.split(ROOT, 1),
        lambda: story.merge(ROOT),
        lambda: story.merge(node),
        lambda: story.duplicate(ROOT),
        lambda: story.reorder(ROOT, 0),
    ):
        with pytest.raises(Refused):
            verb()
    assert story.parent(story.edit(ROOT, "x")) == ROOT


def test_the_bin_gives_everything_back(story: Story) -> None:
    [node] = story.add(ROOT, ["a"])
    [child] = story.add(node, ["b"])
    story.visit(child)
    story.delete(node)
    assert (story.current, story.bin(), story.children(ROOT)) == (ROOT, [node], [])
    with pytest.raises(NoSuchNode, match="in the bin"):
        story.pick(node)
    story.restore(node)
    assert story.text(child) == "ab"
    story.delete(child)
    story.delete(node)
    story.restore(child)  # brings back what it hangs below
    assert story.is_living(child)


def test_unknown_nodes_are_named(story: Story) -> None:
    for verb in (story.node, story.text, story.pick, story.delete, story.children, story.settings):
        with pytest.raises(NoSuchNode, match="node 99"):
            verb(99)


def test_a_deep_copy_is_a_tree_of_its_own(story: Story) -> None:
    [top] = story.add(ROOT, ["a"])
    [low] = story.add(top, ["b"])
    story.mark(low, title="here")
    copy = story.duplicate(top, deep=True)
    [low_copy] = story.children(copy)
    assert (story.text(low_copy), story.marks(low_copy).title) == ("ab", "here")
    story.edit(low, "changed")
    assert story.text(low_copy) == "ab"
    assert story.children(ROOT) == [top, copy]


def test_ways_through_the_tree(story: Story) -> None:
    a, b = story.add(ROOT, ["a", "b"])
    c, d = story.add(a, ["c", "d"])
    order = [ROOT, a, c, d, b]
    assert list(story.reading_order()) == order
    assert story.path(d) == [ROOT, a, d]
    assert story.children(story.parent(d)) == [c, d]
    story.reorder(d, 0)
    assert story.children(a) == [d, c]
    story.mark(c, bookmark=True)
    story.mark(b, bookmark=True, chapter=True, title="Two", tags=["blue"])
    assert (story.bookmarks(), story.chapters(), story.tags()) == (
        [c, b],
        [b],
        ["blue"],
    )
    story.delete(a)
    assert story.bookmarks() == [b]


def test_marks_that_mean_nothing_are_refused(story: Story) -> None:
    for marks in ({"rating": 2}, {"tags": ["two\nlines"]}, {"tags": [""]}):
        with pytest.raises(Refused):
            story.mark(ROOT, **marks)  # type: ignore[arg-type]


def test_unread_and_hoisted(story: Story) -> None:
    [branch] = generated(story, ROOT, "abc")
    assert story.unread() == [branch]
    story.visit(branch)
    assert story.unread() == []
    story.mark_visited(branch, False)
    assert story.unread() == [branch]
    story.hoist(branch)
    assert story.hoisted == branch
    story.delete(branch)
    assert story.hoisted == ROOT


def test_a_hoisted_node_that_is_merged_leaves_its_place_to_its_parent(story: Story) -> None:
    [top] = story.add(ROOT, ["a"])
    [low] = story.add(top, ["b"])
    story.hoist(low)
    story.merge(low)
    assert story.hoisted == top
    story.undo()
    assert story.hoisted == low


def test_settings_are_inherited_and_kept(story: Story, tmp_path: Path) -> None:
    [node] = story.add(ROOT, ["a"])
    above = Settings(
        memory="m", lore=[LoreEntry("1", keys=["k"])], template=Template("t"), sampling={"top_k": 1}
    )
    story.put_settings(ROOT, above)
    story.put_settings(node, Settings(author_note="n", sampling={"min_p": 0.5}))
    story.close()
    with Story.open(tmp_path / "s.srbw") as again:
        seen = again.settings(node)
        assert again.own_settings(ROOT) == above
    assert (seen.memory, seen.author_note, seen.sampling) == ("m", "n", {"top_k": 1, "min_p": 0.5})
    assert seen.lore[0].keys == ["k"]
    assert seen.template == Template("t")


# -- history -------------------------------------------------------------------------------------------


def test_history_survives_the_file_and_redo_does_what_was_undone_last(story: Story, tmp_path: Path) -> None:
    first = story.append("one")
    story.undo()
    second = story.append("two")
    story.undo()
    assert story.bin() == [second, first]
    story.close()
    with Story.open(tmp_path / "s.srbw") as again:
        again.redo()
        assert again.children(ROOT) == [second]
        assert again.redo() is None
        again.undo()
        assert again.children(ROOT) == []


def test_settings_of_one_unit_are_one_action_until_something_else_happens(story: Story) -> None:
    def memory() -> str | None:
        return story.own_settings(ROOT).memory

    for words in ("A", "A harbour", "A harbour."):
        story.put_settings(ROOT, Settings(memory=words), unit="memory")
    story.mark(story.append("one"), bookmark=True)
    story.put_settings(ROOT, Settings(memory="A quay."), unit="memory")
    story.put_settings(ROOT, Settings(memory="A quay.", author_note="Slow"), unit="note")
    story.end_typing()
    story.put_settings(ROOT, Settings(memory="A quay.", author_note="Slow."), unit="note")
    story.undo()
    assert story.own_settings(ROOT).author_note == "Slow"
    story.undo()
    assert story.own_settings(ROOT).author_note is None
    story.undo()
    assert memory() == "A harbour."
    for _ in range(3):  # the mark, the text, and the memory
        story.undo()
    assert memory() is None
    for _ in range(3):
        story.redo()
    assert memory() == "A harbour."


def test_a_unit_of_settings_that_came_to_nothing_is_begun_anew(story: Story) -> None:
    with pytest.raises(RuntimeError), story.together():
        story.put_settings(ROOT, Settings(memory="A"), unit="memory")
        raise RuntimeError
    story.mark(story.append("one"), bookmark=True)
    story.put_settings(ROOT, Settings(memory="A harbour"), unit="memory")
    story.undo()
    assert story.own_settings(ROOT).memory is None and story.text(story.current) == "one"


def test_parts_of_the_text(story: Story) -> None:
    node = ROOT
    for number in range(20):
        [node] = story.add(node, [f"{number:03d}"])
    assert story.text(node, 4) == "018019"


def test_words_between_the_models_nodes_are_kept_while_the_later_is_written(story: Story) -> None:
    [above] = story.add(ROOT, ["It rained."], "model", stand=True)
    [below] = story.begin_branches(above, 1)
    story.stream(below, " Hard", [1])
    story.visit(below)
    story.set_text("It rained. All day. Hard")
    assert story.text(story.current) == "It rained. All day. Hard"
    story.stream(below, " and long.", [2, 3])
    story.finish(below, "length")
    assert story.text(below) == "It rained. All day. Hard and long."
