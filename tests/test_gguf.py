"""Reading the head of a GGUF file: what is asked for, and nothing believed that the file cannot hold."""

from __future__ import annotations

import io
import struct

import pytest

from srbwriter.gguf import Array, Damaged, pairs

_U32, _STRING, _ARRAY = 4, 8, 9


def text(words: bytes) -> bytes:
    return struct.pack("<Q", len(words)) + words


def head(*entries: bytes) -> io.BytesIO:
    return io.BytesIO(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)) + b"".join(entries))


def read(file: io.BytesIO) -> list[tuple[str, object]]:
    return list(pairs(file, len(file.getvalue())))


def words(key: bytes, *entries: bytes, claimed: int | None = None) -> bytes:
    count = len(entries) if claimed is None else claimed
    return text(key) + struct.pack("<IIQ", _ARRAY, _STRING, count) + b"".join(map(text, entries))


NUMBER = text(b"n") + struct.pack("<II", _U32, 7)


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_what_follows_a_list_is_found_however_much_of_it_was_read(taken: int) -> None:
    file = head(words(b"list", b"a", b"b", b"c"), NUMBER)
    found = pairs(file, len(file.getvalue()))
    key, array = next(found)
    assert key == "list" and isinstance(array, Array) and array.holds_texts
    texts = array.texts()
    assert [next(texts) for _ in range(taken)] == [b"a", b"b", b"c"][:taken]
    assert list(found) == [("n", 7)]


@pytest.mark.parametrize("act", [lambda a: list(a.texts()), lambda a: a.pass_by()], ids=["read", "pass by"])
def test_a_list_longer_than_any_vocabulary_is_not_walked_through(act: object) -> None:
    file = head(words(b"list", *[b""] * 50, claimed=1 << 40))
    _, array = next(pairs(file, len(file.getvalue())))
    assert callable(act)
    with pytest.raises(Damaged, match="list of 1099511627776 entries"):
        act(array)


def test_numbers_that_the_file_cannot_hold_are_refused() -> None:
    file = head(text(b"list") + struct.pack("<IIQ", _ARRAY, _U32, 1 << 20) + b"\0" * 16)
    _, array = next(pairs(file, len(file.getvalue())))
    assert isinstance(array, Array)
    with pytest.raises(Damaged, match="cut short"):
        array.numbers()


@pytest.mark.parametrize("end", range(4, len(head(words(b"list", b"abc"), NUMBER).getvalue())))
def test_a_file_cut_anywhere_is_said_to_be_damaged(end: int) -> None:
    with pytest.raises(Damaged):
        read(io.BytesIO(head(words(b"list", b"abc"), NUMBER).getvalue()[:end]))
