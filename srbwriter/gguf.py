"""The head of a GGUF file: its key-value pairs, one after the other, and its tensors. Knows no model.

Any bytes are safe: lengths are checked against the file before they are used. A list is read only on request,
so that a vocabulary is skipped where its tokens do not matter. The format is that of ``ggml/docs/gguf.md``,
versions 2 and 3.
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

_MOST = 1 << 16  # keys, and tensors
_MOST_DIMENSIONS, _ALIGNMENT = 4, 32
_LONG_TEXT = 1 << 20  # bytes; longer texts are not kept
_MOST_ENTRIES = 1 << 21  # no vocabulary has more; a damaged length must not keep anyone waiting


class Damaged(Exception):
    """The file is not what it should be: ``problem`` says how, ``cure`` what to do."""

    def __init__(
        self, problem: str, cure: str = "the file is damaged or cut short: download it again"
    ) -> None:
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


class _Reader:
    """Little-endian values from the first bytes of a file that may end, or lie, anywhere."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._left = file, size, size
        if self.bytes(len(_MAGIC)) != _MAGIC:
            raise Damaged("not a GGUF file", "download or convert the model in GGUF format")
        if (version := self.number("I")) not in (2, 3):
            cure = "convert it again, or install a newer srbwriter"
            raise Damaged(f"GGUF version {version} is not known here", cure)
        self.tensors, self.keys = self.number(), self.number()
        for count, what in ((self.keys, "entries"), (self.tensors, "tensors")):
            if count > _MOST:
                raise Damaged(f"its header claims {count} {what}")

    @property
    def position(self) -> int:
        return self._size - self._left

    def bytes(self, length: int) -> bytes:
        data = self._file.read(length) if length <= self._left else b""
        if len(data) != length:
            raise Damaged("its header is cut short")
        self._left -= length
        return data

    def skip(self, length: int) -> None:
        if length > self._left:
            raise Damaged("its header is cut short")
        self._file.seek(length, 1)
        self._left -= length

    def number(self, code: str = "Q") -> int:
        return struct.unpack(f"<{code}", self.bytes(struct.calcsize(code)))[0]

    def text(self) -> str:
        length = self.number()
        if length > _LONG_TEXT:
            self.skip(length)
            return ""
        return self.bytes(length).decode("utf-8", "replace")

    def pairs(self) -> Iterator[tuple[str, Scalar | Array]]:
        for _ in range(self.keys):
            key, kind = self.text(), self.number("I")
            if kind == _ARRAY:
                array = Array(self, self.number("I"), self.number())
                yield key, array
                array.pass_by()
            elif kind == _STRING:
                yield key, self.text()
            elif kind in _SCALARS:
                yield key, self.number(_SCALARS[kind])
            else:
                raise Damaged(f"its header holds a value of the unknown type {kind}")


class Array:
    """A list in the file, ``length`` long, not read yet."""

    def __init__(self, reader: _Reader, kind: int, length: int) -> None:
        if kind != _STRING and kind not in _SCALARS:
            raise Damaged(f"its header holds an array of the unknown type {kind}")
        self._reader, self.length, self._left = reader, length, length
        self.holds_texts = kind == _STRING
        self._code = _SCALARS.get(kind, "")

    def numbers(self) -> list[int | float | bool]:
        """Read the numbers or truths it holds. Raises Damaged when they end early."""
        self._check()
        self._left = 0
        code = f"<{self.length}{self._code}"
        return list(struct.unpack(code, self._reader.bytes(struct.calcsize(code))))

    def texts(self) -> Iterator[bytes]:
        """Read the texts it holds, as they are spelt in the file. Raises Damaged when they end early."""
        self._check()
        while self._left:
            self._left -= 1
            yield self._reader.bytes(self._reader.number())

    def pass_by(self) -> None:
        """Move to the next value, even if this one was read only in part."""
        if not self.holds_texts:
            self._reader.skip(self._left * struct.calcsize(self._code))
            return
        self._check()
        for _ in range(self._left):
            self._reader.skip(self._reader.number())

    def _check(self) -> None:
        if self.length > _MOST_ENTRIES:
            raise Damaged(f"its header claims a list of {self.length} entries")


def pairs(file: BinaryIO, size: int) -> Iterator[tuple[str, Scalar | Array]]:
    """Yield the pairs of a header in the first ``size`` bytes of ``file``.

    An ``Array`` can be read until the next pair is read. Raises Damaged.
    """
    yield from _Reader(file, size).pairs()


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
    """Return the pairs of a file that are no lists, and all its tensors. Raises Damaged.

    Whether the numbers of a tensor lie within the file is not looked at.
    """
    reader = _Reader(file, size)
    values = {key: value for key, value in reader.pairs() if not isinstance(value, Array)}
    found: list[Tensor] = []
    for _ in range(reader.tensors):
        name, dimensions = reader.text(), reader.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise Damaged(f"its header claims a tensor of {dimensions} dimensions")
        shape = tuple(reader.number() for _ in range(dimensions))
        found.append(Tensor(name, shape, reader.number("I"), reader.number()))
    alignment = cast("object", values.get("general.alignment", _ALIGNMENT))
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise Damaged("its header claims an alignment that cannot be")
    start = -(-reader.position // alignment) * alignment
    return values, [tensor._replace(offset=start + tensor.offset) for tensor in found]
