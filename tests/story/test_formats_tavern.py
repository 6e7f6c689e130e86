"""Importers of SillyTavern's chats and world info, and of character cards."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from tests.story.format_files import (
    FIXTURES,
    by_text,
    changed,
    fixture_json,
    is_left_out,
    load,
    noticed,
    path_text,
    read_json,
    rejects,
    shape,
    without,
)


def chat(*messages: Any) -> formats.StoryDraft:
    head = {"user_name": "Ada", "character_name": "Mira", "chat_metadata": {}}
    return formats.read("\n".join(json.dumps(line) for line in (head, *messages)).encode(), "chat.jsonl")


def message(mes: Any, **fields: Any) -> dict[str, Any]:
    return {"name": "Mira", "is_user": False, "is_system": False, "mes": mes, "extra": {}, **fields}


def test_a_chat_that_begins_with_hidden_messages() -> None:
    draft = chat(message("Old.", is_system=True), message("Older.", is_system=True), message("New."))
    assert shape(draft) == ("", [("Old.", [("\n\nOlder.", [])]), ("New.", [])])
    assert path_text(draft) == "New."


MOMENT = datetime(2024, 3, 4, 5, 7, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("March 4, 2024 5:07am", MOMENT),
        ("march 4, 2024 5:07PM", MOMENT + 12 * 3600),
        ("March 4, 2024 12:07am", MOMENT - 5 * 3600),
        ("March 4, 2024 12:07pm", MOMENT + 7 * 3600),
        ("2024-3-4@05h07m09s", MOMENT + 9),
        ("2024-03-04@05h07m09s", MOMENT + 9),
        ("2024-3-4 @05h 07m 09s 120ms", MOMENT + 9.12),
        ("2024-03-04T05:07:09.120Z", MOMENT + 9.12),
        (1709528829120, MOMENT + 9.12),
        ("1709528829120", MOMENT + 9.12),
        *((unread, None) for unread in (
            "soon", "Mai 4, 2024 5:07am", "March 40, 2024 5:07am", "2024-13-4@05h07m09s", -1
        )),
    ],
)  # fmt: skip
def test_dates_in_every_notation_that_the_program_has_had(date: Any, seconds: float | None) -> None:
    node = by_text(chat(message("Hi.", send_date=date)), "Hi.")
    assert node.created == (seconds and pytest.approx(seconds))


@pytest.mark.parametrize(
    ("swipes", "swipe_id", "expected"),
    [
        (["A.", "B."], 1, [("A.", "model"), ("B.", "model")]),
        (["A.", "B."], None, [("A.", "model"), ("B.", "model")]),
        (["A.", "B."], 7, [("A.", "model"), ("B.", "model")]),
        (["A.", "C."], 1, [("A.", "model"), ("B.", "edited"), ("C.", "model")]),
        (["A.", "C."], None, [("B.", "model"), ("A.", "model"), ("C.", "model")]),
        (["A.", None, "B."], 2, [("A.", "model"), ("B.", "model")]),
        ([], 0, [("B.", "model")]),
        (None, None, [("B.", "model")]),
    ],
)
def test_whatever_the_number_of_the_swipe_says_the_message_is_the_story(
    swipes: Any, swipe_id: Any, expected: list[tuple[str, str]]
) -> None:
    draft = chat(message("B.", swipes=swipes, swipe_id=swipe_id))
    assert path_text(draft) == "B."
    assert [(node.text, node.author) for node in draft.nodes[1:]] == expected


def test_messages_that_chub_puts_into_objects() -> None:
    draft = chat(
        message({"message": "B.", "id": 3}, swipes=[{"message": "A."}, {"message": "B."}], swipe_id=1)
    )
    assert [node.text for node in draft.nodes[1:]] == ["A.", "B."]


def test_lines_that_are_no_json_cost_themselves_only() -> None:
    lines = (FIXTURES / "sillytavern.jsonl").read_text("utf-8").split("\n")
    draft = formats.read("\n".join([*lines[:2], '{"mes": "cut of', *lines[2:]])[:-3].encode(), "chat")
    assert path_text(draft) == "Hello there.\n\nWhere are we?\n\nAt the old pier."
    assert is_left_out(draft, "line 3")
    assert noticed(draft, "line 8")


def test_an_entry_without_keys_is_kept_and_switched_off_unless_it_is_constant() -> None:
    value = fixture_json("worldinfo.json")
    draft = read_json(without(value, "entries", "0", "key"))
    harbour, year, gulls = draft.root.settings.lore
    assert (harbour.enabled, harbour.text, gulls.enabled) == (False, "Old and foggy.", False)
    assert noticed(draft, "Harbour", "Gulls", "no keys", "switched off")
    draft = read_json(without(changed(value, False, "entries", "8", "disable"), "entries", "8", "key"))
    assert draft.root.settings.lore[1].enabled
    assert not noticed(draft, "1890") and noticed(draft, "Gulls")


def test_keys_that_are_no_texts_are_not_used() -> None:
    draft = read_json(changed(fixture_json("worldinfo.json"), ["quay", 7], "entries", "0", "key"))
    assert draft.root.settings.lore[0].keys == ["quay"]


def test_entries_of_one_id_get_ids_of_their_own() -> None:
    draft = read_json(changed(fixture_json("worldinfo.json"), 7, "entries", "8", "uid"))
    assert [entry.id for entry in draft.root.settings.lore] == ["7", "7 (2)", "9"]


def test_a_book_in_a_file_of_its_own_needs_no_specification() -> None:
    book = fixture_json("card.json")["data"]["character_book"]
    draft = read_json(book)
    assert [entry.keys for entry in draft.root.settings.lore] == [["light"]]
    assert draft.title == "Mira's book"


def test_a_regular_expression_with_slashes() -> None:
    value = changed(fixture_json("lorebook_v3.json"), ["a/b", r"a\/b"], "data", "entries", 0, "keys")
    value = changed(value, False, "data", "entries", 0, "case_sensitive")
    assert read_json(value).root.settings.lore[0].keys == [r"/a\/b/i", r"/a\/b/i"]


@pytest.mark.parametrize(
    "field", ["first_mes", "name", "description", "alternate_greetings", "character_book"]
)
def test_a_card_may_lack_any_field(field: str) -> None:
    for value in (
        without(fixture_json("card.json"), "data", field),
        changed(fixture_json("card.json"), None, "data", field),
    ):
        draft = read_json(value)
        assert (draft.title == "Mira") == (field != "name")
        assert draft.nodes[0].text == ""


def test_a_card_without_greetings_is_a_story_without_text() -> None:
    draft = read_json(
        {"name": "Tom", "description": "d", "personality": "p", "scenario": "s", "mes_example": ""}
    )
    assert (
        formats.detect(
            json.dumps({"name": "T", "description": "", "scenario": "", "mes_example": ""}).encode()
        ).name
        == "card"
    )
    assert shape(draft) == ("", [])
    assert draft.root.settings.memory == "d\n\np\n\ns"


def test_fields_of_the_wrong_kind_are_left_out_of_a_card() -> None:
    value = fixture_json("card.json")
    for field in ("first_mes", "alternate_greetings", "character_book"):
        draft = read_json(changed(value, 3, "data", field))
        assert is_left_out(draft, f"data.{field}")
        assert draft.title == "Mira"


def test_broken_cards() -> None:
    value = fixture_json("card.json")
    rejects(without(value, "data"), "data", "an object")


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)

    inner = b"".join(chunk(kind, body) for kind, body in chunks)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)) + inner + chunk(b"IEND", b"")


CARD = (FIXTURES / "card.json").read_bytes()
PACKED = base64.b64encode(CARD)


def wrapped(packed: bytes) -> bytes:
    return b"\r\n".join(packed[start : start + 76] for start in range(0, len(packed), 76)) + b"\n"


@pytest.mark.parametrize(
    "chunk",
    [
        (b"tEXt", b"chara\0" + PACKED),
        (b"tEXt", b"Chara\0" + PACKED),
        (b"tEXt", b"ccv3\0" + PACKED),
        (b"tEXt", b"chara\0" + wrapped(PACKED)),
        (b"tEXt", b"chara\0" + base64.urlsafe_b64encode(CARD).rstrip(b"=")),
        (b"tEXt", b"chara\0" + CARD),
        (b"zTXt", b"chara\0\0" + zlib.compress(PACKED)),
        (b"iTXt", b"chara\0\0\0\0\0" + PACKED),
        (b"iTXt", b"chara\0\0\0en\0the card\0" + CARD),
        (b"iTXt", b"chara\0\1\0\0\0" + zlib.compress(wrapped(PACKED))),
    ],
)
def test_a_card_in_a_picture_is_the_same_card(chunk: tuple[bytes, bytes]) -> None:
    data = png((b"tEXt", b"Software\0x"), chunk)
    assert formats.detect(data).name == "card"
    assert formats.read(data, "card.png") == load("card.json")


def test_of_two_cards_in_a_picture_the_newer_counts() -> None:
    older = changed(fixture_json("card.json"), "Mirabel", "data", "name")
    newer = changed(fixture_json("card.json"), "chara_card_v3", "spec")
    chunks = [
        (b"tEXt", key + b"\0" + base64.b64encode(json.dumps(value).encode()))
        for key, value in ((b"chara", older), (b"ccv3", newer))
    ]
    draft = formats.read(png(*chunks), "card.png")
    assert draft.title == "Mira"


@pytest.mark.parametrize(
    "bad", [b"!!!", base64.b64encode(b"{"), base64.b64encode(b"[]"), base64.b64encode(b"\xff")]
)
def test_of_two_cards_in_a_picture_one_is_enough(bad: bytes) -> None:
    draft = formats.read(png((b"tEXt", b"ccv3\0" + bad), (b"tEXt", b"chara\0" + PACKED)), "card.png")
    assert draft.title == "Mira"
    assert noticed(draft, "ccv3", "cannot be read")


def test_a_picture_that_is_cut_off_behind_its_card_gives_the_card() -> None:
    data = png((b"tEXt", b"chara\0" + PACKED), (b"IDAT", bytes(400)))
    draft = formats.read(data[:-200], "card.png")
    assert draft.title == "Mira"
    assert noticed(draft, "damaged", "byte")


def charx(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_json", ".json").replace("__", "/"), content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (charx(card_json=b"{"), "card.json, line 1", ""),
        (charx(card_json=b"\xff"), "card.json", ""),
        (charx(card_json=b"[]"), "the top level", ""),
        (png(), "the text chunks", "holds none"),
        (png((b"zTXt", b"chara\0\0not compressed")), "the text chunks", "holds none"),
        (png((b"tEXt", b"chara\0!!!")), "text chunk chara", "base64"),
        (png((b"tEXt", b"chara\0" + base64.b64encode(b"{"))), "text chunk chara, line 1", "JSON"),
        (png((b"tEXt", b"chara\0" + base64.b64encode(b"[]"))), "the top level", "an object"),
        (png((b"tEXt", b"chara\0" + bytes(50)))[:60], "byte 33", "cut off"),
    ],
)
def test_broken_pictures_and_archives(data: bytes, place: str, expected: str) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "card.png")
    assert caught.value.place.startswith(place)
    assert expected in caught.value.expected


def test_a_card_in_an_archive_is_the_same_card() -> None:
    data = charx(card_json=CARD, assets__icon__main=b"picture")
    assert formats.detect(data).name == "card"
    draft = formats.read(data, "mira.charx")
    assert draft == load("card.json")


def test_an_archive_without_a_card_is_no_card() -> None:
    for data in (charx(other=b"x"), charx(card_json=CARD)[:-30]):
        with pytest.raises(FormatError):
            formats.detect(data)
