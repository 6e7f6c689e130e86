"""Importers of tree programs: loom, Loomsidian, Exoloom, basemode-loom, logitloom."""

from __future__ import annotations

import json

import pytest

from srbwriter.story import formats
from srbwriter.story.draft import foreign
from tests.story.format_files import (
    by_text,
    changed,
    fixture_json,
    load,
    path_text,
    read_json,
    rejects,
    shape,
    without,
)


def test_loom_structure_text_and_place() -> None:
    draft = load("loom.json")
    assert shape(draft) == ("", [("The ferry was late", [(", as always.\n", []), (", and  the fog ", [])])])
    assert path_text(draft) == "The ferry was late, and  the fog "


def test_loom_marks_authors_and_generation() -> None:
    draft = load("loom.json")
    first, second, third = (by_text(draft, node.text) for node in draft.nodes[1:])
    assert (first.marks.bookmark, first.marks.tags) == (True, ["draft"])
    assert (first.marks.chapter, first.marks.title) == (True, "The crossing")
    assert first.created == 1683195072
    assert [node.author for node in (first, second, third)] == ["writer", "model", "edited"]
    assert (second.marks.visited, third.marks.visited) == (False, True)
    assert second.generation and third.generation
    assert (second.generation.model, second.generation.finish_reason) == ("davinci", "length")
    assert third.generation.finish_reason == "stop"


def test_loom_keeps_unknown_fields_and_writes_them_back() -> None:
    draft = load("loom.json")
    kept = foreign(draft.meta, "loom")
    assert kept["preferences"] == {"theme": "dark"}
    assert foreign(draft.nodes[1].meta, "loom")["text_attributes"]["active_append"] == "…"
    written = json.loads(formats.write(draft, "loom"))
    original = fixture_json("loom.json")
    assert written["preferences"] == original["preferences"]
    assert written["model_responses"] == original["model_responses"]
    assert written["tags"] == original["tags"]
    assert written["selected_node_id"] == "c"
    assert written["root"]["mutable"] is False
    node, source = written["root"]["children"][0], original["root"]["children"][0]
    assert node["text_attributes"] == source["text_attributes"]
    assert sorted(node["tags"]) == ["bookmark", "draft"]
    assert node["meta"] == source["meta"]
    assert node["children"][0]["generation"] == source["children"][0]["generation"]
    assert [chapter["root_id"] for chapter in written["chapters"].values()] == ["a"]
    assert written["chapters"][node["chapter_id"]]["root_id"] == "a"


def test_loom_memory_is_the_global_context() -> None:
    draft = load("loom.json")
    assert draft.root.settings.memory == "A harbour."
    assert by_text(draft, ", as always.\n").settings.memory == "Another."
    frames = json.loads(formats.write(draft, "loom"))["root"]
    assert frames["frame"]["generation_settings"]["global_context"] == "A harbour."
    inner = frames["children"][0]["children"][0]["frame"]["generation_settings"]
    assert inner == {"temperature": 0.7, "global_context": "Another."}


def test_every_tag_on_a_loom_node_is_defined() -> None:
    draft = load("loom_old.json")
    assert by_text(draft, " again").marks.tags == ["archived"]
    written = json.loads(formats.write(draft, "loom"))
    assert written["tags"]["archived"]["scope"] == "node"


def test_old_and_simple_loom_files_and_lines() -> None:
    assert shape(load("loom_old.json")) == ("Once", [(" upon", []), (" again", [])])
    assert by_text(load("loom_old.json"), " upon").marks.bookmark
    assert shape(load("loom_simple.json")) == ("Once", [(" upon", []), (" again", [("!", [])])])
    assert path_text(load("loom.jsonl")) == "Once upon"


