"""Values packed by msgpackr, the JavaScript library: MessagePack with its own additions.

Plain MessagePack is read by the ``msgpack`` library. The additions, as in msgpackr's reader:

* records: extension ``r`` gives a list of names to a byte from 0x40 to 0x7f, and values follow; that byte
  later marks another record of the same names.
* bundled strings: extension ``b`` gives the places of two long texts; 0xc1 and a length takes the next piece
  of the second, or, with a negative length, of the first.  Lengths count UTF-16 units.
* extensions with content: one of a single byte that says nothing, with an ordinary value after it.
* references: extension ``i`` numbers the value after it, ``p`` refers to the value of that number.

It knows no story format.
"""

from __future__ import annotations

from typing import Any, cast

DEEPEST = 200
"""How deep values may be nested."""

_RECORD, _BUNDLE, _SET, _NUMBERED, _POINTER = 0x72, 0x62, 0x73, 0x69, 0x70
_BIGGEST_OWN_TYPE = 0x3F
"""Extensions up to this number belong to the program that packed; those above are msgpackr's own."""

_EMPTY, _PIECE, _EXTENSION_OF_ONE, _EXTENSION_OF_TWO = 0, 0xC1, 0xD4, 0xD5
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, 0xD5, 0xD6, 0xD7, 0xD8))
_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Texts that are not short: how many bytes their length has."""


class PackedError(ValueError):
    """The bytes are not what msgpackr writes; the message says where."""


def unpack(data: bytes) -> Any:
    """The value in ``data``.  Raises :class:`PackedError`.

    Objects and maps become dictionaries, whose keys may be of any kind that can be one; sets become lists,
    dates seconds (UTC), what JavaScript calls undefined ``None``, and half an emoji U+FFFD.
    """
    reader = _Reader(data)
    try:
        return reader.value(0)
    except PackedError:
        raise
    except Exception as error:  # the library's own errors have no class in common
        raise PackedError(f"near byte {reader.position}: {error or type(error).__name__}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._unpacker = _unpacker(data)
        self._records: dict[int, list[str]] = {}
        self._numbered: dict[bytes, Any] = {}
        self._bundle = (b"", b"")  # in UTF-16
        self._taken = [0, 0]

    @property
    def position(self) -> int:
        return self._unpacker.tell()

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise PackedError(f"byte {self.position}: values nested at most {DEEPEST} deep")
        token, kind, number = self._peek()
        if 0x40 <= token < 0x80 and token in self._records:
            self._unpacker.read_bytes(1)
            return self._record(self._records[token], depth)
        if token == _PIECE:
            self._unpacker.read_bytes(1)
            return self._piece(self._unpacker.unpack())
        if token == _EXTENSION_OF_ONE:
            self._unpacker.read_bytes(3)
            return self._small_extension(kind, number, depth)
        if token == _EXTENSION_OF_TWO and kind == _RECORD:
            raise PackedError(f"byte {self.position}: at most 64 kinds of records")
        if token in _EXTENSIONS:
            return self._extension(depth)
        if token in (0xDC, 0xDD) or 0x90 <= token < 0xA0:
            return [self.value(depth + 1) for _ in range(self._unpacker.read_array_header())]
        if token in (0xDE, 0xDF) or 0x80 <= token < 0x90:
            return self._map(depth)
        return self._unpacker.unpack()

    def _peek(self) -> tuple[int, int, int]:
        start = self.position
        if start >= len(self._data):
            raise PackedError(f"byte {start}: more bytes; the data is cut off")
        three = self._data[start : start + 3].ljust(3, b"\0")
        return three[0], three[1], three[2]

    def _map(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in range(self._unpacker.read_map_header()):
            key = self.value(depth + 1)
            found[key] = self.value(depth + 1)
        return found

    def _record(self, names: list[str], depth: int) -> dict[str, Any]:
        return {name: self.value(depth + 1) for name in names}

    def _piece(self, length: Any) -> str:
        if not isinstance(length, int):
            raise PackedError(f"byte {self.position}: a length")
        which, size = (1, 2 * length) if length > 0 else (0, -2 * length)
        start = self._taken[which]
        self._taken[which] = start + size
        return self._bundle[which][start : start + size].decode("utf-16-le", "replace")

    def _small_extension(self, kind: int, number: int, depth: int) -> Any:
        if kind == _EMPTY:
            return None
        if kind == _RECORD:
            names = self.value(depth + 1)
            self._records[0x40 | number & 0x3F] = [str(name) for name in names]
            return self._record(self._records[0x40 | number & 0x3F], depth)
        if kind == _SET or kind <= _BIGGEST_OWN_TYPE:
            return self.value(depth + 1)
        raise PackedError(f"byte {self.position}: an extension that is known, not {kind}")

    def _extension(self, depth: int) -> Any:
        found = self._unpacker.unpack()
        if isinstance(found, float | int):
            return found  # a date
        kind, content = cast(tuple[int, bytes], found)
        if kind == _BUNDLE:
            self._open_bundle(self.position - len(content) + int.from_bytes(content[:4]))
            return self.value(depth)
        if kind == _NUMBERED:
            self._numbered[content] = None  # a value that holds itself has a gap there
            self._numbered[content] = self.value(depth)
            return self._numbered[content]
        if kind == _POINTER:
            return self._numbered[content]
        raise PackedError(f"byte {self.position}: an extension that is known, not {kind}")

    def _open_bundle(self, start: int) -> None:
        wide, end = self._text_at(start)
        narrow, _ = self._text_at(end)
        self._bundle = (wide.encode("utf-16-le", "replace"), narrow.encode("utf-16-le", "replace"))
        self._taken = [0, 0]

    def _text_at(self, start: int) -> tuple[str, int]:
        """Return the text at a byte, and its end."""
        token = self._data[start]
        size = _LENGTH_BYTES.get(token, 0)
        length = int.from_bytes(self._data[start + 1 : start + 1 + size]) if size else token & 0x1F
        begin = start + 1 + size
        if not size and not 0xA0 <= token < 0xC0 or begin + length > len(self._data):
            raise PackedError(f"byte {start}: a text")
        return self._data[begin : begin + length].decode("utf-8", "replace"), begin + length


def _unpacker(data: bytes) -> Any:
    import msgpack  # only files of one program need it

    library = cast(Any, msgpack)  # has no types
    unpacker = library.Unpacker(
        raw=False, strict_map_key=False, unicode_errors="replace", timestamp=1, max_buffer_size=len(data) + 1
    )
    unpacker.feed(data)
    return unpacker
