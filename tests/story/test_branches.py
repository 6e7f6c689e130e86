"""Branches in work: taking from them, typing into them, rolling them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.story import ROOT, Refused, Story
from tests.story.branches import generated

# -- taking --------------------------------------------------------------------------------------------


def test_taking_from_a_running_branch_lets_it_run_on(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1, vocab="v")
    story.stream(name, "He ran. She", [1, 2])
    story.pick(name, len("He ran."))
    story.stream(name, " hid.", [3])
    rest = story.target(name)
    assert rest != name
    assert (story.node(name).text, story.text(rest)) == ("He ran.", "He ran. She hid.")
    story.undo()
    story.stream(name, " They met.", [4])
    assert story.target(name) == name
    story.finish(name, "length")
    node = story.node(name)
    assert node.text == "He ran. She hid. They met."
    assert node.spans[0].ids == (1, 2, 3, 4)
    story.redo()
    assert story.text(rest) == "He ran. She hid. They met."


def test_a_pick_beyond_the_end_is_refused(story: Story) -> None:
    [branch] = generated(story, ROOT, "abc")
    for at in (0, 4, -1):
        with pytest.raises(Refused, match="3 characters"):
            story.pick(branch, at)
    assert story.undo() is None


# -- streams -------------------------------------------------------------------------------------------


def test_a_reroll_keeps_the_old_take(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1, model="m", vocab="v", sampling={"top_k": 3}, seeds=[7])
    story.stream(name, "first", [1])
    new = story.replace_stream(name)
    story.stream(new, "second", [2])
    story.finish(new, "length")
    assert [story.node(n).text for n in story.children(ROOT)] == ["first", "second"]
    assert story.node(name).finish_reason == "replaced"
    assert story.node(new).sampling == {"top_k": 3}
    with pytest.raises(Refused):
        story.stream(name, "x")


def test_a_rewind_never_takes_back_what_was_picked(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1, vocab="v")
    story.stream(name, "One. Two", [1, 2])
    story.pick(name, len("One."))
    new = story.replace_stream(name, "O", [8])
    assert new != name
    assert story.text(story.current) == "One."
    assert story.text(new) == "O"


def test_nothing_hangs_below_a_running_branch(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1)
    story.stream(name, "abc")
    for verb in (
        lambda: story.begin_branches(name, 1),
        lambda: story.append("x", name),
        lambda: story.add(name, ["x"]),
        lambda: story.edit(name, "x"),
    ):
        with pytest.raises(Refused, match="being written"):
            verb()


def test_logprobs_must_fit(story: Story) -> None:
    [name] = story.begin_branches(ROOT, 1)
    with pytest.raises(ValueError, match="2 ids and 1 logprobs"):
        story.stream(name, "ab", [1, 2], [-1.0])
    with pytest.raises(ValueError, match="branches"):
        story.begin_branches(ROOT, 2, seeds=[1])


def test_everything_about_a_branch_is_kept(story: Story, tmp_path: Path) -> None:
    [name] = story.begin_branches(ROOT, 1, model="m.gguf", vocab="v", sampling={"min_p": 0.1}, seeds=[42])
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
    assert not node.streaming
    assert not node.marks.visited


def test_every_seed_that_may_be_asked_for_is_kept(story: Story) -> None:
    seeds = [0, 2**63 - 1, 2**63, 2**64 - 1]
    names = story.begin_branches(ROOT, 4, seeds=seeds)
    for name in names:
        story.stream(name, " and")
    story.close()
    with Story.open(story.file) as again:
        assert [again.node(name).seed for name in names] == seeds


def test_tokens_that_no_vocabulary_has_cost_no_word(story: Story) -> None:
    [branch] = story.begin_branches(ROOT, 1, vocab="v")
    story.stream(branch, "He ran.", [7])
    story.stream(branch, " She hid.", [2**40], [-0.5])
    story.finish(branch, "stop")
    assert story.text(branch) == "He ran. She hid."
    assert story.node(branch).spans[0].ids == (7,)