def test_broken_loom_files() -> None:
    value = fixture_json("loom.json")
    child = ("root", "children", 0)
    rejects(changed(value, 3, *child, "text"), "root.children[0].text", "a text")
    rejects(changed(value, "x", *child), "root.children[0]", "an object")
    rejects(changed(value, {}, *child, "children"), "root.children[0].children", "a list")
    rejects(changed(value, "a", *child, "children", 1, "id"), "root.children[0].children[1]", "occurs twice")
    rejects(changed(value, ["x"], "chapters", "c1"), "chapters.c1", "an object")
    with pytest.raises(formats.FormatError, match="line 3.*a parent"):
        formats.read(b'{"id":1,"text":"","parent_id":null}\n\n{"id":2,"text":"","parent_id":9}', "x")
    with pytest.raises(formats.FormatError, match="line 2.id: expected an id"):
        formats.read(b'{"id":1,"text":"","parent_id":null}\n{"text":"","parent_id":1}', "x")


def test_loomsidian_structure_marks_and_escapes() -> None:
    draft = load("loomsidian.json")
    assert shape(draft) == ("It was <late>", [(" a [note]", []), (" and cold", [])])
    assert draft.current_id == "n3"
    node = by_text(draft, " a [note]")
    assert (node.marks.bookmark, node.marks.visited) == (True, False)
    assert foreign(node.meta, "loomsidian")["lastVisited"] == 1680000000000
    assert foreign(draft.root.meta, "loomsidian")["collapsed"] is True


def test_loomsidian_is_written_with_its_own_fields_back() -> None:
    written = json.loads(formats.write(load("loomsidian.json"), "loomsidian"))
    original = fixture_json("loomsidian.json")
    assert written["current"] == original["current"]
    assert written["hoisted"] == original["hoisted"]
    for node_id, node in original["nodes"].items():
        text = written["nodes"][node_id].pop("text")
        assert text.replace("\\", "") == node.pop("text").replace("\\", "")
        assert written["nodes"][node_id] == node


def test_loomsidian_data_of_several_notes_hangs_below_an_empty_root() -> None:
    draft = load("loomsidian_data.json")
    assert shape(draft) == ("", [("Ferry", [(" one", [])]), ("Mill", [])])
    assert by_text(draft, "Mill").marks.title == "Tales/mill.md"
    assert path_text(draft) == "Ferry one"
    assert foreign(draft.meta, "loomsidian")["settings"]["n"] == 5


def test_loomsidian_data_of_one_note_is_that_note() -> None:
    draft = read_json(without(fixture_json("loomsidian_data.json"), "state", "Tales/mill.md"))
    assert shape(draft) == ("Ferry", [(" one", [])])
    assert draft.title == "Tales/ferry"


def test_loomsidian_list_of_nodes_with_values_and_authors() -> None:
    draft = load("loomsidian_list.json")
    assert path_text(draft) == "It was"
    assert [node.author for node in draft.nodes] == ["writer", "model"]


def test_broken_loomsidian_files() -> None:
    value = fixture_json("loomsidian.json")
    rejects(changed(value, 5, "nodes", "n1", "text"), "nodes.n1.text", "a text")
    rejects(changed(value, "n9", "nodes", "n2", "parentId"), "nodes.n2", "'n9' is not there")
    rejects(changed(value, ["x"], "nodes", "n2", "parentId"), "nodes.n2.parentId", "the id")
    rejects(changed(value, "n2", "nodes", "n1", "parentId"), "nodes.n3", "its own ancestor")
    rejects(changed(value, [1], "nodes"), "nodes[0]", "an object")
    rejects(without(fixture_json("loomsidian_list.json"), "nodes", 1, "id"), "nodes[1].id", "an id")
    rejects(changed(fixture_json("loomsidian_data.json"), 1, "state", "Tales/mill.md"), "state.Tales/mill.md")


def test_exoloom() -> None:
    draft = load("exoloom.json")
    assert shape(draft) == ("The mill", [(" fell", []), (" stood", [])])
    assert (draft.title, draft.created) == ("The mill", 1738555506)
    stood, fell = by_text(draft, " stood"), by_text(draft, " fell")
    assert stood.marks.bookmark and fell.marks.deleted
    assert stood.generation and stood.generation.model == "base-8b"
    assert draft.root.author == "writer" and draft.root.created == 1700000000
    assert foreign(draft.root.meta, "exoloom") == {"authorName": "Ada"}
    assert foreign(draft.meta, "exoloom") == {"version": "0.4", "description": "a test"}
    assert path_text(draft) == "The mill stood", "a pruned branch is not where one begins"


