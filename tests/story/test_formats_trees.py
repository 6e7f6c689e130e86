"""Importers of tree programs: loom, Loomsidian, Exoloom, basemode-loom, logitloom.

What is broken in a file is told, and everything else is read.
"""

from __future__ import annotations

import json

from srbwriter.story import formats
from srbwriter.story.model import foreign
from tests.story.format_files import (
    by_id,
    by_text,
    changed,
    fixture_json,
    load,
    path_text,
    read_json,
    rejects,
    shape,
    tells,
    without,
)


def test_loom_structure_text_and_place() -> None:
    draft = load("loom.json")
    assert shape(draft) == ("", [("The ferry was late", [(", as always.\n", []), (", and  the fog ", [])])])
    assert path_text(draft) == "The ferry was late, and  the fog "


def test_loom_marks_authors_and_generation() -> None:
    draft = load("loom.json")
    first, second, third = (by_text(draft, node.text) for node in draft.nodes[1:])
    assert (first.marks.bookmark, first.marks.tags) == (True, ("draft",))
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
    assert by_text(draft, " again").marks.tags == ("archived",)
    written = json.loads(formats.write(draft, "loom"))
    assert written["tags"]["archived"]["scope"] == "node"


def test_old_and_simple_loom_files_and_lines() -> None:
    assert shape(load("loom_old.json")) == ("Once", [(" upon", []), (" again", [])])
    assert by_text(load("loom_old.json"), " upon").marks.bookmark
    assert shape(load("loom_simple.json")) == ("Once", [(" upon", []), (" again", [("!", [])])])
    assert path_text(load("loom.jsonl")) == "Once upon"


def test_what_is_broken_in_a_loom_file_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("loom.json")
    child = ("root", "children", 0)
    draft = tells(changed(value, 3, *child, "text"), "root.children[0].text", "expected a text")
    assert shape(draft) == ("", [("", [(", as always.\n", []), (", and  the fog ", [])])])
    assert foreign(by_id(draft, "a").meta, "loom")["text"] == 3
    assert shape(tells(changed(value, {}, *child, "children"), "root.children[0].children", "a list")) == (
        "", [("The ferry was late", [])]
    )  # fmt: skip
    draft = tells(changed(value, ["x"], "chapters", "c1"), "chapters.c1", "an object")
    assert shape(draft) == shape(load("loom.json"))
    tells(changed(value, [], "chapters"), "chapters", "an object")


def test_loom_lines_without_an_id_or_a_parent_are_told() -> None:
    draft = formats.read(b'{"id":1,"text":"a","parent_id":null}\n\n{"id":2,"text":"b","parent_id":9}', "x")
    assert shape(draft) == ("", [("a", []), ("b", [])])
    assert "line 3: its parent '9' is not in the file; it is put at the top" in draft.meta["notices"]
    draft = formats.read(b'{"id":1,"text":"a"}\n{"text":"b","parent_id":1}\n{"id":3,', "x")
    assert shape(draft) == ("a", [("b", [])])
    assert [note.split(":")[0] for note in draft.meta["notices"]] == ["line 3, line 1, column 9", "line 2.id"]


def test_nested_loom_nodes_of_one_id_keep_their_own_children() -> None:
    twins = [{"id": "t", "text": text, "children": [{"text": text + "!"}]} for text in ("a", "b")]
    draft = read_json({"text": "", "children": twins})
    assert shape(draft) == ("", [("a", [("a!", [])]), ("b", [("b!", [])])])


def test_a_loom_tree_may_be_a_list() -> None:
    """The program opens a file that is a list of the nodes below an empty root."""
    nested = [{"text": "a", "children": [{"text": "b", "children": []}]}, {"text": "c", "children": []}]
    assert shape(read_json(nested)) == ("", [("a", [("b", [])]), ("c", [])])
    flat = [{"id": "1", "text": "a"}, {"id": "2", "text": "b", "parent_id": "1"}]
    assert shape(read_json(flat)) == ("a", [("b", [])])


