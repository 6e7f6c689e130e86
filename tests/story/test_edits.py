"""Changing the text of a story: what is touched changes in place, and everything else stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.story import Refused, Settings, Story
from srbwriter.story.model import DraftNode, NodeId, without_deleted
from tests.story.branches import drafted, generated, sizes


def line(story: Story, *texts: str) -> list[NodeId]:
    """An opening by the writer and takes of the model after it, each picked from two; the path's nodes."""
    story.use_token_sizes(sizes)
    story.append(texts[0])
    for text in texts[1:]:
        take, _ = generated(story, story.current, text, " Other words.")
        story.pick(take)
    story.end_typing()
    return story.path(story.current)[1:]


def texts(story: Story) -> list[str]:
    return [node.text for node in story.nodes(story.path(story.current)[1:])]


def unnumbered(nodes: Iterable[DraftNode]) -> list[DraftNode]:
    """``nodes`` without the numbers that order siblings: they make room for what is in the bin.

    The order itself is that of the list.
    """
    return [replace(node, order=0) for node in nodes]


def counts(story: Story) -> dict[str, int]:
    """What a writer can reach from the end of the text."""
    path = story.path(story.current)[1:]
    nodes = story.nodes(path)
    return {
        "nodes": len(nodes),
        "chapters": sum(node.marks.chapter for node in nodes),
        "bookmarks": sum(node.marks.bookmark for node in nodes),
        "notes": sum(bool(node.marks.note) for node in nodes),
        "with ids": sum(any(span.ids for span in node.spans) for node in nodes),
        "forks": sum(len(story.children(node)) > 1 for node in path),
    }


# -- a fix deep in the story ---------------------------------------------------------------------------


@pytest.fixture
def long(story: Story) -> list[NodeId]:
    """Thirteen nodes with marks on some of them."""
    path = line(story, "It rained. ", *(f"Take {number} of it drove on. " for number in range(10, 22)))
    for number in (2, 6, 10):
        story.mark(path[number], chapter=True, bookmark=True, note=f"note {number}", title=f"Ch {number}")
    return path


ALL = {"nodes": 13, "chapters": 3, "bookmarks": 3, "notes": 3, "with ids": 12, "forks": 12}


def test_a_fix_deep_in_the_story_keeps_everything_behind_it(long: list[NodeId], story: Story) -> None:
    before, text = drafted(story), story.text(story.current)
    assert counts(story) == ALL
    fixed = text.replace("Take 10", "Tale 10")
    assert story.set_text(fixed) == long[-1]
    assert (story.path(story.current)[1:], story.text(story.current)) == (long, fixed)
    assert counts(story) == ALL
    after = drafted(story)
    story.undo()
    assert drafted(story) == before
    story.redo()
    assert drafted(story) == after
    assert counts(story) == ALL


def test_the_models_take_stays_beside_the_fixed_one(long: list[NodeId], story: Story) -> None:
    story.put_settings(long[1], Settings(memory="m"))
    old = story.node(long[1])
    beside = story.children(story.parent(long[1]))
    story.set_text(story.text(story.current).replace("Take 10", "Tale 10"))
    [kept] = set(story.children(story.parent(long[1]))) - set(beside)
    take = story.node(kept)
    assert (take.spans, take.model, take.seed, take.author) == (old.spans, old.model, old.seed, "model")
    assert (take.marks.visited, take.finish_reason, story.children(kept)) == (True, old.finish_reason, [])
    assert story.settings(kept) == story.settings(long[1])
    assert (take.marks.bookmark, story.node(long[1]).author) == (False, "edited")
    story.end_typing()
    story.set_text(story.text(story.current).replace("Tale 10", "Fake 10"))  # it is the writer's already
    assert set(story.children(story.parent(long[1]))) == {*beside, kept}
    story.undo()
    story.undo()
    assert story.children(story.parent(long[1])) == beside
    assert story.bin() == []
    assert story.search("Take 10 of it")[0].node == long[1]


def test_what_is_written_after_a_kept_take_is_not_lost_by_undo(long: list[NodeId], story: Story) -> None:
    beside = story.children(story.parent(long[1]))
    story.set_text(story.text(story.current).replace("Take 10", "Tale 10"))
    [kept] = set(story.children(story.parent(long[1]))) - set(beside)
    [more] = generated(story, kept, "It stopped.")
    text = story.text(more)
    [new] = generated(story, long[1], "It thundered.")
    story.undo()
    assert (story.parent(more), story.text(more)) == (long[1], text)
    assert "Tale 10" in story.text(new)
    story.redo()
    assert (story.parent(more), story.text(more)) == (kept, text)
    assert story.parent(new) == long[1]