def test_broken_exoloom_files() -> None:
    value = fixture_json("exoloom.json")
    rejects(changed(value, 2, "schemaVersion"), "schemaVersion", "1, the only schema")
    rejects(without(value, "tree"), "tree", "an object")
    rejects(changed(value, [], "tree", "nodes"), "tree.nodes", "an object")
    rejects(without(value, "tree", "nodes", "2", "content"), "tree.nodes.2.content", "a text")
    rejects(changed(value, 8, "tree", "nodes", "2", "parentId"), "tree.nodes.2", "'8' is not there")
    rejects(changed(value, 9, "tree", "rootNodeId"), "tree.rootNodeId", "the id of a node")
    rejects(changed(value, 3, "tree", "nodes", "1", "parentId"), "tree.nodes.3", "own ancestor")


def test_basemode_loom() -> None:
    draft = load("basemode.json")
    assert shape(draft) == ("The sea", [(" was", []), (" is", [])])
    was, other = by_text(draft, " was"), by_text(draft, " is")
    assert (was.marks.rating, other.marks.rating) == (-1, 1)
    assert other.marks.bookmark and other.marks.tags == ["hidden"]
    assert (draft.root.author, was.author) == ("writer", "model")
    assert foreign(other.meta, "basemode-loom")["metadata"] == {"colour": "red"}
    assert foreign(draft.meta, "basemode-loom") == {"version": 3}


def test_broken_basemode_files() -> None:
    value = fixture_json("basemode.json")
    rejects(changed(value, None, "nodes", 1, "id"), "nodes[1].id", "an id")
    rejects(changed(value, None, "nodes", 2, "text"), "nodes[2].text", "a text")
    rejects(changed(value, "t2", "nodes", 1, "id"), "nodes[1]", "occurs twice")
    rejects(changed(value, "zz", "nodes", 1, "parent_id"), "nodes[1]", "'zz' is not there")
    rejects(changed(value, 7, "nodes", 1), "nodes[1]", "an object")


def test_logitloom_joins_tokens_up_to_the_fork() -> None:
    draft = load("logitloom.json")
    assert shape(draft) == ("The sea", [(" was grey", [(".", []), (" and", [])]), (" is", [])])
    joined = by_text(draft, " was grey")
    tokens = foreign(joined.meta, "logitloom")["tokens"]
    assert [(token["text"], token["logprob"]) for token in tokens] == [(" was", -0.5), (" grey", -1.0)]
    generation = by_text(draft, ".").generation
    assert generation and (generation.model, generation.finish_reason) == ("base-8b", "stop")
    assert foreign(draft.meta, "logitloom")["modelSettings"] == {"kind": "base", "maxTokens": 5}


def test_a_logitloom_chat_puts_the_instructions_into_the_memory() -> None:
    chat = {"kind": "chat", "systemPrompt": "Be brief.", "prompt": "Write.", "prefill": "Sea:"}
    draft = read_json(changed(fixture_json("logitloom.json"), chat, "modelSettings"))
    assert draft.root.text == "Sea:"
    assert draft.root.settings.memory == "Be brief.\n\nWrite."


def test_broken_logitloom_files() -> None:
    value = fixture_json("logitloom.json")
    rejects(changed(value, "v9", "isLogitLoomTreeVersion"), "isLogitLoomTreeVersion", "logit-loom-tree-v1")
    rejects(without(value, "roots"), "roots", "a list")
    rejects(changed(value, None, "roots", 0, "children", 0, "text"), "roots[0].children[0].text", "a text")
    rejects(changed(value, 1, "roots", 0, "children"), "roots[0].children", "a list")
    rejects(changed(value, [3], "roots", 0, "children"), "roots[0].children[0]", "an object")
