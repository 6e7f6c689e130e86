"""Importers of SillyTavern's chats and world info, and of character cards."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib

import pytest

from srbwriter import formats
from tests.formats.files import (
    FIXTURES,
    changed,
    fixture_json,
    format_of,
    load,
    read_json,
)


def test_a_regular_expression_with_slashes() -> None:
    value = changed(fixture_json("lorebook_v3.json"), ["a/b", r"a\/b"], "data", "entries", 0, "keys")
    value = changed(value, False, "data", "entries", 0, "case_sensitive")
    assert read_json(value).root.settings.lore[0].keys == [r"/a\/b/i", r"/a\/b/i"]


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
        (b"iTXt", b"chara\0\0\0\0\0" + PACKED),
        (b"iTXt", b"chara\0\0\0en\0the card\0" + CARD),
    ],
)
def test_a_card_in_a_picture_is_the_same_card(chunk: tuple[bytes, bytes]) -> None:
    data = png((b"tEXt", b"Software\0x"), chunk)
    assert format_of(data) == "card"
    assert formats.read(data, "card.png") == load("card.json")


def charx(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_json", ".json").replace("__", "/"), content)
    return data.getvalue()


def test_a_card_in_an_archive_is_the_same_card() -> None:
    data = charx(card_json=CARD, assets__icon__main=b"picture")
    assert format_of(data) == "card"
    draft = formats.read(data, "mira.charx")
    assert draft == load("card.json")
