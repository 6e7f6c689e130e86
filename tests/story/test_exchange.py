"""A story survives being a draft, and a draft being a story."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, Settings, State, Story
from srbwriter.story.draft import (
    DraftError,
    DraftNode,
    DraftRun,
    Generation,
    LoreEntry,
    Marks,
    StoryDraft,
)
from tests.story.branches import generated

TEXT = st.text("ab \n", max_size=8)


@st.composite
def draft_nodes(draw: st.DrawFn, number: int, names: list[str]) -> DraftNode:
    author = draw(st.sampled_from(["writer", "model", "edited", "imported"]))
    text = draw(TEXT) if number else ""
    runs = []
    if text and draw(st.booleans()):
        tokens = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
        runs = [DraftRun(text, author, tokens, "v", [-1.5] * len(tokens))]
    return DraftNode(
        id=names[number],
        parent_id=None if not number else names[draw(st.integers(0, number - 1))],
        order=number,
        text=text,
        author=author,
        runs=runs,
        generation=draw(st.none() | st.just(Generation(3, {"top_k": 5}, "m", "eog"))),
        marks=Marks(
            bookmark=draw(st.booleans()),
            tags=draw(st.lists(st.sampled_from(["x", "y z"]), unique=True)),
            rating=draw(st.integers(-1, 1)),
            note=draw(TEXT),
            visited=draw(st.booleans()),
            deleted=bool(number) and draw(st.booleans()),
        ),
        settings=Settings(memory=draw(st.none() | TEXT), lore=draw(st.just([]) | st.just([LoreEntry("1")]))),
        created=draw(st.none() | st.just(12.5)),
        meta=draw(st.just({}) | st.just({"foreign": {"loom": {"a": [1, None]}}})),
    )


@st.composite
def drafts(draw: st.DrawFn) -> StoryDraft:
    count = draw(st.integers(1, 7))
    names = draw(
        st.sampled_from([[str(n + 1) for n in range(7)], [f"id-{n}" for n in range(7)], list("9876543")])
    )
    nodes = [draw(draft_nodes(number, names)) for number in range(count)]
    if draw(st.booleans()) and len(nodes) > 1:
        nodes[0] = replace(nodes[0], text="A root with text.", runs=[])
    return StoryDraft(nodes, nodes[0].id, "Title", "By", "fr", 1.0, 2.0, {"kept": True})


def by_id(draft: StoryDraft) -> dict[str, DraftNode]:
    return {node.id: node for node in draft.nodes}


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(drafts())
def test_a_draft_comes_back_as_it_was(draft: StoryDraft) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.srbw"
        with Story.from_draft(path, draft) as story:
            again = story.to_draft()
        with Story.open(path) as story:
            assert story.to_draft() == again
    assert by_id(again) == by_id(draft)
    assert replace(again, nodes=[]) == replace(draft, nodes=[])


def test_a_story_comes_back_as_it_was(story: Story, tmp_path: Path) -> None:
    story.append("Once")
    one, two = generated(story, story.current, " upon a time.", " more.")
    story.pick(one, len(" upon a"))
    story.edit(two, " more!")
    story.mark(two, rating=1, tags=["t"], title="T", chapter=True)
    story.put_settings(ROOT, Settings(memory="m"))
    story.delete(two)
    draft = story.to_draft()
    with Story.from_draft(tmp_path / "t.srbw", draft) as again:
        assert again.to_draft() == draft
        for node in story.reading_order():
            assert (again.text(node), again.node(node)) == (story.text(node), story.node(node))
        assert again.current == story.current
        assert again.node(two).state is State.BINNED


def test_new_nodes_in_an_imported_story_get_names_of_their_own(tmp_path: Path) -> None:
    nodes = [DraftNode("9"), DraftNode("2", "9", text="a"), DraftNode("3", "2", text="b")]
    with Story.from_draft(tmp_path / "t.srbw", StoryDraft(nodes, "3")) as story:
        for number in range(12):
            story.add(ROOT, [str(number)])
        names = [node.id for node in story.to_draft().nodes]
    assert len(set(names)) == len(names) == 15


def test_a_draft_that_is_no_tree_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "t.srbw"
    with pytest.raises(DraftError):
        Story.from_draft(path, StoryDraft([DraftNode("1"), DraftNode("2", "3")], "1"))
    assert not path.exists()


def test_a_story_with_text_in_its_root_can_be_written(tmp_path: Path) -> None:
    nodes = [DraftNode("r", text="Once"), DraftNode("c", "r", text=" upon")]
    with Story.from_draft(tmp_path / "t.srbw", StoryDraft(nodes, "r")) as story:
        assert story.text(story.current) == "Once"
        story.edit(story.current, "Twice")
        [child] = story.children(story.current)
        assert story.text(child) == "Twice upon"
        assert [node.id for node in story.to_draft().nodes] == ["r", "c"]


def test_half_a_character_in_a_draft_does_not_stop_it(tmp_path: Path) -> None:
    bad = "\ud83d"
    run = DraftRun(f"a{bad}", "model", [1], "v", lead=bad)
    nodes = [
        DraftNode("1", settings=Settings(memory=bad), meta={bad: bad}),
        DraftNode(bad, "1", text=f"a{bad}", runs=[run]),
        DraftNode("3", "1", text=bad),
    ]
    with Story.from_draft(tmp_path / "t.srbw", StoryDraft(nodes, "1", title=bad)) as story:
        assert story.text(2) == "a\ufffd"
        assert story.node(2).runs[0].ids == (1,)
        assert story.settings(3).memory == bad
