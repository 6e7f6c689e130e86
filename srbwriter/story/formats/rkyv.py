"""Reading archives of rkyv 0.8, a serialisation of Rust's data structures.

An archive is an image of memory: structures with their fields in order, each aligned to its size, and
relative offsets from the offset's own address to the data. The root structure is at the very end. An archive
does not describe its types, so the reader has to know them.

Source: rkyv's book, chapter "Format", and the layout of its ``Archived`` types, for the features
``little_endian``, ``aligned`` and ``pointer_width_32``, which are its default.
"""

from __future__ import annotations

from collections.abc import Iterator

from srbwriter.story.formats.base import FormatError

OPTION_ALIGNED_16 = 16
"""Bytes from a tag to its value, for values aligned to 16 bytes."""

_POINTER = 4
_INLINE = 8
"""Most bytes of a text that is stored inline, in place of its length and offset."""

_EMPTY = 0x80
"""A control byte from here on is that of an empty bucket."""


class Archive:
    """The bytes of an archive; every position is checked before it is read.

    Methods raise :class:`FormatError` for positions outside the archive.  ``start`` is where the archive
    begins in its file, for messages.
    """

    def __init__(self, data: bytes, file: str, start: int = 0) -> None:
        self._data = data
        self._file = file
        self._start = start

    def __len__(self) -> int:
        return len(self._data)

    def error(self, at: int, expected: str) -> FormatError:
        return FormatError(self._file, f"byte {self._start + at}", expected)

    def bytes(self, at: int, length: int) -> bytes:
        if not 0 <= at <= at + length <= len(self._data):
            raise self.error(max(at, 0), f"{length} bytes of a weave; the file is damaged or cut off")
        return self._data[at : at + length]

    def number(self, at: int, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.bytes(at, size), "little", signed=signed)

    def flag(self, at: int) -> bool:
        value = self.number(at, 1)
        if value > 1:
            raise self.error(at, "a flag, 0 or 1")
        return bool(value)

    def target(self, at: int) -> int:
        """Where the relative pointer at ``at`` points to."""
        return at + self.number(at, _POINTER, signed=True)

    def text(self, at: int) -> str:
        """``ArchivedString``: short ones in place, else a length whose seventh and eighth bit are 01."""
        head = self.bytes(at, _INLINE)
        if head[0] & 0xC0 != 0x80:
            raw = head.partition(b"\xff")[0]
        else:
            length = int.from_bytes(head[:4], "little")
            length = length & 0x3F | (length & ~0xFF) >> 2
            raw = self.bytes(at + int.from_bytes(head[4:], "little", signed=True), length)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(at, f"a text in UTF-8 ({error.reason})") from error

    def vector(self, at: int, size: int) -> list[int]:
        """``ArchivedVec``: the positions of its items, each ``size`` bytes long."""
        count = self.number(at + _POINTER, 4)
        start = self.target(at) if count else at
        self.bytes(start, count * size)
        return [start + size * index for index in range(count)]

    def index_entries(self, at: int, size: int) -> list[int]:
        """``ArchivedIndexMap`` and ``-Set``: the positions of the entries, in the order they were put in."""
        count = self.number(at + _POINTER, 4)
        start = self.target(at + 3 * _POINTER) if count else at
        self.bytes(start, count * size)
        return [start + size * index for index in range(count)]

    def table_entries(self, at: int, size: int) -> Iterator[int]:
        """``ArchivedHashMap``: the positions of the entries, in no order.

        The buckets lie before the control bytes, of which there is one for each, from the last to the first.
        """
        count, capacity = self.number(at + _POINTER, 4), self.number(at + 2 * _POINTER, 4)
        if not count:
            return
        controls = self.target(at)
        full = [index for index, byte in enumerate(self.bytes(controls, capacity)) if byte < _EMPTY]
        if len(full) != count:
            raise self.error(at, f"a table of {count} entries; {len(full)} are there")
        self.bytes(controls - size * capacity, size * capacity)
        for index in full:
            yield controls - size * (index + 1)
