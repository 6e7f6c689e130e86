"""mikupad: sessions in and out, and the export of all of them.

What is broken in a file is told, and everything else is read.
"""

from __future__ import annotations

import json

from srbwriter.story import formats
from srbwriter.story.model import foreign
from tests.story.format_files import (
    by_text,
    changed,
    fixture_json,
    load,
    path_text,
    read_json,
    shape,
    tells,
    without,
)


def test_mikupad() -> None:
    draft = load("mikupad.json")
    assert [(node.text, node.author) for node in draft.nodes[1:]] == [
        ("The sea", "writer"),
        (" was grey", "model"),
        (", I said", "writer"),
    ]
    assert draft.title == "My story"
    settings = draft.root.settings
    assert (settings.memory, settings.author_note, settings.author_note_depth) == (
        "<<A harbour.>>",
        "[\ngrim]",
        3,
    )
    assert settings.sampling == {"temperature": 0.9, "top_k": 40, "min_p": 0.05, "dry_penalty_last_n": -1}
    (entry,) = settings.lore
    assert (entry.name, entry.keys, entry.scan_depth) == ("Harbour", ["/harbou?r/i", r"/a\/b/i"], 1650)
    assert foreign(draft.meta, "mikupad")["template"] == "chatml"


def test_mikupad_is_written_with_every_value_as_json_text() -> None:
    draft = load("mikupad.json")
    session = json.loads(formats.write(draft, "mikupad"))
    assert all(isinstance(value, str) for value in session.values())
    values = {key: json.loads(value) for key, value in session.items()}
    assert (values["name"], values["template"], values["temperature"]) == ("My story", "chatml", 0.9)
    assert values["memoryTokens"]["contextOrder"] == "{memPrefix}{wiPrefix}{prompt}"
    assert values["memoryTokens"]["text"] == "<<A harbour.>>"
    assert values["worldInfo"]["entries"][0]["search"] == 500
    assert values["worldInfo"]["entries"][0]["keys"] == ["harbou?r", "a/b"]
    chunks = values["prompt"]
    assert [chunk["content"] for chunk in chunks] == ["The sea", " was", " grey", ", I said"]
    assert [chunk.get("type") for chunk in chunks] == ["user", None, None, "user"]
    assert chunks[1]["completion_probabilities"][0]["probs"][0]["prob"] == 0.5


def test_plain_lore_keys_become_patterns_that_mean_themselves() -> None:
    draft = load("mikupad.json")
    draft.root.settings.lore[0].keys = ["Mr. Fox"]
    values = json.loads(json.loads(formats.write(draft, "mikupad"))["worldInfo"])
    assert values["entries"][0]["keys"] == [r"Mr\. Fox"]


def test_what_is_broken_in_a_mikupad_session_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("mikupad.json")
    draft = tells(changed(value, "[{", "prompt"), "prompt, line 1, column 3", "JSON")
    assert (shape(draft), draft.root.settings.memory) == (("", []), "<<A harbour.>>")
    draft = tells(changed(value, "{bad", "worldInfo"), "worldInfo, line 1, column 2", "JSON")
    assert path_text(draft) == path_text(load("mikupad.json"))
    assert foreign(draft.meta, "mikupad")["worldInfo"] == "{bad"
    world = {**json.loads(value["worldInfo"]), "entries": [5]}
    tells(changed(value, json.dumps(world), "worldInfo"), "worldInfo.entries[0]", "an object")


def test_chunks_without_text_stay_with_those_around_them() -> None:
    chunks = [
        {"type": "user", "content": ""},
        {"content": "a", "n": 1},
        {"content": "", "n": 2},
        {"content": "b"},
    ]
    draft = read_json({"prompt": json.dumps(chunks)})
    assert [(node.text, node.author) for node in draft.nodes[1:]] == [("ab", "model")]
    again = json.loads(json.loads(formats.write(draft, "mikupad"))["prompt"])
    assert [chunk["content"] for chunk in again] == ["", "a", "", "b"]
    assert [chunk.get("n") for chunk in again] == [None, 1, 2, None]


def test_a_key_for_a_service_is_left_out_of_a_mikupad_session() -> None:
    value = {**fixture_json("mikupad.json"), "endpointAPIKey": json.dumps("sk-1")}
    draft = tells(value, "the top level", "endpointAPIKey: left out")
    assert b"sk-1" not in formats.write(draft, "mikupad")


def test_the_export_of_all_mikupad_sessions_is_a_branch_for_each() -> None:
    draft = load("mikupad_db.json")
    assert shape(draft) == (
        "", [("", [("The sea", [(" was", [])])]), ("", [("The ferry was late.", [])]), ("", [])]
    )  # fmt: skip
    sessions = [node for node in draft.nodes if node.parent_id == draft.root.id]
    assert [node.marks.title for node in sessions] == ["MikuPad #1", "The ferry", "An old one"]
    assert path_text(draft) == "The ferry was late.", "the one that was shown"
    assert sessions[0].settings.memory == "A harbour."
    assert sessions[0].settings.sampling == {"temperature": 0.9}
    assert (sessions[1].settings.sampling, sessions[1].settings.lore[0].keys) == (
        {"top_k": 40},
        ["/ferr(y|ies)/i"],
    )
    assert [node.author for node in draft.nodes if node.text.strip()] == ["writer", "model", "writer"]
    beside = foreign(draft.meta, "mikupad")["database"]
    assert beside["Names"] == [{"key": 7, "value": "Just made"}], "it has no session yet"
    assert beside["Templates"] == fixture_json("mikupad_db.json")["Templates"]
    assert b"sk-1" not in formats.write(draft, "srbwriter")


def test_a_branch_of_all_sessions_is_exported_as_the_session_it_was() -> None:
    draft = load("mikupad_db.json")
    values = {key: json.loads(text) for key, text in json.loads(formats.write(draft, "mikupad")).items()}
    assert (values["name"], values["template"], values["topK"]) == ("The ferry", "chatml", 40)
    assert [chunk["content"] for chunk in values["prompt"]] == ["The ferry was late."]
    assert "memoryTokens" not in values and "database" not in values
    draft.current_id = by_text(draft, " was").id
    values = {key: json.loads(text) for key, text in json.loads(formats.write(draft, "mikupad")).items()}
    assert (values["name"], values["memoryTokens"]["text"]) == ("MikuPad #1", "A harbour.")
    assert values["prompt"][1]["completion_probabilities"][0]["probs"][0]["prob"] == 0.5


def test_what_is_broken_in_an_export_of_all_sessions_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("mikupad_db.json")
    draft = tells(changed(value, 3, "Sessions", 0), "Sessions[0]", "an object")
    assert [child[1] for child in shape(draft)[1]] == [[("The ferry was late.", [])], []]
    tells(changed(value, "x", "Sessions", 0, "value"), "Sessions[0].value", "a session")
    tells(changed(value, 3, "Names", 0), "Names[0]", "an object")
    assert shape(read_json(without(value, "Names")))[1][0] == shape(load("mikupad_db.json"))[1][0]
