"""Checksums of rows, and checks that rows hold values of the right types.

A checksum proves that a row is unchanged, but not that this program wrote it. The steps of
:mod:`srbwriter.story.migrations` write checksums, so their definition must never change. Rows are tuples in
the order of their columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints
from zlib import crc32

from srbwriter.story.model import AUTHORS, Settings, State, settings_from

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""The errors that Python raises for rows with values of wrong types."""
_STATES = frozenset(map(int, State))

_VALUES: dict[str, Any] = {
    **dict.fromkeys(("title", "author", "language", "uuid"), str | None),
    "current": int,
    **dict.fromkeys(("head", "touched"), int),
    "draft": dict[str, Any] | None,
}
_PAIRS = "gaps", "written"
_LATEST = 2**38
"""Unix seconds, far in the future, that every calendar still has a day for."""


_as_json = json.JSONEncoder(check_circular=False).encode


def row_sum(*fields: object) -> int:
    """Return a CRC-32 of the fields of a row as SQLite returns them: 1, 1.0 and True are the same there."""
    plain = [int(f) if isinstance(f, (bool, float)) and f == f // 1 else f for f in fields]
    return crc32(_as_json(plain).encode())


def text_sum(node: int, text: str) -> int:
    """Return a CRC-32 of the text of a node."""
    return crc32(text.encode(), crc32(b"%d\0" % node))


def body_sum(node: int, text: str, runs: bytes | None, *rest: object) -> int:
    """Return both checksums of a body row: of the text in the low 32 bits, of the rest in the next 31."""
    return text_sum(node, text) | (crc32(runs or b"", row_sum(node, *rest)) & 0x7FFF_FFFF) << 32


def value_fits(key: str, value: object) -> bool:
    """Whether the story-wide value ``key`` can be ``value``."""
    if key not in _PAIRS:
        return key not in _VALUES or _is_of(value, _VALUES[key])
    pairs = value if key == "gaps" else [value]
    return _is_of(pairs, list[list[int]]) and all(len(pair) == 2 for pair in cast(list[list[int]], pairs))


def entry_fits(row: tuple[Any, ...]) -> bool:
    """Whether ``row``, the columns of :class:`~srbwriter.story.tree.Entry`, can be an index entry."""
    node, parent, place, state, author, chars, words, edges, flags, rating, *texts, created = row
    return (
        all(isinstance(number, int) for number in (node, place, flags, rating))
        and isinstance(parent, int | NoneType)
        and isinstance(state, int)
        and state in _STATES
        and author in AUTHORS
        and all(isinstance(size, int) and size >= 0 for size in (chars, words, edges))
        and all(isinstance(text, str | NoneType) for text in texts)
        and isinstance(created, int | float)
        and math.isfinite(created)
    )


def action_fits(row: tuple[Any, ...]) -> bool:
    """Whether ``row``, the columns of :class:`~srbwriter.story.history.Action`, can be an action."""
    number, parent, verb, node, at, was, became, typed, picked, touched, changes = row
    numbers = (number, parent, node, was, became, typed, picked, touched)
    return (
        all(isinstance(each, int) for each in numbers)
        and isinstance(verb, str)
        and isinstance(at, int | float)
        and 0 <= at < _LATEST
        and isinstance(changes, str)
    )


def numbers_fit(numbers: Iterable[object]) -> bool:
    """Whether all of them are finite numbers."""
    return all(isinstance(each, int | float) and math.isfinite(each) for each in numbers)


def body_fits(row: tuple[Any, ...]) -> bool:
    """Whether ``row``, a node's number and its body, can be a row of bodies."""
    node, text, runs, recipe, seed, finish, settings, meta, name = row
    return (
        isinstance(node, int)
        and isinstance(text, str)
        and isinstance(runs, bytes | NoneType)
        and isinstance(recipe, int | NoneType)
        and isinstance(seed, int | NoneType)
        and isinstance(finish, str)
        and isinstance(name, str | NoneType)
        and (settings is None or settings_fit(settings))
        and (meta is None or is_object(meta))
    )


def is_object(text: object) -> bool:
    """Whether ``text`` is a JSON object."""
    with suppress(*UNREADABLE):
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    return False


def settings_fit(text: object) -> bool:
    """Whether ``text`` is the JSON of settings."""
    with suppress(*UNREADABLE):
        return isinstance(text, str) and _is_of(settings_from(text), Settings)
    return False


def _is_of(value: Any, kind: Any) -> bool:
    """Whether ``value`` and all values in it are of the type ``kind``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_is_of(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(_is_of(each, inner[0]) for each in cast(list[Any], value))
    if origin is dict:
        return isinstance(value, dict)
    if is_dataclass(kind):
        hints = _hints_of(cast(type, kind)).items()
        return isinstance(value, cast(type, kind)) and all(_is_of(getattr(value, n), k) for n, k in hints)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


@cache
def _hints_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
