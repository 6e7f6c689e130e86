"""Packs values as msgpackr, the JavaScript library, does: what the reader of it is tested against.

Written from msgpackr's own reader; ``make_novelai_document.mjs`` makes a file with the library itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgpack


@dataclass(frozen=True)
class Extension:
    """A value inside an extension of the program that packs, such as NovelAI's 20 around a document."""

    kind: int
    value: Any


@dataclass(frozen=True)
class Record:
    """An object, packed as a record; a plain dictionary is a map."""

    fields: dict[str, Any]


@dataclass(frozen=True)
class Set:
    members: list[Any]


@dataclass(frozen=True)
class Numbered:
    """A value with a number, which a ``Pointer`` can stand for afterwards."""

    number: int
    value: Any


@dataclass(frozen=True)
class Pointer:
    number: int


class _Undefined:
    pass


UNDEFINED = _Undefined()


def pack(value: Any, *, most_bundled: int = 0x5500) -> bytes:
    """The bytes of a value; texts of 4 to 4095 characters are bundled, at most so many together."""
    packer = _Packer(most_bundled)
    packer.add(value)
    return packer.finished()


class _Packer:
    def __init__(self, most_bundled: int) -> None:
        self._out = bytearray()
        self._plain = msgpack.Packer(autoreset=True)
        self._records: dict[tuple[str, ...], int] = {}
        self._most = most_bundled
        self._size = 0
        self._texts = ["", ""]
        self._reference: int | None = None

    def finished(self) -> bytes:
        self._write_bundle()
        return bytes(self._out)

    def add(self, value: Any) -> None:
        match value:
            case Extension(kind, inner):
                self._out += bytes((0xD4, kind, 0))
                self.add(inner)
            case Record(fields):
                self._add_record(fields)
            case Set(members):
                self._out += b"\xd4\x73\0"
                self.add(members)
            case Numbered(number, inner):
                self._out += b"\xd6\x69" + number.to_bytes(4)
                self.add(inner)
            case Pointer(number):
                self._out += b"\xd6\x70" + number.to_bytes(4)
            case _Undefined():
                self._out += b"\xd4\0\0"
            case datetime():
                self._out += self._plain.pack(msgpack.Timestamp.from_datetime(value))
            case dict():
                self._out += self._plain.pack_map_header(len(value))
                for key, inner in value.items():
                    self.add(key)
                    self.add(inner)
            case list():
                self._out += self._plain.pack_array_header(len(value))
                for inner in value:
                    self.add(inner)
            case str() if 4 <= _units(value) < 0x1000:
                self._add_text(value)
            case bool():
                self._out += self._plain.pack(value)
            case int() if value >= 2**32:  # as in JavaScript, where it is a float
                self._out += b"\xcb" + struct.pack(">d", value)
            case int() if 0x40 <= value < 0x80:  # those bytes stand for records
                self._out += bytes((0xCC, value))
            case _:
                self._out += self._plain.pack(value)

    def _add_record(self, fields: dict[str, Any]) -> None:
        names = tuple(fields)
        if names in self._records:
            self._out.append(self._records[names])
        else:
            self._records[names] = number = 0x40 + len(self._records)
            assert number < 0x60, "too many kinds of records"
            self._out += bytes((0xD4, 0x72, number))
            self.add(list(names))
        for inner in fields.values():
            self.add(inner)

    def _add_text(self, text: str) -> None:
        self._size += _units(text)
        if self._reference is None or self._size > self._most:
            self._next_bundle()
            self._size = 0
        wide = any(char > "\xff" for char in text)
        self._texts[0 if wide else 1] += text
        self._out.append(0xC1)
        self.add(-_units(text) if wide else _units(text))

    def _next_bundle(self) -> None:
        """An extension that says where the next bundle will be; behind the first, it holds the one before."""
        if self._reference is None:
            self._out += b"\xd6\x62"
            start = len(self._out)
            self._out += bytes(4)
        else:
            at = len(self._out)
            self._out += b"\xc8\0\0\x62"
            start = len(self._out)
            self._out += bytes(4)
            self._write_bundle()
            self._out[at + 1 : at + 3] = (len(self._out) - start).to_bytes(2)
        self._reference, self._texts = start, ["", ""]

    def _write_bundle(self) -> None:
        if self._reference is None:
            return
        self._out[self._reference : self._reference + 4] = (len(self._out) - self._reference).to_bytes(4)
        for text in self._texts:
            self._out += self._plain.pack(text)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
