"""Kinds of configuration values: how each is read from text and from TOML, and how to name it in words.

Knows single values only: no keys, no files, no flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, LiteralString, TypeVar, cast

from srbwriter.addresses import normal_address
from srbwriter.paths import expanded

T_co = TypeVar("T_co", covariant=True)
Word = TypeVar("Word", bound=LiteralString)
Exact = TypeVar("Exact", int, str, bool)


class Kind(Generic[T_co]):
    """One type of value. (A plain class: loading ``dataclasses`` would be a tenth of ``--help``.)

    ``from_text`` reads flags and environment variables, ``from_toml`` a parsed TOML value; both raise
    ValueError for what they cannot read. ``expected`` completes "expected …". ``choices`` are all words it
    takes.
    """

    __slots__ = ("choices", "expected", "from_text", "from_toml", "metavar")

    def __init__(
        self,
        expected: str,
        metavar: str,
        from_text: Callable[[str], T_co],
        from_toml: Callable[[object], T_co],
        choices: tuple[str, ...] = (),
    ) -> None:
        self.expected: Final = expected
        self.metavar: Final = metavar
        self.from_text: Final = from_text
        self.from_toml: Final = from_toml
        self.choices: Final = choices


def _only(kind: type[Exact]) -> Callable[[object], Exact]:
    """Takes values of exactly that type; truth is no number."""

    def read(value: object) -> Exact:
        if type(value) is kind:
            return value
        raise ValueError

    return read


_integer, _text, _switch = _only(int), _only(str), _only(bool)


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(float(value))
    raise ValueError


def _finite(value: float) -> float:
    if value - value != 0:  # infinities and NaN
        raise ValueError
    return value


_SWITCH_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _switch_word(text: str) -> bool:
    word = text.strip().lower()
    if word not in _SWITCH_WORDS:
        raise ValueError
    return _SWITCH_WORDS[word]


def _path(value: object) -> Path:
    text = _text(value)
    if not text or "\0" in text:
        raise ValueError
    return expanded(text)


def _items(value: object) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    raise ValueError


def _range(numbers: list[int]) -> tuple[int, int]:
    if len(numbers) != 2:
        raise ValueError
    return numbers[0], numbers[1]


def _address(value: object) -> str | None:
    """Read one address. A list of at most one is taken as well: lists were the form of earlier versions."""
    texts = [value] if isinstance(value, str) else _items(value)
    if not texts:
        return None
    found = [address for text in texts for address in _text(text).replace(",", " ").split()]
    if len(found) != 1:
        raise ValueError
    normal_address(found[0])
    return found[0]


def _layers(value: object) -> int | None:
    """Read a number of layers; None for what the program chooses."""
    if value == "auto":
        return None
    return -1 if value == "all" else _integer(value)


INTEGER = Kind("a whole number", "N", int, _integer)
NUMBER = Kind("a number", "X", lambda text: _finite(float(text)), _number)
TEXT = Kind("text", "TEXT", str, _text)
SWITCH = Kind("true or false", "", _switch_word, _switch)
PATH = Kind("a path", "PATH", _path, _path)
TEXTS = Kind[tuple[str, ...]](
    "a list of texts", "TEXT", lambda text: (text,), lambda value: tuple(_text(x) for x in _items(value))
)
NAMES = Kind[tuple[str, ...]](
    "names, separated by semicolons",
    "A;B",
    lambda text: tuple(part.strip() for part in text.split(";")),
    lambda value: tuple(_text(x) for x in _items(value)),
)
NUMBERS = Kind[tuple[float, ...]](
    "numbers, separated by commas",
    "X,X",
    lambda text: tuple(_finite(float(part)) for part in text.split(",")),
    lambda value: tuple(_number(x) for x in _items(value)),
)
ADDRESS = Kind[str | None]("one address such as http://host:8000", "URL", _address, _address)
RANGE = Kind[tuple[int, int]](
    "two whole numbers, the first and the last",
    "N,N",
    lambda text: _range([int(part) for part in text.split(",")]),
    lambda value: _range([_integer(x) for x in _items(value)]),
)
LAYERS = Kind[int | None](
    "a whole number, or all",
    "N",
    lambda text: _layers(text if text in ("all", "auto") else int(text)),
    _layers,
)


def one_of(*words: Word, former: Mapping[str, Word] | None = None) -> Kind[Word]:
    """Return the kind of value that is one of ``words``.

    ``former`` names the word for each word of an earlier version that is still read.
    """
    by_text: dict[object, Word] = {}
    by_text.update(former or {})
    by_text.update({word: word for word in words})

    def read(value: object) -> Word:
        if not isinstance(value, str) or value not in by_text:
            raise ValueError
        return by_text[value]

    return Kind("one of " + ", ".join(words), "WORD", read, read, words)
