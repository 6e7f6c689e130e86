"""Token ids for text that another program tokenises: up to five ASCII letters make one.

That is about the length of an English token, so counts and windows are about right. An id encodes its
characters, so text becomes ids and ids become text without loss, in any program at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from ..limits import check_ids, check_prompt
from ..types import InvalidRequest

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


def ends_of(ids: Iterable[int]) -> list[int]:
    """Return how many characters there are after each id."""
    return list(accumulate(len(piece(token)) for token in ids))


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


class LetterPieces:
    """What the ids write. Raises ValueError for a number that is no id."""

    def __init__(self) -> None:
        self.bytes, self.text = _Bytes(), _Texts()


PIECES = LetterPieces()


class LetterVocabulary:
    """The same ids for every model; it has no control tokens."""

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

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Return the text of ``ids``. Raises InvalidRequest."""
        self.check_ids(ids)
        return decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """Return what each id adds to a text. Raises InvalidRequest."""
        self.check_ids(ids)
        return [PIECES.bytes[token] for token in ids]

    token_pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self.pieces((token,))[0]

    def token(self, text: str) -> int | None:
        ids = encode(text)
        return ids[0] if len(ids) == 1 else None

    def spelt(self, token: int) -> str | None:
        return piece(token)

    def begins_a_token(self, text: str) -> bool:
        return False

    def check_ids(self, ids: Iterable[int]) -> None:
        """Raise InvalidRequest for a number that is no id."""
        ids = tuple(ids)
        check_ids("prompt", ids, SIZE)
        try:
            decode(ids)
        except ValueError as error:
            raise InvalidRequest("prompt", str(error)) from None