def test_fixes_in_several_places_and_a_new_end_are_one_edit(long: list[NodeId], story: Story) -> None:
    before, text = drafted(story), story.text(story.current)
    fixed = text.replace("rained", "snowed").replace("Take 12 of it", "Tale 12 of them")
    end = story.set_text(fixed[: fixed.index("Take 19")] + "The rest is another story.")
    assert story.path(end)[1:] == [*long[:10], end]
    assert texts(story)[-2:] == ["Take 18 of it drove on. ", "The rest is another story."]
    assert (texts(story)[0], texts(story)[3]) == ("It snowed. ", "Tale 12 of them drove on. ")
    assert story.text(long[-1]).endswith("Take 20 of it drove on. Take 21 of it drove on. ")
    story.undo()
    assert without_deleted(drafted(story)) == before


# -- which nodes are touched ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "end"),
    [  # the texts of the path before and after; at which node it ends, -1 for a new one
        (["The end. ", "abc def.", "ghi."], ["The end. ", "abc xyz def.", "ghi."], 2),  # inside a take
        (["One ", "two ", "three "], ["One x", "two ", "three "], 2),  # between: what a person wrote
        (["One ", "two ", "three "], ["One ", "two ", "x three "], 2),  # between two takes: the later
        (["One ", "two ", "three "], ["xOne ", "two ", "three "], 2),
        (["The cat. ", "The sun.", " Away."], ["The cat. The dog. ", "The sun.", " Away."], 2),
        (["One ", "two ", "three ", "four"], ["Ox", "", "ree ", "four"], 3),  # across nodes
        (["One ", "two ", "three ", "four"], ["O", "", "", "our"], 3),
        (["One ", "two ", "three "], ["One ", "two "], 1),  # the end of the text
        (["One ", "two ", "three "], ["One "], 0),
        (["One ", "two ", "three "], ["One ", "t"], 1),
        (["One ", "two ", "three "], ["One ", "two ", "thr"], 2),  # one node: it changes in place
        (["One ", "two ", "three. "], ["One ", "new words. "], -1),  # signs alone are not kept
        (["One ", "two ", "three "], ["One ", "two ", "x"], -1),
        (["One ", "two ", "three "], ["Ox"], -1),
        (["The fox. ", "They met at noon. ", "They ran. "], ["The fox. ", "That was soon. "], -1),
        (["One ", "他出去了。", "天黑了。"], ["One ", "他出", "来"], -1),
    ],
)  # fmt: skip
def test_the_nodes_that_change(story: Story, old: list[str], new: list[str], end: int) -> None:
    path = line(story, *old)
    before = drafted(story)
    assert story.set_text("".join(new)) == story.current
    assert texts(story) == new
    assert story.current == path[end] if end >= 0 else story.current not in path
    story.undo()
    assert unnumbered(without_deleted(drafted(story)).nodes) == unnumbered(before.nodes)
    assert story.current == path[-1]
    story.redo()
    assert texts(story) == new


def test_a_node_that_is_being_written_takes_no_words(story: Story) -> None:
    story.append("One ")
    [name] = story.begin_branches(story.current, 1, vocab="v")
    story.stream(name, "two three", [3])
    story.visit(name)
    before = drafted(story)
    for text in ("One two thee", "One two three four"):
        with pytest.raises(Refused, match="still being written"):
            story.set_text(text)
    assert drafted(story) == before
    story.set_text("Ones two three")
    assert texts(story) == ["Ones ", "two three"]


# -- actions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [["One tw", "One twi", "One twic", "One twice"], ["On", "Onw", "Onward"]])
def test_typing_on_is_one_action_in_a_take_and_over_several_nodes(story: Story, texts: list[str]) -> None:
    line(story, "One ", "two ", "three ", "four ")
    before = drafted(story)
    for text in texts:
        story.set_text(f"{text} four ")
    assert story.text(story.current) == f"{texts[-1]} four "
    after = drafted(story)
    story.undo()
    assert drafted(story) == before
    story.redo()
    assert drafted(story) == after


def test_what_is_typed_and_taken_back_leaves_nothing(story: Story) -> None:
    line(story, "One ", "two ", "three ")
    before, text = drafted(story), story.text(story.current)
    story.set_text("One twoo three ")
    story.set_text(text)
    assert drafted(story) == before
    assert story.today().typed == 1
    action = story.undo()
    assert action is not None and action.verb == "pick"


def test_an_edit_is_one_action_with_its_words(story: Story) -> None:
    line(story, "One ", "two ", "three ", "four ")
    assert (story.today().typed, story.today().picked) == (1, 3)
    story.set_text("One and another four ")
    assert story.today().words == 4
    story.undo()
    assert (story.today().typed, story.today().picked) == (1, 3)


# -- the plug is pulled --------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks")
def test_a_kill_at_any_statement_or_write_leaves_the_story_before_or_after(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.story.crash_edits", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    edits = json.loads(done.stdout)
    assert len(edits) == 4
    for edit, seen in edits.items():
        assert (seen["neither"], seen["problems"]) == (0, []), edit
        assert seen["before"] > 5, (edit, seen)  # there are so many statements and writes to die at
        assert seen["after"] >= 4, (edit, seen)  # once for every way to die, and after the last write
