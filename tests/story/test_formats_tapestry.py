"""Tapestry Loom: weaves of the program, notes of the plugin before it, and what neither can be read from."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import StoryDraft, check_draft, foreign
from tests.sizes import examples
from tests.story.format_files import FIXTURES, by_id, changed, path_text, shape, without
from tests.story.tapestry_file import IDS, PLUGIN, WEAVE, encode, id_bytes, note

TREE = ("The ferry was late", [(".", []), (", as ", [("\u00e9", []), ("\ufffd", [])])])


def read(weave: dict[str, Any]) -> StoryDraft:
    return formats.read(encode(weave), "a.tapestry")


def test_the_example_is_what_the_writer_of_weaves_makes() -> None:
    assert (FIXTURES / "weave.tapestry").read_bytes() == encode(WEAVE)
    assert (FIXTURES / "tapestry_note.md").read_bytes() == note(PLUGIN)
    assert (FIXTURES / "tapestry_compressed.md").read_bytes() == note(PLUGIN, compressed=True)


def test_a_weave_has_text_structure_and_place() -> None:
    draft = read(WEAVE)
    assert shape(draft) == TREE
    assert path_text(draft) == "The ferry was late, as \u00e9"
    assert (draft.title, draft.root.marks.note) == ("The crossing", "Begun on the boat.")
    assert draft.created == 1765787856
    assert draft.meta.get("notices") is None


def test_a_weave_has_authors_models_and_marks() -> None:
    draft = read(WEAVE)
    written = by_id(draft, IDS[1])
    assert (written.author, draft.root.author) == ("model", "writer")
    assert written.generation and (written.generation.model, written.generation.finish_reason) == (
        "Trinity Mini 26B", "length"
    )  # fmt: skip
    assert [node.id for node in draft.nodes if node.marks.bookmark] == [IDS[1], IDS[3]]
    assert draft.root.created == 1765787889.617, "the id says when"
    kept = foreign(written.meta, "tapestry")
    assert kept["metadata"] == {"temperature": "1"}
    assert kept["model"] == {"metadata": {"color": "#ff9b5aff"}}
    assert kept["tokens"] == [
        {"text": ", a", "probability": "0.5", "token_id": "261"}, {"base64": "cyDD", "probability": "0.25"}
    ]  # fmt: skip
    assert foreign(draft.meta, "tapestry") == {
        "bookmarks": [IDS[3], IDS[1]], "metadata": {"converted_from": "PyLoom"}
    }  # fmt: skip


def test_a_character_that_begins_in_one_node_is_whole_in_those_below() -> None:
    draft = read(WEAVE)
    assert foreign(by_id(draft, IDS[1]).meta, "tapestry")["base64"], "the bytes as they were"
    assert by_id(draft, IDS[3]).text == "\u00e9"
    assert by_id(draft, IDS[4]).text == "\ufffd", "it never ends there"


def test_a_newer_version_is_refused_with_what_can_be_done() -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(encode(WEAVE, version=1), "new.tapestry")
    assert "Tapestry Loom" in str(caught.value)
    assert "this is version 1" in str(caught.value)
    assert "copy the text of its editor into a file, and import that" in str(caught.value)


def test_a_weave_without_nodes_is_an_empty_story() -> None:
    empty = {"nodes": [], "roots": [], "active": None, "bookmarks": [], "metadata": {}}
    assert shape(read(empty)) == ("", [])


def test_what_is_broken_in_a_weave_is_told_and_the_rest_is_read() -> None:
    draft = read(changed(WEAVE, IDS[6], "nodes", 1, "parent"))
    assert (
        f"node {IDS[1]}: its parent {IDS[6]!r} is not in the file; it is put at the top"
        in draft.meta["notices"]
    )
    assert shape(draft)[1][0] == ("The ferry was late", [(".", [])])
    draft = read(changed(WEAVE, IDS[3], "nodes", 1, "parent"))
    assert any("its own ancestor" in words for words in draft.meta["notices"])
    draft = read(changed(WEAVE, IDS[1], "nodes", 2, "id"))
    assert any("occurs twice" in words for words in draft.meta["notices"])
    assert len(draft.nodes) == 5


def test_a_node_that_cannot_be_read_is_left_out() -> None:
    data = bytearray(encode(without(WEAVE, "nodes", 2)))
    key = id_bytes(IDS[3])
    data[data.index(key * 2) + 16 + 64] = 7  # neither active nor not: behind the key and the id
    draft = formats.read(bytes(data), "a.tapestry")
    assert re.fullmatch(r"byte \d+: left out a node; expected a flag, 0 or 1", *draft.meta["notices"])
    assert shape(draft) == ("The ferry was late", [(", as ", [("\ufffd", [])])])
    assert draft.current_id == IDS[4]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_damaged_weave_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(encode(WEAVE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(24, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(whole), len(whole), data.draw(st.integers(0, len(whole)))]))
    try:
        draft = formats.read(bytes(whole[:cut]), "x")
    except FormatError as error:
        assert error.place and error.expected
        return
    check_draft(draft)
    formats.write(draft, "srbwriter")


TEXTS = st.text(st.characters(codec="utf-8"), max_size=90)


@st.composite
def weaves(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(
        st.lists(
            st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=25, max_size=25),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    nodes: list[dict[str, Any]] = []
    for index, one in enumerate(ids):
        parent = draw(st.sampled_from(nodes)) if index else None
        node = {
            "id": f"0{one}", "parent": parent and parent["id"], "children": [], "active": False,
            "bookmarked": draw(st.booleans()), "text": draw(TEXTS),
            "metadata": draw(st.dictionaries(TEXTS, TEXTS, max_size=2)), "model": None,
        }  # fmt: skip
        if parent:
            parent["children"].insert(draw(st.integers(0, len(parent["children"]))), node["id"])
        nodes.append(node)
    active = draw(st.sampled_from(nodes))
    active["active"] = True
    return {
        "nodes": draw(st.permutations(nodes)), "roots": [nodes[0]["id"]], "active": active["id"],
        "bookmarks": [node["id"] for node in nodes if node["bookmarked"]],
        "metadata": draw(st.dictionaries(TEXTS, TEXTS, max_size=2)),
    }  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(weaves())
def test_any_weave_comes_in_with_all_its_texts_in_their_order(weave: dict[str, Any]) -> None:
    by_name = {node["id"]: node for node in weave["nodes"]}

    def below(node: dict[str, Any]) -> Any:
        return node["text"], [below(by_name[child]) for child in node["children"]]

    draft = read(weave)
    assert shape(draft) == below(by_name[weave["roots"][0]])
    assert draft.current_id == weave["active"]
    assert {node.id for node in draft.nodes if node.marks.bookmark} == set(weave["bookmarks"])
    for node in draft.nodes:
        said = {**foreign(node.meta, "tapestry").get("metadata", {})}
        assert said == by_name[node.id]["metadata"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_note_of_the_plugin_has_its_tree_in_the_front_matter(compressed: bool) -> None:
    data = note(PLUGIN, compressed=compressed)
    assert formats.detect(data).name == "tapestry"
    draft = formats.read(data, "note.md")
    assert shape(draft) == ("Once (upon", [(" a </b>", []), (' a "time"', [])])
    assert path_text(draft) == 'Once (upon a "time"'
    written = by_id(draft, "B")
    assert written.generation and written.generation.model == "base-8b"
    assert foreign(written.meta, "tapestry")["tokens"][0] == {"probability": 0.5, "text": " a"}
    assert by_id(draft, "C").marks.bookmark
    kept = foreign(draft.meta, "tapestry")
    assert kept["identifier"] == PLUGIN["identifier"]
    assert kept["models"] == {"unused": {"label": "other"}}
    assert kept["frontMatter"] == {"tags": "loom"}


def test_a_note_that_was_written_on_elsewhere_goes_on_where_it_leaves_the_tree() -> None:
    draft = formats.read(note(PLUGIN, "Once (upon the sea"), "note.md")
    assert path_text(draft) == "Once (upon the sea"
    assert shape(draft) == ("Once (upon", [(" a </b>", []), (' a "time"', []), (" the sea", [])])


def test_what_is_broken_in_a_note_is_told_and_the_rest_is_read() -> None:
    document = copy.deepcopy(PLUGIN)
    document["nodes"]["B"]["parentNode"] = "gone"
    document["nodes"]["C"]["content"] = None
    draft = formats.read(note(document), "note.md")
    places = [words.partition(":")[0] for words in draft.meta["notices"]]
    assert places == ["nodes.C.content", "node B"]
    with pytest.raises(FormatError, match="TapestryLoomWeave.*JSON"):
        formats.read(b'---\nTapestryLoomWeave: "{nodes"\n---\n', "note.md")
    with pytest.raises(FormatError, match="compressed weave in base64"):
        formats.read(b"---\nTapestryLoomWeaveCompressed: eJw=\n---\n", "note.md")
