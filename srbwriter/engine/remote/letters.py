"""A vocabulary for engines that tell nothing of theirs: up to four plain characters make a token.

That is about what a token of English is long, so counts and windows come out about right. An id says which
characters it stands for, so text becomes ids and ids become text without loss, in any program and at any
time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FINGERPRINT = "letters"
_LONGEST = 4
_FIRST = 0x110000  # above all code points
SIZE = _FIRST + (1 << 7 * _LONGEST)
_RUNS = re.compile(r" ?[A-Za-z]{1,3}|[\x01-\x7f]|[^\x01-\x7f]", re.DOTALL)


def encode(text: str) -> list[int]:
    """Ids of ``text``."""
    return [ord(run) if len(run) == 1 else _pack(run) for run in _RUNS.findall(text)]


def decode(ids: Iterable[int]) -> str:
    """Text of ``ids``. Raises ValueError for one that is none."""
    return "".join(map(piece, ids))


def piece(token: int) -> str:
    """The characters of one id. Raises ValueError for one that is none."""
    if token < _FIRST:
        return chr(token)
    rest, found = token - _FIRST, ""
    if rest >> 7 * _LONGEST:
        raise ValueError(f"{token} stands for no text")
    while rest:
        found = chr(rest & 127) + found
        rest >>= 7
    return found


def _pack(run: str) -> int:
    packed = 0
    for character in run:
        packed = packed << 7 | ord(character)
    return _FIRST + packed
