"""A vocabulary for servers that report none: up to five ASCII letters make a pseudo token.

That is about the length of an English token, so counts and windows are about right. An id encodes its
characters, so text becomes ids and ids become text without loss, in any program at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..text import KnownPieces

FINGERPRINT = "letters"
_LETTERS = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = {letter: digit for digit, letter in enumerate(_LETTERS, 1)}
_BASE = len(_LETTERS) + 1
_LONGEST = 5
_FIRST = 0x110000  # above all code points
SIZE = _FIRST + _BASE**_LONGEST
_RUNS = re.compile(r" [A-Za-z]{1,4}|[A-Za-z]{1,5}|.", re.DOTALL)


def encode(text: str) -> list[int]:
    """Return the ids of ``text``; half a surrogate pair becomes a question mark."""
    text = text.encode("utf-8", "replace").decode()
    return [ord(run) if len(run) == 1 else _pack(run) for run in _RUNS.findall(text)]


def decode(ids: Iterable[int]) -> str:
    """Return the text of ``ids``. Raises ValueError for a number that is no id."""
    return "".join(map(piece, ids))


def piece(token: int) -> str:
    """Return the characters of one id. Raises ValueError for a number that is no id."""
    if token < _FIRST and not 0xD800 <= token <= 0xDFFF:
        return chr(token)
    if token < _FIRST:
        raise ValueError(f"{token} stands for no text")
    rest, found = token - _FIRST, ""
    while rest:
        rest, digit = divmod(rest, _BASE)
        if not digit or len(found) >= _LONGEST:
            raise ValueError(f"{token} stands for no text")
        found = _LETTERS[digit - 1] + found
    return found


def _pack(run: str) -> int:
    packed = 0
    for character in run:
        packed = packed * _BASE + _DIGITS[character]
    return _FIRST + packed


class _Texts(dict[int, str | None]):
    def __missing__(self, token: int) -> str:
        return piece(token)


class _Bytes(dict[int, bytes]):
    def __missing__(self, token: int) -> bytes:
        return piece(token).encode("utf-8", "replace")


class PseudoPieces(KnownPieces):
    """What pseudo tokens write. Raises ValueError for a number that is no id."""

    def __init__(self) -> None:
        self.bytes, self.text = _Bytes(), _Texts()
