"""From tokens to text, branch by branch: UTF-8 across tokens, and the decisions of the branch's watchers.

Runs once per branch and decode step, so that the usual token (whole characters, no rule) costs one look-up.
Must never know the model, sampling or readers.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from .checkpoint import Checkpoint
from .types import Stop
from .watchers import Continue, Finish, Rewind, Watcher, stop_rules

T_co = TypeVar("T_co", covariant=True)

_new_decoder = codecs.getincrementaldecoder("utf-8")


def fingerprint(pieces: Sequence[bytes]) -> str:
    """Names a vocabulary by all its tokens: equal ids mean equal text under equal fingerprints."""
    digest = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()


class ByToken(Protocol[T_co]):
    """One value for each token."""

    def __getitem__(self, token: int, /) -> T_co: ...


class TokenPieces(Protocol):
    """What tokens write. ``text`` of a token is None where its bytes are not whole UTF-8 characters."""

    @property
    def bytes(self) -> ByToken[bytes]: ...
    @property
    def text(self) -> ByToken[str | None]: ...


class Pieces:
    """What every token of a vocabulary writes; built once per model.

    ``text[i]`` is None where the bytes of token ``i`` are not whole UTF-8 characters.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.bytes: list[bytes] = list(pieces)
        self.text: list[str | None] = [_whole(piece) for piece in self.bytes]


def whole_tokens(pieces: Iterable[bytes]) -> int:
    """How many of the tokens that write ``pieces`` there are before a character that breaks off."""
    decoder, whole = _new_decoder("replace"), 0
    for count, piece in enumerate(pieces, 1):
        decoder.decode(piece)
        if not decoder.getstate()[0]:
            whole = count
    return whole


