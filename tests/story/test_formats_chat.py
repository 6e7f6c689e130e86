"""Importers of the chat and adventure programs: Kobold, SillyTavern, NovelAI, mikupad."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from srbwriter.story import formats
from srbwriter.story.draft import foreign
from srbwriter.story.formats import FormatError
from tests.story.format_files import (
    FIXTURES,
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


def test_sillytavern_chat() -> None:
    draft = load("sillytavern.jsonl")
    assert shape(draft) == (
        "",
        [("Hi.", []), ("Hello there.", [("\n\nWhere are we?", [])]), ("Yes?", [])],
    )
    assert path_text(draft) == "Hello there.\n\nWhere are we?"
    hello = by_text(draft, "Hello there.")
    assert hello.author == "model" and hello.generation and hello.generation.model == "llama-8b"
    assert hello.created == 1709528768
    assert by_text(draft, "\n\nWhere are we?").author == "writer"
    assert (draft.root.settings.author_note, draft.root.settings.author_note_depth) == ("tense", 4)
    assert foreign(hello.meta, "sillytavern")["name"] == "Mira"
    assert foreign(draft.meta, "sillytavern")["chat_metadata"] == {"note_interval": 1}


@pytest.mark.parametrize(
    ("line", "place", "expected"),
    [
        ('{"name": "A", "is_user": true}', "line 2.mes", "a text"),
        ('["x"]', "line 2", "an object"),
        ('{"mes": "a", "swipes": ["a"], "swipe_id": 3}', "line 2.swipe_id", "from 0 to 0"),
        ('{"mes": "a"', "line 2, line 1, column", "JSON"),
    ],
)
def test_broken_sillytavern_chats(line: str, place: str, expected: str) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(f'{{"user_name": "A", "character_name": "B"}}\n{line}'.encode(), "chat")
    assert caught.value.place.startswith(place)
    assert expected in caught.value.expected


def test_world_info() -> None:
    draft = load("worldinfo.json")
    harbour, year = draft.root.settings.lore
    assert (harbour.id, harbour.name, harbour.keys) == ("7", "Harbour", ["harbour", "/ships?/i"])
    assert (harbour.secondary, harbour.logic, harbour.depth, harbour.order) == (["night"], "not_any", 6, 50)
    assert harbour.case_sensitive and harbour.whole_words and harbour.enabled
    assert foreign(harbour.meta, "sillytavern")["sticky"] == 3
    assert (year.constant, year.enabled, year.depth) == (True, False, None)
    assert draft.title == "Harbour"


def test_broken_world_info() -> None:
    value = fixture_json("worldinfo.json")
    rejects(changed(value, 1, "entries", "0", "content"), "entries.0.content", "a text")
    rejects(changed(value, 1, "entries", "0", "key"), "entries.0.key", "a list of keys")


def test_card_greetings_memory_and_book() -> None:
    draft = load("card.json")
    assert shape(draft) == ("", [('Mira looks up. "{{user}}?"', []), ("The door is open.", [])])
    assert draft.root.settings.memory == "Mira keeps the light.\n\nwry\n\nA storm."
    (entry,) = draft.root.settings.lore
    assert (entry.keys, entry.secondary, entry.enabled, entry.order) == (["light"], ["storm"], False, 3)
    assert (draft.title, draft.byline) == ("Mira", "Ada")
    assert foreign(draft.meta, "card")["tags"] == ["sea"]


def test_a_card_of_the_first_version_has_its_fields_at_the_top() -> None:
    draft = read_json(
        {"name": "Mira", "description": "d", "personality": "", "scenario": "", "first_mes": "Hi."}
    )
    assert path_text(draft) == "Hi."


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)

    inner = b"".join(chunk(kind, body) for kind, body in chunks)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)) + inner + chunk(b"IEND", b"")


def test_a_card_in_a_picture_is_the_same_card() -> None:
    body = base64.b64encode((FIXTURES / "card.json").read_bytes())
    data = png((b"tEXt", b"Software\0x"), (b"tEXt", b"chara\0" + body))
    assert formats.detect(data).name == "card"
    assert formats.read(data, "card.png") == load("card.json")


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (png(), "the text chunks", "holds none"),
        (png((b"tEXt", b"chara\0!!!")), "text chunk chara", "base64"),
        (png((b"tEXt", b"chara\0" + base64.b64encode(b"{"))), "text chunk chara, line 1", "JSON"),
        (png((b"tEXt", b"chara\0" + base64.b64encode(b"[]"))), "the top level", "an object"),
        (png((b"tEXt", b"chara\0" + bytes(50)))[:60], "byte 33", "cut off"),
    ],
)
def test_broken_pictures(data: bytes, place: str, expected: str) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "card.png")
    assert caught.value.place.startswith(place)
    assert expected in caught.value.expected


def test_broken_cards() -> None:
    value = fixture_json("card.json")
    rejects(without(value, "data"), "data", "an object")
    rejects(without(value, "data", "name"), "data.name", "a text")
    rejects(changed(value, 3, "data", "first_mes"), "data.first_mes", "a text")
    rejects(
        without(value, "data", "character_book", "entries", 0, "content"),
        "data.character_book.entries[0].content",
        "a text",
    )


def test_novelai_story() -> None:
    draft = load("novelai.story")
    assert [(node.text, node.author) for node in draft.nodes[1:]] == [
        ("The ferry was late.", "writer"),
        (" Very late.", "model"),
        (" I waited.", "edited"),
    ]
    settings = draft.root.settings
    assert (settings.memory, settings.author_note, settings.author_note_depth) == (
        "A river.",
        "[ Style: plain ]",
        3,
    )
    assert (draft.title, draft.created) == ("The ferry", 1650000000)
    assert foreign(draft.meta, "novelai")["settings"]["parameters"]["temperature"] == 0.63


def test_a_novelai_text_that_is_not_its_fragments_is_taken_whole() -> None:
    draft = read_json(changed(fixture_json("novelai.story"), "Another text.", "content", "story", "text"))
    assert path_text(draft) == "Another text."
    assert len(draft.nodes) == 2


def test_an_encoded_novelai_story_gives_its_lore_and_says_what_to_do() -> None:
    value = changed(fixture_json("novelai.story"), "k8Q=", "content", "document")
    draft = read_json(without(value, "content", "story"))
    assert shape(draft) == ("", [])
    assert draft.root.settings.memory == "A river."
    assert "plain text" in draft.meta["notices"][0]
    assert foreign(draft.meta, "novelai")["document"] == "k8Q="


def test_broken_novelai_stories() -> None:
    value = fixture_json("novelai.story")
    rejects(changed(value, 9, "storyContainerVersion"), "storyContainerVersion", "1, the only version")
    rejects(without(value, "content"), "content", "an object")
    rejects(without(value, "content", "story"), "content.story", "a story, or a document")
    rejects(
        changed(value, 0, "content", "story", "fragments", 1, "data"),
        "content.story.fragments[1].data",
        "a text",
    )
    rejects(changed(value, 0, "content", "lorebook", "entries"), "content.lorebook.entries", "a list")
    rejects(changed(value, 0, "content", "context", 0), "content.context[0]", "an object")


def test_novelai_lorebook() -> None:
    ferry, always = load("novelai.lorebook").root.settings.lore
    assert (ferry.id, ferry.name, ferry.keys) == ("f1", "Ferry", ["ferry", "/boats?/"])
    assert ferry.text == "----\nThe ferry is old.\n"
    assert (ferry.depth, ferry.scan_depth, ferry.token_budget, ferry.order) == (0, 1000, 200, 400)
    assert (always.constant, always.enabled, always.token_budget, always.depth) == (True, False, None, None)
    assert foreign(ferry.meta, "novelai")["contextConfig"]["trimDirection"] == "trimBottom"


def test_broken_novelai_lorebooks() -> None:
    value = fixture_json("novelai.lorebook")
    rejects(without(value, "entries"), "entries", "a list")
    rejects(without(value, "entries", 0, "text"), "entries[0].text", "a text")
    rejects(changed(value, "x", "entries", 1), "entries[1]", "an object")


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
