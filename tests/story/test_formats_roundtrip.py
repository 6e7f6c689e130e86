"""Export and import again: without loss in our own format, text and structure in the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import Story, formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import (
    DraftNode,
    Generation,
    LoreEntry,
    Marks,
    Settings,
    Span,
    StoryDraft,
    Template,
    check_draft,
    path_to,
)
from tests.story.format_files import Shape, changed, read_json, rejects, shape, without

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["\\<", "<b>", "[x]", "\\\\[", " \n "]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)
AUTHORS = st.sampled_from(["writer", "model", "edited", "imported"])
OPTIONAL_COUNT = st.none() | st.integers(0, 99)

SPANS = st.lists(
    st.builds(
        Span,
        text=TEXTS,
        author=AUTHORS,
        ids=st.lists(st.integers(0, 200_000), max_size=3).map(tuple),
        vocab=TEXTS,
        logprobs=st.lists(st.none() | FLOATS, max_size=3).map(tuple),
        lead=TEXTS,
    ),
    max_size=2,
)
LORE = st.builds(
    LoreEntry,
    id=TEXTS,
    name=TEXTS,
    text=TEXTS,
    keys=st.lists(TEXTS, max_size=2),
    enabled=st.booleans(),
    constant=st.booleans(),
    depth=OPTIONAL_COUNT,
    order=st.integers(-9, 9),
    meta=OBJECTS,
)
SETTINGS = st.builds(
    Settings,
    memory=st.none() | TEXTS,
    author_note=st.none() | TEXTS,
    author_note_depth=OPTIONAL_COUNT,
    lore=st.lists(LORE, max_size=2),
    lore_budget=OPTIONAL_COUNT,
    scan_depth=OPTIONAL_COUNT,
    template=st.none() | st.builds(Template, name=TEXTS, before=TEXTS, between=TEXTS, after=TEXTS),
    sampling=OBJECTS,
)
MARKS = st.builds(
    Marks,
    bookmark=st.booleans(),
    tags=st.lists(TEXTS, max_size=2).map(tuple),
    note=TEXTS,
    chapter=st.booleans(),
    title=TEXTS,
    visited=st.booleans(),
    deleted=st.booleans(),
)
GENERATION = st.builds(
    Generation, seed=st.none() | st.integers(0, 2**64 - 1), sampling=OBJECTS, model=TEXTS, finish_reason=TEXTS
)


@st.composite
def drafts(draw: st.DrawFn) -> StoryDraft:
    nodes = [DraftNode("0", settings=draw(SETTINGS), marks=draw(MARKS), meta=draw(OBJECTS))]
    for index in range(1, draw(st.integers(1, 6))):
        spans = draw(SPANS)
        node = DraftNode(
            str(index),
            str(draw(st.integers(0, index - 1))),
            index,
            text="".join(span.text for span in spans) if spans else draw(TEXTS),
            author=draw(AUTHORS),
            spans=spans,
            generation=draw(st.none() | GENERATION),
            marks=draw(MARKS),
            settings=draw(SETTINGS) if draw(st.booleans()) else Settings(),
            created=draw(st.none() | FLOATS),
            meta=draw(OBJECTS),
        )
        nodes.append(node)
    return StoryDraft(
        nodes,
        draw(st.sampled_from(nodes)).id,
        title=draw(TEXTS),
        byline=draw(TEXTS),
        language=draw(TEXTS),
        created=draw(st.none() | FLOATS),
        modified=draw(st.none() | FLOATS),
        meta=draw(OBJECTS),
    )


@st.composite
def trees(draw: st.DrawFn) -> StoryDraft:
    """Trees as other programs can hold them: texts, structure, simple marks."""
    nodes = [DraftNode("root", text=draw(TEXTS))]
    for index in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from(nodes))
        marks = Marks(bookmark=draw(st.booleans()), visited=draw(st.booleans()))
        nodes.append(DraftNode(f"n{index}", parent.id, index, draw(TEXTS), draw(AUTHORS), marks=marks))
    return StoryDraft(nodes, draw(st.sampled_from(nodes)).id)


@settings(max_examples=25, deadline=None)
@given(draft=drafts())
def test_our_own_format_loses_nothing(draft: StoryDraft) -> None:
    check_draft(draft)
    assert formats.read(formats.write(draft, "srbwriter"), "a.json") == draft


@settings(max_examples=37, deadline=None)
@given(draft=trees())
def test_trees_come_back_with_text_structure_marks_and_place(draft: StoryDraft) -> None:
    again = formats.read(formats.write(draft, "loom"), "a.json")
    assert shape(again) == shape(draft)
    assert again.current_id == draft.current_id
    before = {node.id: (node.text, node.marks) for node in draft.nodes}
    assert {node.id: (node.text, node.marks) for node in again.nodes} == before


@settings(max_examples=37, deadline=None)
@given(draft=trees())
def test_a_mikupad_session_comes_back_as_the_same_chain(draft: StoryDraft) -> None:
    again = formats.read(formats.write(draft, "mikupad"), "a.json")
    chain: Shape = ("", [])
    here = chain
    for node in path_to(draft, draft.current_id):
        if node.text:
            below: Shape = (node.text, [])
            here[1].append(below)
            here = below
    assert shape(again) == chain
    written = [node.author == "model" for node in path_to(draft, draft.current_id) if node.text]
    assert [node.author == "model" for node in again.nodes[1:]] == written


@settings(max_examples=25, deadline=None)
@given(draft=drafts(), name=st.sampled_from([form.name for form in formats.FORMATS if form.can_export]))
def test_any_story_can_be_written_in_any_format(draft: StoryDraft, name: str) -> None:
    data = formats.write(draft, name)
    if formats.by_name(name).can_import and name not in ("text", "markdown"):
        assert formats.detect(data).name == name


def own(**changes: Any) -> Any:
    draft = StoryDraft(
        [DraftNode("r"), DraftNode("a", "r", text="x", spans=[Span("x", "model", (1,), "v")])], "a"
    )
    return {**json.loads(formats.write(draft, "srbwriter")), **changes}


def test_broken_files_of_our_own() -> None:
    rejects(own(version=3), "version", "a newer program")
    rejects(own(version="1"), "version", "1 to 2")
    rejects(without(own(), "story"), "the top level", "required field `story`")
    rejects(changed(own(), 3, "story", "nodes", 1, "text"), "story.nodes.1.text", "`str`")
    rejects(changed(own(), "x", "story", "nodes", 1, "author"), "story.nodes.1.author", "'x'")
    rejects(
        changed(own(), "zz", "story", "nodes", 1, "parent_id"), "story.nodes", "'zz' does not come before"
    )
    rejects(changed(own(), "zz", "story", "current_id"), "story.nodes", "current node")
    rejects(changed(own(), "y", "story", "nodes", 1, "text"), "story.nodes", "runs do not join")
    rejects(changed(own(), [], "story", "nodes"), "story.nodes", "at least a root")
    rejects(changed(own(), "r", "story", "nodes", 1, "id"), "story.nodes", "twice")
    rejects(changed(own(), None, "story", "nodes", 1, "parent_id"), "story.nodes", "only the first")


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("order", "order", 2**63),
        ("number", "number", 2**70),
        ("generation", "generation.seed", {"seed": 2**64}),
    ],
)
def test_numbers_that_no_story_can_keep_are_refused_by_their_place(
    field: str, place: str, value: object
) -> None:
    rejects(changed(own(), value, "story", "nodes", 1, field), f"story.nodes.1.{place}", "number from ")


def test_tokens_that_no_vocabulary_has_cost_the_tokens_and_not_the_text(tmp_path: Path) -> None:
    draft = read_json(changed(own(), [2**40], "story", "nodes", 1, "runs", 0, "tokens"))
    with Story.from_draft(tmp_path / "a.srbw", draft) as made:
        assert made.node(made.current).spans == (Span("x", "model"),)


def test_half_surrogates_in_our_own_files_are_refused() -> None:
    data = json.dumps(own()).replace('"x"', r'"\ud83d"').encode()
    with pytest.raises(FormatError, match="what the format says"):
        formats.read(data, "a")


def test_siblings_keep_their_order() -> None:
    nodes = [DraftNode("r"), *(DraftNode(f"n{i}", "r", 9 - i, text=str(i)) for i in range(9))]
    again = formats.read(formats.write(StoryDraft(nodes, "r"), "loom"), "a")
    assert [child[0] for child in shape(again)[1]] == [str(i) for i in reversed(range(9))]
