"""The verbs of a story one by one, where a random walk would not say what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import ROOT, Edit, Refused, Story
from srbwriter.story.model import LoreEntry, StorySettings, Template
from tests.story.branches import added, bookmarks, generated

# -- the tree ------------------------------------------------------------------------------------------


def test_the_root_stays_what_it_is(story: Story) -> None:
    with pytest.raises(Refused):
        story.delete(ROOT)


def test_the_bin_gives_everything_back(story: Story) -> None:
    [node] = added(story, ROOT, ["a"])
    [child] = added(story, node, ["b"])
    story.visit(child)
    story.delete(node)
    assert (story.current, story.bin(), story.children(ROOT)) == (ROOT, [node], [])
    with pytest.raises(Refused, match="in the bin"):
        story.pick(node)
    story.restore(node)
    assert story.text(child) == "ab"
    story.delete(child)
    story.delete(node)
    story.restore(child)  # brings back what it hangs below
    assert story.is_living(child)


def test_unknown_nodes_are_named(story: Story) -> None:
    for verb in (story.node, story.text, story.pick, story.delete, story.children, story.settings):
        with pytest.raises(Refused, match="node 99"):
            verb(99)


def test_ways_through_the_tree(story: Story) -> None:
    a, b = added(story, ROOT, ["a", "b"])
    c, d = added(story, a, ["c", "d"])
    order = [ROOT, a, c, d, b]
    assert list(story.reading_order()) == order
    assert story.path(d) == [ROOT, a, d]
    assert story.children(story.node(d).parent) == [c, d]
    story.mark(c, bookmark=True)
    story.mark(b, bookmark=True)
    assert bookmarks(story) == [c, b]
    story.delete(a)
    assert bookmarks(story) == [b]


def test_unread_branches(story: Story) -> None:
    [branch] = generated(story, ROOT, "abc")
    assert [node for node in story.reading_order() if not story.node(node).visited] == [branch]
    story.visit(branch)
    assert all(story.node(node).visited for node in story.reading_order())


def test_settings_are_inherited_and_kept(story: Story, tmp_path: Path) -> None:
    [node] = added(story, ROOT, ["a"])
    above = StorySettings(
        memory="m", lore=[LoreEntry("1", keys=["k"])], template=Template("t"), sampling={"top_k": 1}
    )
    story.put_settings(ROOT, above)
    story.put_settings(node, StorySettings(author_note="n", sampling={"min_p": 0.5}))
    story.close()
    with Story.open(tmp_path / "s.srbw") as again:
        seen = again.settings(node)
        assert again.node(ROOT).settings == above
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


def test_words_between_the_models_nodes_are_kept_while_the_later_is_written(story: Story) -> None:
    [above] = added(story, ROOT, ["It rained."], "model", stand=True)
    below = story.begin_branch(above)
    story.stream(below, " Hard", [1])
    story.visit(below)
    story.replace(Edit(10, 10, " All day."))
    assert story.text(story.current) == "It rained. All day. Hard"
    story.stream(below, " and long.", [2, 3])
    story.finish(below, "length")
    assert story.text(below) == "It rained. All day. Hard and long."


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(story: Story) -> Clock:
    made = Clock()
    story.typing_clock = made
    return made


# -- typing --------------------------------------------------------------------------------------------


def test_keystrokes_of_one_sentence_are_one_action(story: Story, clock: Clock) -> None:
    for key in "It rained. Then":
        clock.now += 0.1
        story.append(key)
    assert story.text(story.current) == "It rained. Then"
    story.undo()
    assert story.text(story.current) == "It rained."
    story.redo()
    assert story.text(story.current) == "It rained. Then"
    story.undo()
    story.undo()
    assert story.current == ROOT
    assert len(story.bin()) == 1  # the words themselves are still there


def test_words_typed_over_a_branch_and_taken_back_do_not_bring_it_back(story: Story) -> None:
    added(story, ROOT, ["It rained."], "model", stand=True)
    story.replace(Edit(0, 10, "S"))
    story.replace(Edit(0, 1, ""))
    assert story.text(story.current) == ""
    story.undo()
    assert story.text(story.current) == "It rained."


def test_a_pause_ends_the_action(story: Story, clock: Clock) -> None:
    story.append("one ")
    clock.now += 10
    story.append("two")
    story.undo()
    assert story.text(story.current) == "one "


# -- taking --------------------------------------------------------------------------------------------


def test_a_pick_beyond_the_end_is_refused(story: Story) -> None:
    [branch] = generated(story, ROOT, "abc")
    for at in (0, 4, -1):
        with pytest.raises(Refused, match="3 characters"):
            story.pick(branch, at)
    assert story.undo() is None


# -- streams -------------------------------------------------------------------------------------------


def test_everything_about_a_branch_is_kept(story: Story, tmp_path: Path) -> None:
    name = story.begin_branch(ROOT, model="m.gguf", vocab="v", sampling={"min_p": 0.1}, seed=42)
    story.stream(name, "ow", [5, 6], [-0.25, None], lead="wind")
    story.finish(name, "sentence")
    story.close()
    with Story.open(tmp_path / "s.srbw") as again:
        node = again.node(name)
    [span] = node.spans
    assert (span.text, span.ids, span.vocab, span.logprobs, span.lead) == (
        "ow",
        (5, 6),
        "v",
        (-0.25, None),
        "wind",
    )
    assert (node.model, node.seed, node.sampling, node.finish_reason) == (
        "m.gguf",
        42,
        {"min_p": 0.1},
        "sentence",
    )
    assert node.streaming is None
    assert not node.visited
