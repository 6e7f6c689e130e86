"""Reading the head of a GGUF file: what is asked for, and nothing believed that the file cannot hold."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.gguf import Damaged, Texts, contents, pairs
from tests.engine.toy_models import lora_halves, make_lora

Read = Callable[[bytes], Iterator[tuple[str, object]]]
_U32, _STRING, _ARRAY = 4, 8, 9


def text(words: bytes) -> bytes:
    return struct.pack("<Q", len(words)) + words


def head(*entries: bytes) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)) + b"".join(entries)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def written(data: bytes) -> Iterator[tuple[str, object]]:
        (tmp_path / "head.gguf").write_bytes(data)
        return pairs(tmp_path / "head.gguf")

    return written


def words(key: bytes, *entries: bytes, claimed: int | None = None) -> bytes:
    count = len(entries) if claimed is None else claimed
    return text(key) + struct.pack("<IIQ", _ARRAY, _STRING, count) + b"".join(map(text, entries))


NUMBER = text(b"n") + struct.pack("<II", _U32, 7)


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_what_follows_a_list_is_found_however_much_of_it_was_read(read: Read, taken: int) -> None:
    found = read(head(words(b"list", b"a", b"b", b"c"), NUMBER))
    key, texts = next(found)
    assert key == "list" and isinstance(texts, Texts) and len(texts) == 3
    assert list(islice(texts, taken)) == [b"a", b"b", b"c"][:taken]
    assert list(found) == [("n", 7)]


def test_a_list_longer_than_any_vocabulary_is_not_walked_through(read: Read) -> None:
    with pytest.raises(Damaged, match="list of 1099511627776 entries"):
        next(read(head(words(b"list", *[b""] * 50, claimed=1 << 40))))


def test_numbers_that_the_file_cannot_hold_are_refused(read: Read) -> None:
    entry = text(b"list") + struct.pack("<IIQ", _ARRAY, _U32, 1 << 20) + b"\0" * 16
    with pytest.raises(Damaged, match="cut short"):
        next(read(head(entry)))


@pytest.mark.parametrize("end", range(4, len(head(words(b"list", b"abc"), NUMBER))))
def test_a_file_cut_anywhere_is_said_to_be_damaged(read: Read, end: int) -> None:
    with pytest.raises(Damaged):
        list(read(head(words(b"list", b"abc"), NUMBER)[:end]))


def test_tensors_lie_where_the_header_ends(tmp_path: Path) -> None:
    path = make_lora(tmp_path / "lora.gguf")
    values, tensors = contents(path)
    assert values["general.type"] == "adapter" and values["adapter.lora.alpha"] == 3.0
    for name, (a, b) in lora_halves(1).items():
        for half, wanted in (("a", a), ("b", b)):
            tensor = next(t for t in tensors if t.name == f"{name}.lora_{half}")
            assert tensor.shape == wanted.shape[::-1] and tensor.kind == 0
            found = np.fromfile(path, "<f4", wanted.size, offset=tensor.offset)
            assert np.array_equal(found, wanted.ravel())


@given(st.integers(0, 10_000), st.binary(max_size=12))
def test_a_damaged_head_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, new: bytes
) -> None:
    path = make_lora(tmp_path_factory.mktemp("gguf") / "lora.gguf")
    data = path.read_bytes()
    at %= len(data)
    path.write_bytes(data[:at] + new if len(new) % 2 else data[:at] + new + data[at + len(new) :])
    with contextlib.suppress(Damaged):
        contents(path)
