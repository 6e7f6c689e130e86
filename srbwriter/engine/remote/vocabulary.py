"""The server's vocabulary: text to token ids and back, from memory or by asking the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..limits import check_ids, check_prompt
from ..text import KnownPieces
from ..types import InvalidRequest
from . import pseudo_tokenizer
from .profile import Profile

if TYPE_CHECKING:
    from .dialects.base import Dialect

T = TypeVar("T")

_BROKEN = "\ufffd".encode()
_KEPT_TEXTS = 512  # tokenised texts that are remembered


class Ask(Protocol):
    """Returns what the server answers. Raises RemoteError, EngineClosed."""

    def __call__(self, question: Callable[[Dialect], Awaitable[T]], /) -> T: ...


class KnownTokens:
    """Answers of the server that are remembered."""

    def __init__(self, profile: Profile) -> None:
        self.pieces = KnownPieces() if profile.ids else pseudo_tokenizer.PseudoPieces()
        self.special: dict[int, bytes] = {}  # pieces with control tokens written out
        self.texts: dict[tuple[str, bool], tuple[int, ...]] = {}


class RemoteVocabulary:
    """Tokenises for one connection. To be used on any thread but that of the connection.

    Args:
        known: the remembered answers, which all vocabularies of a connection share.
    """

    def __init__(self, profile: Profile, ask: Ask, known: KnownTokens) -> None:
        self.profile, self._ask, self._known = profile, ask, known
        self.fingerprint, self.fim = profile.info.vocab, profile.fim
        self.bos, self.add_bos, self.eos, self.eog = profile.bos, profile.add_bos, profile.eos, profile.eog

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        ids = list(self._tokens(text, parse_special))
        if add_bos and self.add_bos and self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def tokenize_continuation(self, text: str) -> list[int]:
        lead, ids = self._tokens("\n", False), self._tokens("\n" + text, False)
        return list(ids[len(lead) :] if ids[: len(lead)] == lead else self._tokens(text, False))

    def _tokens(self, text: str, parse_special: bool) -> tuple[int, ...]:
        check_prompt("prompt", len(text))
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
        if not text or not self.profile.ids:
            return tuple(pseudo_tokenizer.encode(text))
        texts, key = self._known.texts, (text, parse_special)
        found = texts.get(key)
        if found is None:
            found = tuple(self._ask(lambda dialect: dialect.tokenize(text, parse_special)))
            while len(texts) >= _KEPT_TEXTS:
                texts.pop(next(iter(texts)), None)
            texts[key] = found
        return found

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Return the text of ``ids``, without control tokens unless ``special``. Raises InvalidRequest."""
        pieces = self._bytes(ids, special)
        if any(_BROKEN in piece for piece in pieces):  # parts of characters, which they do not tell
            heard = [token for token, piece in zip(ids, pieces, strict=True) if piece]
            if (text := self._ask(lambda dialect: dialect.text(heard))) is not None:
                return text
        return b"".join(pieces).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """Return what each token adds to a text. Raises InvalidRequest."""
        return self._bytes(ids, False)

    token_pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self._bytes((token,), True)[0]

    def token(self, text: str) -> int | None:
        ids = self._tokens(text, True)
        return ids[0] if len(ids) == 1 else None

    def spelt(self, token: int) -> str | None:
        """Return what one token writes; None where that is not whole characters."""
        [piece] = self._bytes((token,), False)
        return None if _BROKEN in piece else self._known.pieces.text[token]

    def begins_a_token(self, text: str) -> bool:
        """Whether a token begins with ``text``, as far as the server says."""
        return self._ask(lambda dialect: dialect.begins_a_token(text))

    def _bytes(self, ids: Sequence[int], special: bool) -> list[bytes]:
        self.check_ids(ids)
        known = self._known.special if special else self._known.pieces.bytes
        if missing := list(dict.fromkeys(token for token in ids if token not in known)):
            pieces = self._ask(lambda dialect: dialect.pieces(missing, special))
            for token, piece in zip(missing, pieces, strict=True):
                if special:
                    known[token] = piece
                else:
                    self._known.pieces.add(token, piece)
        return [known[token] for token in ids]

    def check_ids(self, ids: Iterable[int]) -> None:
        """Raise InvalidRequest for an id that is not in the vocabulary."""
        ids = tuple(ids)
        check_ids("prompt", ids, self.profile.info.n_vocab)
        if not self.profile.ids:
            try:
                pseudo_tokenizer.decode(ids)
            except ValueError as error:
                raise InvalidRequest("prompt", str(error)) from None
