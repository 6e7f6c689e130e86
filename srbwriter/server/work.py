"""Work that would keep other clients waiting leaves the event loop, and no one call holds the interpreter.

The rule: what takes more than 5 ms of processor time runs on a thread. A thread alone is no help where a
single call keeps Python's lock for longer, as ``json.loads`` of some megabytes does (0.4 s for 6 MB of small
lists); so large JSON is read and written here in slices, each some tens of microseconds to a millisecond.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar, cast

from srbwriter.engine.limits import CONTAINERS, DEPTH, NUMBERS, too_deep

from .errors import ApiError

T = TypeVar("T")

MOST_SECONDS = 0.005
"""Processor time that the event loop gives to one piece of work."""

PER_BYTE = 2.5e-7
"""Seconds to read a byte of a request, or to make a token's share of it: measured, and rounded up."""

PER_ENTRY = 2e-6
"""Seconds to write one number with its token: a log-probability, an id with its piece, an event."""

LARGE = int(MOST_SECONDS / PER_BYTE)
"""Bytes of JSON that are read at once, and characters of text that are looked at on the loop."""

_THREADS = ThreadPoolExecutor(4, "srbwriter-work")  # few: each competes with the loop for the interpreter
_SLICE = 16_384  # characters, or entries of a list, that one call looks at


async def off_loop(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of ``work``; run it on a thread when it is estimated to take more than 5 ms."""
    if seconds <= MOST_SECONDS:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


# ---- reading


async def read_json(raw: bytes) -> Any:
    """Parse a body, on a thread where that takes long. Raises ApiError (400)."""
    if len(raw) <= LARGE:
        return parse(raw)
    return await off_loop(len(raw) * PER_BYTE, lambda: parse(raw))


def parse(raw: bytes) -> Any:
    """Parse standard JSON, up to the depth that is allowed. Raises ApiError (400)."""
    try:
        text = raw.decode("utf-8")
        value = _DECODER.decode(text) if len(raw) <= LARGE else _Sliced(text).read()
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if len(raw) <= LARGE and raw.count(b"[") + raw.count(b"{") > DEPTH and too_deep(value):
        raise ApiError(400, f"the body is nested too deeply: more than {DEPTH} lists and objects")
    return _mended(value) if b"\\u" in raw else value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_scan = cast("Callable[[str, int], tuple[Any, int]]", cast("Any", _DECODER).scan_once)
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBERS = re.compile(rf"[-+0-9.eE, \t\n\r]{{1,{_SLICE}}}")
_LETTERS = re.compile(rf'(?:[^"\\]|\\u[0-9a-fA-F]{{4}}|\\.){{0,{_SLICE}}}', re.S)


class _Sliced:
    """One large JSON text, read in short steps: lists and objects here, numbers and texts by slices in C."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._containers, self._numbers_left = CONTAINERS, NUMBERS

    def read(self) -> Any:
        """The value. Raises ValueError, and ApiError where it is too deep."""
        self._at = self._past_space(0)
        value = self._value(0)
        if self._at != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, self._at)
        return value

    def _past_space(self, at: int) -> int:
        return cast("re.Match[str]", _SPACE.match(self._text, at)).end()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, wanted: str) -> None:
        if self._next() != wanted:
            raise json.JSONDecodeError(f"Expecting {wanted!r}", self._text, self._at)
        self._at = self._past_space(self._at + 1)

    def _value(self, depth: int) -> Any:
        """The value that begins here; leaves its end, and the space after it, behind."""
        first = self._next()
        if first in ("[", "{"):
            if depth >= DEPTH:
                raise ApiError(400, f"the body is nested too deeply: more than {DEPTH} lists and objects")
            self._containers -= 1
            if self._containers < 0:
                raise ApiError(400, f"the body has more than {CONTAINERS} lists and objects")
            return self._list(depth + 1) if first == "[" else self._object(depth + 1)
        if first == '"':
            return self._string()
        try:
            value, end = _scan(self._text, self._at)
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, self._at) from None
        self._at = self._past_space(end)
        return value

    def _list(self, depth: int) -> list[Any]:
        self._take("[")
        items: list[Any] = []
        while self._next() != "]" or items:
            items += self._numbers() or [self._value(depth)]
            if self._next() == "]":
                break
            self._take(",")
        self._take("]")
        return items

    def _numbers(self) -> list[Any]:
        """Return the consecutive numbers from here up to a comma or the list's end; may be empty."""
        run = _NUMBERS.match(self._text, self._at)
        if run is None:
            return []
        end = run.end()
        if self._text[end : end + 1] != "]":
            end = self._text.rfind(",", self._at, end)
            if end <= self._at:
                return []
        numbers = cast("list[Any]", _DECODER.decode(f"[{self._text[self._at : end]}]"))
        if numbers:
            self._at = end
        self._numbers_left -= len(numbers)
        if self._numbers_left < 0:
            raise ApiError(400, f"the body has more than {NUMBERS} numbers")
        return numbers

    def _object(self, depth: int) -> dict[str, Any]:
        self._take("{")
        fields: dict[str, Any] = {}
        while self._next() != "}" or fields:
            if self._next() != '"':
                raise json.JSONDecodeError(
                    "Expecting property name enclosed in double quotes", self._text, self._at
                )
            name = self._string()
            self._take(":")
            fields[name] = self._value(depth)
            if self._next() == "}":
                break
            self._take(",")
        self._take("}")
        return fields

    def _string(self) -> str:
        parts: list[str] = []
        start = self._at + 1
        while True:
            end = cast("re.Match[str]", _LETTERS.match(self._text, start)).end()
            if self._text[end : end + 1] != '"' and end == start:
                raise json.JSONDecodeError("Unterminated string starting at", self._text, self._at)
            parts.append(cast("str", _DECODER.decode(f'"{self._text[start:end]}"')))
            if self._text[end : end + 1] == '"':
                self._at = self._past_space(end + 1)
                return "".join(parts)
            start = end


