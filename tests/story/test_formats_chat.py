"""Importers of the chat and adventure programs: Kobold, mikupad."""

from __future__ import annotations

import json

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


def test_kobold_v1() -> None:
    draft = load("kobold_v1.json")
    assert shape(draft) == (
        "",
        [("You wake.", [(" It is dark.", [(" You stand.", [])]), (" It is cold.", [])])],
    )
    assert path_text(draft) == "You wake. It is dark. You stand."
    assert by_text(draft, " It is cold.").marks.bookmark
    settings = draft.root.settings
    assert (settings.memory, settings.author_note) == ("A cell.", "[Author's note: tense]")
    (entry,) = settings.lore
    assert (entry.keys, entry.secondary, entry.logic) == (["cell", "prison"], ["door"], "any")
    assert (entry.name, entry.text, entry.enabled) == ("Cell", "The cell is narrow.", True)
    assert foreign(entry.meta, "kobold")["probability"] == 100


def test_kobold_lite_branches() -> None:
    draft = load("kobold_lite.json")
    assert shape(draft) == ("", [("A.", [(" B.", [(" C.", []), (" D.", [])]), (" E.", [])])])
    assert path_text(draft) == "A. B. C."
    (entry,) = draft.root.settings.lore
    assert (entry.keys, entry.secondary, entry.logic, entry.enabled) == (
        ["/cel+/i"],
        ["guard"],
        "not_any",
        False,
    )
    assert foreign(draft.meta, "kobold")["personal_notes"] == "mine"


def test_kobold_share_file() -> None:
    draft = load("kobold_share.json")
    assert path_text(draft) == "You wake. It rains."
    assert (draft.root.settings.memory, draft.root.settings.author_note) == ("A cell.", "[tense]")
    assert [entry.keys for entry in draft.root.settings.lore] == [["cell"]]


def test_a_kobold_save_without_a_story_is_empty() -> None:
    draft = read_json({"gamestarted": False, "prompt": "", "actions": []})
    assert shape(draft) == ("", [])


def test_broken_kobold_files() -> None:
    value = fixture_json("kobold_v1.json")
    rejects(changed(value, 4, "actions", 1), "actions[1]", "a text")
    rejects(changed(value, 4, "worldinfo", 0), "worldinfo[0]", "an object")
    rejects(
        changed(value, 4, "actions_metadata", "0", "Alternative Text"), "actions_metadata.0.Alternative Text"
    )
    rejects(
        changed(value, {}, "actions_metadata", "0", "Alternative Text", 0),
        "actions_metadata.0.Alternative Text[0].Text",
        "a text",
    )
    lite = fixture_json("kobold_lite.json")
    rejects(changed(lite, {}, "altbranches"), "altbranches", "a list")
    rejects(changed(lite, [1], "altbranches", 2), "altbranches[2]", "a list of texts")
    rejects(changed(fixture_json("kobold_share.json"), 1, "ga", 0), "ga[0]", "a text")


def test_kobold_united() -> None:
    draft = load("kobold_united.json")
    assert shape(draft) == (
        "",
        [("You wake.", [(" It is dark.", [(" You stand.", [])]), (" It is cold.", []), (" It rains.", [])])],
    )
    assert path_text(draft) == "You wake. It is dark. You stand."
    assert draft.title == "Cell"
    assert by_text(draft, " It is cold.").marks.bookmark
    assert foreign(by_text(draft, " It is dark.").meta, "kobold-united")["Time"] == 1
    (entry,) = draft.root.settings.lore
    assert (entry.id, entry.keys, entry.constant) == ("0", ["cell"], True)
    assert draft.root.settings.author_note == "[tense]"


def test_broken_kobold_united_files() -> None:
    value = fixture_json("kobold_united.json")
    step = ("actions", "actions", "0")
    rejects(changed(value, 3, "file_version"), "file_version", "2, the only version")
    rejects(without(value, "prompt"), "prompt", "a text")
    rejects(changed(value, None, *step, "Selected Text"), "actions.actions.0.Selected Text", "a text")
    rejects(changed(value, 5, *step, "Options", 0), "actions.actions.0.Options[0]", "an object")
    rejects(without(value, *step, "Options", 1, "text"), "actions.actions.0.Options[1].text", "a text")
    rejects(changed(value, {"x": {}}, "actions", "actions"), "actions.actions.x", "a number")
    rejects(
        without(value, "worldinfo_v2", "entries", "0", "content"), "worldinfo_v2.entries.0.content", "a text"
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


def test_broken_mikupad_files() -> None:
    value = fixture_json("mikupad.json")
    rejects(changed(value, "[{", "prompt"), "prompt, line 1, column 3", "JSON")
    rejects(changed(value, "{bad", "worldInfo"), "worldInfo, line 1, column 2", "JSON")
    rejects(changed(value, "[3]", "prompt"), "prompt[0]", "an object")
    rejects(changed(value, '[{"type": "user"}]', "prompt"), "prompt[0].content", "a text")