def test_loom_lines_as_the_program_writes_them_have_no_parent_at_the_root() -> None:
    data = b'{"id": "r", "text": ""}\n{"id": "x", "text": "Once", "parent_id": "r"}\n'
    assert formats.detect(data).name == "loom"
    assert shape(formats.read(data, "tree.jsonl")) == ("", [("Once", [])])


def test_loom_chapters_that_nothing_points_to_are_kept() -> None:
    draft = load("loom_chapters.json")
    assert [(node.text, node.marks.title) for node in draft.nodes if node.marks.chapter] == [
        ("Once", "Named by its node"), (" upon", "Named by its root")
    ]  # fmt: skip
    written, original = json.loads(formats.write(draft, "loom")), fixture_json("loom_chapters.json")
    assert written["chapters"]["gone"] == original["chapters"]["gone"], "its root is missing"
    assert written["chapters"]["free"] == original["chapters"]["free"], "it has no root"
    first, second = written["root"]["children"][0], written["root"]["children"][0]["children"][0]
    assert written["chapters"][first["chapter_id"]] == {
        "id": "by-node", "root_id": "a", "title": "Named by its node", "summary": "kept"
    }  # fmt: skip
    assert written["chapters"][second["chapter_id"]]["title"] == "Named by its root"
    third = second["children"][0]
    assert third["chapter_id"] == "no such chapter"
    assert shape(formats.read(json.dumps(written).encode(), "x")) == shape(draft)


def test_a_chapter_that_is_none_any_more_is_not_written() -> None:
    draft = load("loom_chapters.json")
    by_text(draft, "Once").mark(chapter=False)
    written = json.loads(formats.write(draft, "loom"))
    assert "by-node" not in written["chapters"]
    assert "chapter_id" not in written["root"]["children"][0]


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


def test_what_is_broken_in_a_loomsidian_file_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("loomsidian.json")
    draft = tells(changed(value, "n9", "nodes", "n2", "parentId"), "nodes.n2", "'n9' is not in the file")
    assert shape(draft) == ("", [("It was <late>", [(" a [note]", [])]), (" and cold", [])])
    assert foreign(draft.meta, "loomsidian-left-out")["faults"][0]["value"] == {"parent": "n9"}
    tells(changed(value, ["x"], "nodes", "n2", "parentId"), "nodes.n2.parentId", "the id of a node")
    draft = tells(changed(value, "n2", "nodes", "n1", "parentId"), "nodes.n1", "its own ancestor")
    assert shape(draft) == shape(load("loomsidian.json")), "it is the root again"
    rejects(changed(value, 3, "nodes"), "the top level")
    value = fixture_json("loomsidian_data.json")
    draft = tells(changed(value, 1, "state", "Tales/mill.md"), "state.Tales/mill.md", "an object")
    assert shape(draft) == ("Ferry", [(" one", [])])


def test_an_orphan_does_not_take_the_other_notes_with_it() -> None:
    """A data file of the plugin in which one node of one note lost its parent."""
    value = fixture_json("loomsidian_data.json")
    orphan = {"text": "alone", "parentId": "gone", "unread": False, "bookmarked": False}
    draft = tells(
        changed(value, orphan, "state", "Tales/mill.md", "nodes", "b9"), "state.Tales/mill.md.nodes.b9"
    )
    assert shape(draft) == ("", [("Ferry", [(" one", [])]), ("Mill", []), ("alone", [])])


def test_two_notes_with_the_same_ids_stay_apart() -> None:
    note = fixture_json("loomsidian_data.json")["state"]["Tales/ferry.md"]
    draft = read_json({"settings": {}, "state": {"a.md": note, "copy of a.md": note}})
    assert shape(draft) == ("", [("Ferry", [(" one", [])]), ("Ferry", [(" one", [])])])


def test_keys_for_services_are_left_out_of_a_loomsidian_data_file() -> None:
    settings = {"modelPresets": [{"name": "base", "apiKey": "sk-1"}], "maxTokens": 60}
    draft = tells(
        changed(fixture_json("loomsidian_data.json"), settings, "settings"), "the top level", "apiKey"
    )
    assert foreign(draft.meta, "loomsidian")["settings"] == {
        "modelPresets": [{"name": "base"}],
        "maxTokens": 60,
    }
    assert b"sk-1" not in formats.write(draft, "srbwriter")