def _mended(value: Any) -> Any:
    """Replace half surrogate pairs, which JSON can write and UTF-8 cannot, by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


# ---- writing


def encode(value: Any) -> bytes:
    """Return compact JSON, for small values."""
    return _dumps(value).encode()


def encode_large(value: Any) -> bytes:
    """The same bytes as :func:`encode` makes, slice by slice.

    An iterator is written as a list, some entries at a time, so that what it makes need not all be there: a
    million small objects cost the collector of garbage a fifth of a second each time it looks at them.
    """
    return "".join(_slices(value)).encode()


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once: ``json.dumps`` makes an encoder for each call."""


def _slices(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        before = "{"
        for name, item in cast("Mapping[str, Any]", value).items():
            yield f"{before}{_dumps(name)}:"
            yield from _slices(item)
            before = ","
        yield "}"
    elif isinstance(value, Iterator | list | tuple):
        yield from _list_slices(cast("Iterable[Any]", value))
    elif isinstance(value, str) and len(value) > _SLICE:
        yield '"'
        yield from (_dumps(value[k : k + _SLICE])[1:-1] for k in range(0, len(value), _SLICE))
        yield '"'
    else:
        yield _dumps(value)


def _list_slices(items: Iterable[Any]) -> Iterator[str]:
    """Small entries go out many at once."""
    before, few, room = "[", list[Any](), _MANY
    for item in items:
        size = _values(item, _MANY)
        if few and size > room:
            yield before + _dumps(few)[1:-1]
            before, few, room = ",", [], _MANY
        if size < _MANY:
            few.append(item)
            room -= size
        else:
            yield before
            yield from _slices(item)
            before = ","
    if few:
        yield before + _dumps(few)[1:-1]
    yield "]" if few or before == "," else "[]"


_MANY = 2000  # values that are written in one call


def _values(item: Any, most: int) -> int:
    """How many values an entry holds, itself included; it looks no further than ``most``."""
    if isinstance(item, Mapping):
        inner = cast("Iterable[Any]", item.values())
    elif isinstance(item, list | tuple):
        inner = cast("Iterable[Any]", item)
    else:
        return 1
    if len(cast("Sized", item)) >= most:
        return most
    count = 1
    for part in inner:
        count += _values(part, most - count) if isinstance(part, dict | list | tuple) else 1
        if count >= most:
            break
    return count
