"""The head of a GGUF file: its key-value pairs, one after the other, and its tensors. Knows no model.

Any bytes are safe: lengths are checked against the file before they are used. Texts of a list are read only
on request, so that a vocabulary is skipped where its tokens do not matter. The format is that of
``ggml/docs/gguf.md``, versions 2 and 3.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Scalar: TypeAlias = "int | float | bool | str"
Value: TypeAlias = "Scalar | list[int | float | bool] | Texts"

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""enum gguf_type → code of ``struct``."""

_MOST = 1 << 16  # keys, and tensors
_MOST_DIMENSIONS, _ALIGNMENT = 4, 32
_MOST_ENTRIES = 1 << 21  # no vocabulary has more; a damaged length must not keep anyone waiting


class Damaged(Exception):
    """The file is not what it should be: ``problem`` says how, ``cure`` what to do."""

    def __init__(
        self, problem: str, cure: str = "the file is damaged or cut short: download it again"
    ) -> None:
        self.problem, self.cure = problem, cure
        super().__init__(problem)


class _Head:
    """Little-endian values from the beginning of a file that may end, or lie, anywhere."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            try:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise Damaged("its header is cut short") from None  # it is empty
        self.at = len(_MAGIC)
        if self.data[: self.at] != _MAGIC:
            raise Damaged("not a GGUF file", "download or convert the model in GGUF format")
        if (version := self.number("I")) not in (2, 3):
            cure = "convert it again, or install a newer srbwriter"
            raise Damaged(f"GGUF version {version} is not known here", cure)
        self.tensors, self.keys = self.number("Q"), self.number("Q")
        for count, what in ((self.keys, "entries"), (self.tensors, "tensors")):
            if count > _MOST:
                raise Damaged(f"its header claims {count} {what}")

    def numbers(self, codes: str) -> tuple[Any, ...]:
        try:
            found = struct.unpack_from(f"<{codes}", self.data, self.at)
        except (struct.error, OverflowError):
            raise Damaged("its header is cut short") from None
        self.at += struct.calcsize(f"<{codes}")
        return found

    def number(self, code: str) -> int:
        return self.numbers(code)[0]

    def text(self) -> bytes:
        return self.numbers(f"{min(self.number('Q'), len(self.data))}s")[0]

    def value(self) -> Value:
        kind, count = self.number("I"), -1
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
            if count > _MOST_ENTRIES:
                raise Damaged(f"its header claims a list of {count} entries")
        if kind == _STRING:
            return self.text().decode("utf-8", "replace") if count < 0 else Texts(self, count)
        if kind not in _SCALARS:
            raise Damaged(f"its header holds a value of the unknown type {kind}")
        found = self.numbers(f"{abs(count)}{_SCALARS[kind]}")
        return found[0] if count < 0 else list(found)


class Texts:
    """A list of texts in the file. Iterating reads them, as they are spelt there. Raises Damaged."""

    def __init__(self, head: _Head, length: int) -> None:
        self._head, self._start, self._length = head, head.at, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        self._head.at = self._start
        return (self._head.text() for _ in range(self._length))

    def pass_by(self) -> None:
        """Go to what follows the list."""
        data, at, length = self._head.data, self._start, struct.Struct("<Q").unpack_from
        try:
            for _ in range(self._length):
                at += 8 + length(data, at)[0]
        except (struct.error, OverflowError):
            raise Damaged("its header is cut short") from None
        self._head.at = at


def _pairs(head: _Head) -> Iterator[tuple[str, Value]]:
    for _ in range(head.keys):
        key, value = head.text().decode("utf-8", "replace"), head.value()
        yield key, value
        if isinstance(value, Texts):
            value.pass_by()


def pairs(path: Path) -> Iterator[tuple[str, Value]]:
    """Yield the pairs of a header. Raises Damaged, OSError."""
    yield from _pairs(_Head(path))


class Tensor(NamedTuple):
    """Where the numbers of a tensor lie: ``shape`` begins with neighbours, ``kind`` is a ggml_type."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int  # from the start of the file


def contents(path: Path) -> tuple[dict[str, Scalar], list[Tensor]]:
    """Return the pairs of a file that are no lists, and all its tensors. Raises Damaged, OSError.

    Whether the numbers of a tensor lie within the file is not looked at.
    """
    head = _Head(path)
    values = {key: value for key, value in _pairs(head) if not isinstance(value, list | Texts)}
    found: list[Tensor] = []
    for _ in range(head.tensors):
        name, dimensions = head.text().decode("utf-8", "replace"), head.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise Damaged(f"its header claims a tensor of {dimensions} dimensions")
        found.append(Tensor(name, head.numbers(f"{dimensions}Q"), head.number("I"), head.number("Q")))
    alignment = values.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise Damaged("its header claims an alignment that cannot be")
    start = -(-head.at // alignment) * alignment
    return values, [tensor._replace(offset=start + tensor.offset) for tensor in found]
