"""Token ids for text that another program tokenises: up to five ASCII letters make one.

That is about the length of an English token, so counts and windows are about right. An id encodes its
characters, so text becomes ids and ids become text without loss, in any program at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..limits import check_ids, check_prompt
from ..types import InvalidRequest

FINGERPRINT = "letters"
_LETTERS = "\0 abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # a letter's place is its digit
_BASE, _LONGEST = len(_LETTERS), 5
_FIRST = 0x110000  # above all code points
SIZE = _FIRST + _BASE**_LONGEST
_RUNS = re.compile(r" [A-Za-z]{1,4}|[A-Za-z]{1,5}|.", re.DOTALL)


def encode(text: str) -> list[int]:
    """Return the ids of ``text``; half a surrogate pair becomes a question mark."""
    ids: list[int] = []
    for run in _RUNS.findall(text.encode("utf-8", "replace").decode()):
        packed = 0
        for character in run if len(run) > 1 else "":
            packed = packed * _BASE + _LETTERS.index(character)
        ids.append(_FIRST + packed if packed else ord(run))
    return ids


def decode(ids: Iterable[int]) -> str:
    """Return the text of ``ids``. Raises InvalidRequest for a number that is no id."""
    return "".join(map(piece, ids))


def piece(token: int) -> str:
    """Return the characters of one id. Raises InvalidRequest for a number that is no id."""
    if token < _FIRST and not 0xD800 <= token <= 0xDFFF:
        return chr(token)
    rest, found = token - _FIRST, ""
    while rest > 0:
        rest, digit = divmod(rest, _BASE)
        found = _LETTERS[digit] + found
    if not found or "\0" in found or len(found) > _LONGEST:
        raise InvalidRequest("prompt", f"{token} stands for no text")
    return found


class LetterVocabulary:
    """The same ids for every model; it has no control tokens. Methods raise InvalidRequest for other ids."""

    fingerprint = FINGERPRINT
    bos: int | None = None
    eos: int | None = None
    add_bos = False
    eog = frozenset[int]()
    fim: tuple[int, int, int] | None = None

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        check_prompt("prompt", len(text))
        return encode(text)

    def tokenize_continuation(self, text: str) -> list[int]:
        return self.tokenize(text)

    def detokenize(self, ids: Iterable[int], special: bool = False) -> str:
        return b"".join(self.pieces(ids)).decode()

    def check_ids(self, ids: Iterable[int]) -> None:
        self.pieces(ids)

    def pieces(self, ids: Iterable[int]) -> list[bytes]:
        """Return what each id adds to a text."""
        check_ids("prompt", ids := tuple(ids), SIZE)
        return [piece(token).encode() for token in ids]

    def token_bytes(self, token: int) -> bytes:
        return self.pieces((token,))[0]

    def token(self, text: str) -> int | None:
        ids = encode(text)
        return ids[0] if len(ids) == 1 else None
