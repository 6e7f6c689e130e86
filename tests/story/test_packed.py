"""Reading what msgpackr packs, the library in which NovelAI keeps its documents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.formats.packed import DEEPEST, PackedError, unpack
from tests.sizes import examples
from tests.story.packing import UNDEFINED, Extension, Numbered, Pointer, Record, Set, pack

NAMES = st.sampled_from(["id", "type", "text", "section", "größe", "段落"])
CHARACTERS = st.characters(codec="utf-8")
TEXTS = st.text(CHARACTERS, max_size=30) | st.sampled_from(["the lamp 🏮 swings", "x" * 5000])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**53) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.integers(0, 2**52), inner, max_size=4)
        | st.builds(Record, st.dictionaries(NAMES, inner, max_size=3))
        | st.builds(Extension, st.sampled_from([20, 30, 31, 40, 41, 42]), inner)
        | st.builds(Set, st.lists(inner, max_size=3))
        | st.builds(Numbered, st.integers(0, 9), inner)
    ),
    max_leaves=25,
)


def plain(value: Any) -> Any:
    """What a reader should make of a value."""
    match value:
        case Record(fields):
            return {name: plain(inner) for name, inner in fields.items()}
        case Extension(_, inner) | Numbered(_, inner):
            return plain(inner)
        case Set(members):
            return [plain(member) for member in members]
        case list():
            return [plain(inner) for inner in value]
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case _:
            return value


@settings(max_examples=examples(300), deadline=None)
@given(value=VALUES, most=st.sampled_from([10, 60, 0x5500]))
def test_what_was_packed_is_read(value: Any, most: int) -> None:
    assert unpack(pack(value, most_bundled=most)) == plain(value)


def test_dates_undefined_and_pointers() -> None:
    moment = datetime(2024, 5, 11, 17, 41, 28, 453000, UTC)
    value = [moment, UNDEFINED, Numbered(3, ["a long text"]), Pointer(3), 127, 64]
    read = unpack(pack(value))
    assert read == [moment.timestamp(), None, ["a long text"], ["a long text"], 127, 64]
    assert read[2] is read[3]


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_damaged_data_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(pack(data.draw(VALUES), most_bundled=40))
    at = data.draw(st.integers(0, len(whole)))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)) :]
    try:
        unpack(bytes(damaged))
    except PackedError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off"),
        (b"\x93\x01", "cut off"),
        (b"\xc1\xa1x", "length"),
        (b"\xd4\x7f\x00", "127"),
        (b"\xd5\x72\x40\x01", "64 kinds"),
        (b"\xc7\x01\x05x", "5"),
        (b"\x91" * (DEEPEST + 2) + b"\xc0", "nested"),
        (b"\xd6\x62\x00\x00\x00\x04\x91", "a text"),
        (b"\xd6\x70\x00\x00\x00\x01", "byte 6"),
        (b"\x81\x90\x01", "byte"),
        (b"\xdd\xff\xff\xff\xff", "cut off"),
    ],
)
def test_what_is_refused_says_why(data: bytes, words: str) -> None:
    with pytest.raises(PackedError, match=words):
        unpack(data)
