"""Importers of the chat and adventure programs: Kobold, SillyTavern, NovelAI, mikupad."""

from __future__ import annotations

import base64
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
