"""Kinds of configuration values: how each is read, and its name in words. Knows no keys and no files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, LiteralString, NamedTuple, TypeVar, cast

from srbwriter.addresses import normal_address
from srbwriter.paths import expanded

T_co = TypeVar("T_co", covariant=True)
Word = TypeVar("Word", bound=LiteralString)
Exact = TypeVar("Exact", int, str, bool)
Item = TypeVar("Item")


class Kind(NamedTuple, Generic[T_co]):
    """One type of value.

    ``read`` takes a parsed TOML value, ``parse`` makes such a value of a flag or a variable; both raise
    ValueError for what they cannot read. ``expected`` completes "expected …". ``choices`` are all words it
    takes.
    """

    expected: str
    metavar: str
    read: Callable[[object], T_co]
    parse: Callable[[str], object] = str
    choices: tuple[str, ...] = ()


def _only(kind: type[Exact]) -> Callable[[object], Exact]:
    """Take values of exactly that type; truth is no number."""

    def read(value: object) -> Exact:
        if type(value) is kind:
            return value
        raise ValueError

    return read


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:  # infinity, NaN
        raise ValueError
    return float(value)


def _list(read: Callable[[object], Item]) -> Callable[[object], tuple[Item, ...]]:
    """Take lists of what ``read`` takes."""

    def read_all(value: object) -> tuple[Item, ...]:
        if not isinstance(value, list):
            raise ValueError
        return tuple(map(read, cast("list[object]", value)))

    return read_all


def _switch_word(text: str) -> bool:
    word = text.strip().lower()
    if word not in (yes := ("1", "true", "yes", "on")) and word not in ("0", "false", "no", "off"):
        raise ValueError
    return word in yes


def _path(value: object) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return expanded(value)


def _address(value: object) -> str:
    address = _only(str)(value).strip()
    normal_address(address)
    return address


def _layers(value: object) -> int | None:
    """Read a number of layers; None for what the program chooses."""
    if isinstance(value, str):
        return None if value == "auto" else -1 if value == "all" else int(value)
    return _only(int)(value)


def _split(separator: str, read: Callable[[str], Item]) -> Callable[[str], list[Item]]:
    return lambda text: [read(part) for part in text.split(separator)]


INTEGER = Kind("a whole number", "N", _only(int), int)
NUMBER = Kind("a number", "X", _number, float)
TEXT = Kind("text", "TEXT", _only(str))
SWITCH = Kind("true or false", "", _only(bool), _switch_word)
PATH = Kind("a path", "PATH", _path)
TEXTS = Kind("a list of texts", "TEXT", _list(_only(str)), _split("\0", str))  # one text: none holds a NUL
NAMES = Kind("names, separated by semicolons", "A;B", _list(_only(str)), _split(";", str.strip))
NUMBERS = Kind("numbers, separated by commas", "X,X", _list(_number), _split(",", float))
ADDRESS = Kind("one address such as http://host:8000", "URL", _address)
LAYERS = Kind("a whole number, or all", "N", _layers)


def one_of(*words: Word) -> Kind[Word]:
    """Return the kind of value that is one of ``words``."""
    known: dict[object, Word] = {word: word for word in words}

    def read(value: object) -> Word:
        if not isinstance(value, str) or value not in known:
            raise ValueError
        return known[value]

    return Kind("one of " + ", ".join(words), "WORD", read, choices=words)