class BranchText:
    """The text of one branch, fed token by token.

    Publishing never takes back: text that a watcher may still cut off is held until that is decided. Matches
    lie wholly in text the model wrote after the last ``restart``, and no boundary falls before the first
    character there that is not whitespace.
    """

    def __init__(self, pieces: TokenPieces, stop: Stop) -> None:
        self._vocabulary = pieces
        self.whole = pieces.text
        self._decoder = _new_decoder("replace")
        self.rules = stop_rules(stop)
        self.rewinders: list[Watcher] = []  # watchers that may take the branch back
        self._held = self._found = ""  # the latter: text before which the branch is to go back
        self.checkpoints: list[Checkpoint] = []
        """Before each of the last tokens that the branch may go back before; their text is held back."""
        self.weighed = 0
        """How many of the last checkpoints need the logits that their token was chosen from."""
        self.restart("")

    @property
    def published(self) -> int:
        """Characters published so far."""
        return self.decoded - len(self._held)

    def restart(self, text: str, tokens: int = 0, pending: int = 0, broken: bytes = b"") -> None:
        """Continue as if exactly ``text`` had been decoded and published, by ``tokens`` tokens.

        The next ``pending`` characters count as typed: the model only repeats what the prompt ends with
        (token healing). ``broken`` are the first bytes of a character that the next token completes.
        """
        self._decoder.reset()
        self._decoder.decode(broken)
        self._partial = bool(broken)
        self.tokens = tokens  # fed so far; what min_tokens and after_min_tokens count
        self.decoded = self._floor = len(text)  # characters, those held back included
        self._pending = pending
        self._held = ""
        self.checkpoints.clear()
        for watcher in self._watchers():
            watcher.restart(text, len(text), pending)
        self._decide_plain()

    @property
    def broken(self) -> bytes:
        """The first bytes of a character of which the rest is still to come."""
        return self._decoder.getstate()[0]

    def set_stop(self, stop: Stop) -> None:
        """Apply other rules from the next token on; the text so far counts as begun."""
        earlier = {type(rule): rule for rule in self.rules}
        self.rules = stop_rules(stop)
        for rule in self.rules:
            inside = self.decoded > self._floor
            rule.resume(self._held, self.published, inside, earlier.get(type(rule)))
        self.checkpoints.clear()  # they know the rules as they were
        self._decide_plain()

    def watch(self, rewinders: Sequence[Watcher], published: str = "") -> None:
        """Let other watchers take the branch back from the next token on; ``published`` is its text."""
        self.rewinders = list(rewinders)
        self.checkpoints.clear()
        text = published + self._held
        for watcher in self.rewinders:
            watcher.restart(text[: len(text) - self._pending], self.decoded, self._pending)
        self._decide_plain()

    def rewind(self, place: int) -> bool:
        """Return to the text after ``place`` tokens; False if no checkpoint has that position."""
        back = self.tokens - place
        if not 0 <= back <= len(self.checkpoints):
            return False
        if back:
            published, point = self.published, self.checkpoints[-back]
            self._decoder.setstate(point.decoder)
            self._partial = bool(point.decoder[0])
            self.tokens, self.decoded, self._floor = point.tokens, point.decoded, point.floor
            self._pending, self._held = point.pending, point.held[max(published - point.published, 0) :]
            self.rules = [watcher for watcher in point.watchers if not watcher.rewinds]
            self.rewinders = [watcher for watcher in point.watchers if watcher.rewinds]
            del self.checkpoints[-back:]
            self._decide_plain()
        return True

    def commit(self) -> tuple[str, Finish | None]:
        """Keep the text that :meth:`feed` asked to rewind; return feed's result without the rewind."""
        text, self._found = self._found, ""
        self._held = self._held[: len(self._held) - len(text)]
        self.checkpoints.clear()
        return self._apply_rules(text)

    def feed(self, token: int) -> tuple[str, Finish | Rewind | None]:
        """Add one token; return text that may be published now, and the rule that ended the branch.

        Or before which characters the branch has to go back: only :meth:`rewind` or :meth:`commit` may
        follow. Of several rules that end it with this token, the one that keeps least does. After a finish
        the text published in all is exactly the first ``keep`` characters decoded; only ``restart`` may
        follow it. Raises IndexError for a token outside the vocabulary.
        """
        if self.rewinders:
            self.checkpoints.append(self._checkpoint())
        self.tokens += 1
        text = self.whole[token]
        if text is None or self._partial:
            text = self._decoder.decode(self._vocabulary.bytes[token])
            self._partial = bool(self._decoder.getstate()[0])
        self.decoded += len(text)
        if self.rewinders and (found := self._ask_rewinders(text)) is not None:
            self._found = text
            self._held += text
            return "", found
        return self._apply_rules(text)

    def feed_text(self, text: str) -> tuple[str, Finish | None]:
        """Add text that a token of another engine wrote; see :meth:`feed`."""
        self.tokens += 1
        self.decoded += len(text)
        return (text, None) if self.plain else self._apply_rules(text)

    def finish(self) -> str:
        """Return what was held back, when the branch ended without a rule; a broken character as U+FFFD."""
        broken = self._decoder.decode(b"", True)
        self._decoder.reset()
        self._partial = False
        self.decoded += len(broken)
        held, self._held = self._held + broken, ""
        for rule in self.rules:
            rule.skip(broken, self.decoded)
        self._decide_plain()
        return held

    def _watchers(self) -> Sequence[Watcher]:
        return (*self.rewinders, *self.rules)

    def _decide_plain(self) -> None:
        """Note whether a token of whole characters is published at once, as nothing looks at it."""
        self.plain = not (self.rules or self._held or self._pending or self.rewinders or self._partial)

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(
            self.tokens, self.decoded, self._floor, self._pending, self._held, self._decoder.getstate(),
            [watcher.copy() for watcher in self._watchers()],
        )  # fmt: skip

    def _ask_rewinders(self, text: str) -> Rewind | None:
        """Return what the branch has to go back before; forget checkpoints that none can need."""
        repeated = min(self._pending, len(text))
        hold, weighed, found = 0, 0, None
        for watcher in self.rewinders:
            if repeated:
                watcher.skip(text[:repeated], self.decoded - len(text) + repeated)
            verdict = watcher.accept(text[repeated:], self.decoded, self.tokens)
            if isinstance(verdict, Continue):
                hold = max(hold, verdict.hold)
                weighed = max(weighed, verdict.hold * verdict.weigh)
            elif isinstance(verdict, Rewind):
                found = found or verdict
        if found is None:
            points = self.checkpoints
            del points[: len(points) - self._points_within(hold)]
            self.weighed = self._points_within(weighed)
            for point in points[: len(points) - self.weighed]:
                point.logits = None
        return found

    def _points_within(self, hold: int) -> int:
        """Return how many of the last checkpoints the last ``hold`` characters need."""
        later = sum(1 for point in self.checkpoints[1:] if point.decoded > self.decoded - hold)
        return later + 1 if hold else 0

    def _apply_rules(self, text: str) -> tuple[str, Finish | None]:
        """Show ``text`` to the stop rules; return what may be published, and how the branch ends."""
        out = ""
        if self._pending:  # the token writes, at least to begin with, what stands in the prompt already
            out, text = text[: self._pending], text[self._pending :]
            self._pending -= len(out)
            self._floor = self.decoded - len(text)
            for rule in self.rules:
                rule.skip(out, self._floor)
        window = self._held + text
        published = self.decoded - len(window)
        hold, finish = 0, None
        for rule in self.rules:
            verdict = rule.accept(text, self.decoded, self.tokens)
            if isinstance(verdict, Continue):
                hold = max(hold, verdict.hold)
            elif isinstance(verdict, Finish) and (finish is None or verdict.keep < finish.keep):
                finish = verdict
        if finish is not None:
            self._held = ""
            return out + window[: finish.keep - published], finish
        if self.checkpoints:
            # Nothing is published that rules held back before the first checkpoint: they may match there.
            first = self.checkpoints[0]
            hold = max(hold, self.decoded - (first.published if self.rules else first.decoded))
        cut = len(window) - min(hold, len(window))
        self._held = window[cut:]
        self._decide_plain()
        return out + window[:cut], None


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None