def test_exoloom() -> None:
    draft = load("exoloom.json")
    assert shape(draft) == ("The mill", [(" fell", []), (" stood", [])])
    assert (draft.title, draft.created) == ("The mill", 1738555506)
    stood, fell = by_text(draft, " stood"), by_text(draft, " fell")
    assert stood.marks.bookmark and fell.marks.deleted
    assert stood.generation and stood.generation.model == "base-8b"
    assert draft.root.author == "writer" and draft.root.created == 1700000000
    assert foreign(draft.root.meta, "exoloom") == {"authorName": "Ada"}
    kept = foreign(draft.meta, "exoloom")
    assert (kept["version"], kept["description"]) == ("0.4", "a test")
    assert path_text(draft) == "The mill stood", "a pruned branch is not where one begins"


def test_what_is_broken_in_an_exoloom_file_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("exoloom.json")
    rejects(changed(value, 2, "schemaVersion"), "schemaVersion", "1, the only schema")
    rejects(without(value, "tree"), "tree", "an object")
    rejects(changed(value, [], "tree", "nodes"), "tree.nodes", "an object")
    tells(changed(value, 9, "tree", "rootNodeId"), "tree.rootNodeId", "not where the tree begins")
    draft = tells(
        changed(value, 3, "tree", "nodes", "1", "parentId"), "tree.nodes.1.parentId", "has a parent"
    )
    assert shape(draft) == shape(load("exoloom.json"))
    looped = changed(value, 3, "tree", "nodes", "2", "parentId")
    draft = tells(changed(looped, 2, "tree", "nodes", "3", "parentId"), "tree.nodes.3", "its own ancestor")
    assert shape(draft) == ("", [(" fell", [(" stood", [])]), ("The mill", [])])
    tells(changed(value, 4, "lens", "bookmarks", 0), "lens.bookmarks[0]", "an object")


def test_basemode_loom() -> None:
    draft = load("basemode.json")
    assert shape(draft) == ("The sea", [(" was", []), (" is", [])])
    was, other = by_text(draft, " was"), by_text(draft, " is")
    assert (was.marks.rating, other.marks.rating) == (-1, 1)
    assert other.marks.bookmark and other.marks.tags == ("hidden",)
    assert (draft.root.author, was.author) == ("writer", "model")
    assert foreign(other.meta, "basemode-loom")["metadata"] == {"rating": 4, "colour": "red"}
    assert foreign(draft.meta, "basemode-loom") == {"version": 3}


def test_basemode_contexts_are_the_memory_below_and_the_shown_path_is_the_current_one() -> None:
    draft = load("basemode_contexts.json")
    assert shape(draft) == ("The sea", [(" was", [(" grey.", [])]), (" is", [])])
    assert path_text(draft) == "The sea was grey."
    assert draft.root.settings.memory == "A harbour."
    assert by_text(draft, " was").settings.memory == "Winter."
    assert [context["text"] for context in foreign(draft.meta, "basemode-loom")["contexts"]] == [
        "A harbour.", "Winter."
    ]  # fmt: skip


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
    draft = load("logitloom_chat.json")
    assert shape(draft) == ("The", [(" sea.", []), ("<|stop|>", [])])
    assert draft.root.settings.memory == "Be brief.\n\nWrite of the sea."
    reasons = [node.generation and node.generation.finish_reason for node in draft.nodes[1:]]
    assert reasons == ["stop", "content_filter"]


def test_what_is_broken_in_a_logitloom_file_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("logitloom.json")
    rejects(changed(value, "v9", "isLogitLoomTreeVersion"), "isLogitLoomTreeVersion", "logit-loom-tree-v1")
    rejects(without(value, "roots"), "roots", "a list")
    draft = tells(changed(value, 1, "roots", 0, "children"), "roots[0].children", "a list")
    assert shape(draft) == ("The sea", [(" was", []), (" is", [])])
