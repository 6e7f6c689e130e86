"""The head of a GGUF file: its key-value pairs, one after the other, and its tensors. Knows no model.

Any bytes are safe: lengths are checked against the file before they are used. A list is read only on request,
so that a vocabulary is skipped where its tokens do not matter. The format is
that of ``ggml/docs/gguf.md``, versions 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, cast

Scalar: TypeAlias = "int | float | bool | str"

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""enum gguf_type → code of ``struct``."""

_MOST_KEYS = _MOST_TENSORS = 1 << 16
_MOST_DIMENSIONS, _ALIGNMENT = 4, 32
_LONG_TEXT = 1 << 20
"""Texts up to this many bytes are kept."""
_MOST_ENTRIES = 1 << 21
"""No vocabulary has more; a damaged length must not keep anyone waiting."""

_AGAIN = "the file is damaged or cut short: download it again"


class Damaged(Exception):
    """The file is not what it should be: ``problem`` says how, ``cure`` what to do."""

    def __init__(self, problem: str, cure: str = _AGAIN) -> None:
        self.problem, self.cure = problem, cure
        super().__init__(problem)


def is_gguf(path: Path) -> bool:
    """Whether a file begins as GGUF files do; False for one that is missing or cannot be read."""
    if not path.is_file():  # a pipe would keep us waiting
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class Array:
    """A list in the file, ``length`` long, not read yet."""

    def __init__(self, reader: _Reader, kind: int, length: int) -> None:
        self._reader, self._kind, self.length = reader, kind, length
        self._left = length  # entries

    @property
    def holds_texts(self) -> bool:
        return self._kind == _STRING

    def numbers(self) -> list[int | float | bool]:
        """The numbers or truths it holds. Raises Damaged when they end early."""
        self._check()
        self._left = 0
        code = f"<{self.length}{_SCALARS[self._kind]}"
        return list(struct.unpack(code, self._reader.bytes(struct.calcsize(code))))

    def texts(self) -> Iterator[bytes]:
        """The texts it holds, as they are spelt in the file. Raises Damaged when they end early."""
        self._check()
        while self._left:
            self._left -= 1
            yield self._reader.bytes(self._reader.length())

    def pass_by(self) -> None:
        """Move to the next value, even if this one was read only in part."""
        if not self.holds_texts:
            self._reader.skip(self._left * struct.calcsize(_SCALARS[self._kind]))
            return
        self._check()
        for _ in range(self._left):
            self._reader.skip(self._reader.length())

    def _check(self) -> None:
        if self.length > _MOST_ENTRIES:
            raise Damaged(f"its header claims a list of {self.length} entries")


def pairs(file: BinaryIO, size: int) -> Iterator[tuple[str, Scalar | Array]]:
    """Yield the pairs of a header in the first ``size`` bytes of ``file``.

    An ``Array`` can be read until the next pair is read. Raises Damaged.
    """
    reader = _Reader(file, size)
    yield from _pairs(reader, _counts(reader)[1])


class Tensor(NamedTuple):
    """Where the numbers of a tensor lie: ``shape`` begins with neighbours, ``kind`` is a ggml_type."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int  # from the start of the file

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def contents(file: BinaryIO, size: int) -> tuple[dict[str, Scalar], list[Tensor]]:
    """The pairs of a file that are no lists, and all its tensors. Raises Damaged.

    Whether the numbers of a tensor lie within the file is not looked at.
    """
    reader = _Reader(file, size)
    tensors, keys = _counts(reader)
    values = {key: value for key, value in _pairs(reader, keys) if not isinstance(value, Array)}
    found = [_tensor(reader) for _ in range(tensors)]
    alignment = values.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise Damaged("its header claims an alignment that cannot be")
    start = -(-reader.position // alignment) * alignment
    return values, [tensor._replace(offset=start + tensor.offset) for tensor in found]


def _tensor(reader: _Reader) -> Tensor:
    name, dimensions = reader.text(), reader.length("I")
    if dimensions > _MOST_DIMENSIONS:
        raise Damaged(f"its header claims a tensor of {dimensions} dimensions")
    shape = tuple(reader.length() for _ in range(dimensions))
    return Tensor(name, shape, reader.length("I"), reader.length())


def _pairs(reader: _Reader, count: int) -> Iterator[tuple[str, Scalar | Array]]:
    for _ in range(count):
        key, kind = reader.text(), reader.length("I")
        if kind != _ARRAY:
            yield key, _scalar(reader, kind)
            continue
        array = _array(reader)
        yield key, array
        array.pass_by()


class _Reader:
    """Little-endian values from a file that may end, or lie, anywhere."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left, self._size = file, size, size

    @property
    def position(self) -> int:
        return self._size - self._left

    def bytes(self, length: int) -> bytes:
        if length > self._left:
            raise Damaged("its header is cut short")
        data = self._file.read(length)
        if len(data) != length:
            raise Damaged("its header is cut short")
        self._left -= length
        return data

    def skip(self, length: int) -> None:
        if length > self._left:
            raise Damaged("its header is cut short")
        self._file.seek(length, 1)
        self._left -= length

    def scalar(self, code: str) -> int | float | bool:
        return cast("int | float | bool", struct.unpack(f"<{code}", self.bytes(struct.calcsize(code)))[0])

    def length(self, code: str = "Q") -> int:
        return int(self.scalar(code))

    def text(self) -> str:
        length = self.length()
        if length > _LONG_TEXT:
            self.skip(length)
            return ""
        return self.bytes(length).decode("utf-8", "replace")


def _counts(reader: _Reader) -> tuple[int, int]:
    """How many tensors and how many pairs follow the opening."""
    if reader.bytes(len(_MAGIC)) != _MAGIC:
        raise Damaged("not a GGUF file", "download or convert the model in GGUF format")
    version = reader.length("I")
    if version not in (2, 3):
        raise Damaged(
            f"GGUF version {version} is not known here", "convert it again, or install a newer srbwriter"
        )
    tensors, count = reader.length(), reader.length()
    if count > _MOST_KEYS:
        raise Damaged(f"its header claims {count} entries")
    if tensors > _MOST_TENSORS:
        raise Damaged(f"its header claims {tensors} tensors")
    return tensors, count


def _scalar(reader: _Reader, kind: int) -> Scalar:
    if kind == _STRING:
        return reader.text()
    if kind not in _SCALARS:
        raise Damaged(f"its header holds a value of the unknown type {kind}")
    return reader.scalar(_SCALARS[kind])


def _array(reader: _Reader) -> Array:
    kind, length = reader.length("I"), reader.length()
    if kind != _STRING and kind not in _SCALARS:
        raise Damaged(f"its header holds an array of the unknown type {kind}")
    return Array(reader, kind, length)
