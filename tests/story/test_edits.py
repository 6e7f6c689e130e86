"""Changing the text of a story: what is touched changes in place, and everything else stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import Edit, Refused, Story
from srbwriter.story.model import NodeId
from tests.story.branches import generated, readable, set_text, sizes


def line(story: Story, *texts: str) -> list[NodeId]:
    """An opening by the writer and takes of the model after it, each picked from two; the path's nodes."""
    story.token_sizes = sizes
    story.append(texts[0])
    for text in texts[1:]:
        take, _ = generated(story, story.current, text, " Other words.")
        story.pick(take)
    story.end_typing()
    return story.path(story.current)[1:]


def texts(story: Story) -> list[str]:
    return [node.text for node in story.nodes(story.path(story.current)[1:])]


# -- a fix deep in the story ---------------------------------------------------------------------------


@pytest.fixture
def long(story: Story) -> list[NodeId]:
    """Thirteen nodes with marks on some of them."""
    path = line(story, "It rained. ", *(f"Take {number} of it drove on. " for number in range(10, 22)))
    for number in (2, 6, 10):
        story.mark(path[number], bookmark=True)
    return path


def test_fixes_in_several_places_and_a_new_end_are_one_edit(long: list[NodeId], story: Story) -> None:
    before, text = readable(story), story.text(story.current)
    fix, rest = text.index("12 of it"), text.index("Take 19")
    story.replace(
        Edit(3, 9, "snowed"),
        Edit(fix, fix + 2, "twelve"),
        Edit(rest, len(text), "The rest is another story."),
    )
    assert len(story.path(story.current)) == 12
    assert texts(story)[-2:] == ["Take 18 of it drove on. ", "The rest is another story."]
    assert (texts(story)[0], texts(story)[3]) == ("It snowed. ", "Take twelve of it drove on. ")
    assert story.text(long[-1]).endswith("Take 20 of it drove on. Take 21 of it drove on. ")
    story.undo()
    assert readable(story) == before


def test_branches_begun_below_an_edit_keep_its_text_when_it_is_undone(story: Story) -> None:
    path = line(story, "It rained. ", "He ran. ", "She hid. ")
    story.replace(Edit(11, 13, "We"), Edit(19, 22, "They"))
    [late] = generated(story, story.current, "All slept.")
    story.undo()
    assert story.is_living(late)
    assert story.text(late) == "It rained. We ran. They hid. All slept."
    assert story.path(story.current)[1:] == path
    assert texts(story) == ["It rained. ", "He ran. ", "She hid. "]
    story.redo()
    assert story.path(late)[:-1] == story.path(story.current)
    story.undo()
    assert story.text(late) == "It rained. We ran. They hid. All slept." and story.is_living(late)


def test_words_are_put_behind_an_end_that_is_cut_off(story: Story) -> None:
    line(story, "One ", "two ")
    story.replace(Edit(4, 8, ""), Edit(8, 8, "three"))
    assert story.text(story.current) == "One three"
    story.undo()
    assert texts(story) == ["One ", "two "]


# -- which nodes are touched ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [  # the texts of the path before and after
        (["The end. ", "abc def.", "ghi."], ["The end. ", "abc xyz def.", "ghi."]),  # inside a take
        (["One ", "two ", "three "], ["One x", "two ", "three "]),  # between: what a person wrote
        (["One ", "two ", "three "], ["One ", "two ", "x three "]),  # between two takes: the later
        (["One ", "two ", "three "], ["xOne ", "two ", "three "]),
        (["One ", "two ", "three ", "four"], ["Oxree ", "four"]),  # across nodes: one in their place
        (["One ", "two ", "three ", "four"], ["Oour"]),
        (["One ", "two ", "three "], ["One ", "two "]),  # the end of the text
        (["One ", "two ", "three "], ["One "]),
        (["One ", "two ", "three "], ["One ", "t"]),
        (["One ", "two ", "three "], ["One ", "two ", "thr"]),  # one node: it changes in place
        (["One ", "two ", "three. "], ["One ", "new words. "]),
        (["One ", "two ", "three "], ["One ", "two ", "x"]),
        (["One ", "two ", "three "], ["Ox"]),
        (["The fox. ", "They met at noon. ", "They ran. "], ["The fox. ", "That was soon. "]),
        (["One ", "他出去了。", "天黑了。"], ["One ", "他出来"]),
    ],
)  # fmt: skip
def test_the_nodes_that_change(story: Story, old: list[str], new: list[str]) -> None:
    path = line(story, *old)
    before = readable(story)
    assert set_text(story, "".join(new)) == story.current
    assert texts(story) == new
    story.undo()
    assert readable(story) == before
    assert story.current == path[-1]
    story.redo()
    assert texts(story) == new


def test_a_node_that_is_being_written_takes_no_words(story: Story) -> None:
    story.append("One ")
    name = story.begin_branch(story.current, vocab="v")
    story.stream(name, "two three", [3])
    story.visit(name)
    before = readable(story)
    for text in ("One two thee", "One two three four"):
        with pytest.raises(Refused, match="still being written"):
            set_text(story, text)
    assert readable(story) == before
    set_text(story, "Ones two three")
    assert texts(story) == ["Ones ", "two three"]


# -- actions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [["One tw", "One twi", "One twic", "One twice"], ["On", "Onw", "Onward"]])
def test_typing_on_is_one_action_in_a_take_and_over_several_nodes(story: Story, texts: list[str]) -> None:
    line(story, "One ", "two ", "three ", "four ")
    before = readable(story)
    for text in texts:
        set_text(story, f"{text} four ")
    assert story.text(story.current) == f"{texts[-1]} four "
    after = readable(story)
    story.undo()
    assert readable(story) == before
    story.redo()
    assert readable(story) == after


def test_what_is_typed_and_taken_back_leaves_nothing(story: Story) -> None:
    line(story, "One ", "two ", "three ")
    before, text = readable(story), story.text(story.current)
    set_text(story, "One o two three ")
    assert story.today().words == 4
    set_text(story, text)
    assert readable(story) == before
    assert story.today().words == 3 and story.redo() is None
    action = story.undo()
    assert action is not None and action.verb == "pick"


def test_an_edit_is_one_action_with_its_words(story: Story) -> None:
    line(story, "One ", "two ", "three ", "four ")
    assert story.today().words == 4
    set_text(story, "One and another four ")
    assert story.today().words == 4
    story.undo()
    assert story.today().words == 4


def test_keystrokes_that_were_taken_back_at_once_change_no_action_before(story: Story) -> None:
    story.append("It rained.")
    story.end_typing()
    story.replace(Edit(2, 2, " never"))
    story.end_typing()
    end = story.chars(story.current)
    story.append("a")
    story.replace(Edit(end, end + 1, ""))
    story.append("b")
    for text in ("It never rained.", "It rained.", ""):
        story.undo()
        assert story.text(story.current) == text


def test_keystrokes_can_be_taken_back_in_a_story_that_has_no_action(written: Path) -> None:
    with Story.open(written) as opened:
        draft = opened.draft()
    with Story.from_draft(written.with_name("imported.srbw"), draft) as story:
        end = story.chars(story.current)
        for edit in (Edit(end, end, "a"), Edit(end, end + 1, ""), Edit(end, end, "b")):
            story.replace(edit)
        assert story.text(story.current)[end:] == "b"
