"""The engine's side of a branch: its tokens, its text, its stop rules and its states.

The local engine adds each token that it samples with :meth:`BranchWriter.add_token`, the engine elsewhere
adds the text and the tokens that it receives with :meth:`BranchWriter.add_text`. A
:class:`~srbwriter.engine.generation.Branch` is the handle that readers have on it. Knows nothing of models,
caches and connections.
"""

from __future__ import annotations

import codecs
import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ..prose import last_sentence_start
from .checkpoint import RewindPolicy
from .generation import Branch, Buffer, Generation
from .seeds import derive_seed
from .text import BranchText, TokenPieces
from .types import (
    BranchState,
    Cut,
    Done,
    Event,
    Finished,
    FinishReason,
    Request,
    Sampling,
    StateChanged,
    Stop,
    Take,
    Text,
    TokenLogprob,
)
from .watchers import Finish, Rewind, Watcher

W = TypeVar("W", bound="BranchWriter")
"""The writers of an engine's branches."""

NO_LIMIT = 1 << 60  # tokens
WAITING_STATES = frozenset({BranchState.WAITING, BranchState.PROMPT, BranchState.WRITING})


def chars_before_rewind(
    branch: Branch, tokens: int | None, chars: int | None, sentences: int | None
) -> int:  # fmt: skip
    """Return how many characters stay when a branch loses its last tokens, characters or sentences."""
    text, buffer = branch.text, branch.buffer
    if tokens is not None:
        keep = max(len(buffer.ids) - max(tokens, 0), 0)
        return min(buffer.ends[keep - 1], len(text)) if keep else 0
    if chars is not None:
        return max(len(text) - max(chars, 0), 0)
    return last_sentence_start(text, sentences or 0)


class ServedRequest(Generic[W]):
    """The engine's side of a request.

    Attributes:
        branches: the writers of its branches, by their index.
        ids: tokens of the prompt as it is evaluated.
        pending_prefix: bytes taken off the prompt's end, which the first tokens spell (token healing).
        events: what has happened since readers were last notified.
        seeds: of all attempts.
    """

    def __init__(self, generation: Generation, ids: list[int], pending_prefix: bytes) -> None:
        self.generation = generation
        self.asked: Request = generation.request
        self.ids = ids
        self.pending_prefix = pending_prefix
        self.pending_text = pending_prefix.decode("utf-8", "replace")
        self.events: list[Event] = []
        self.seeds: set[int] = set()
        self.branches: list[W] = []

    def add_branch(self, sampling: Sampling, stop: Stop, seed: int, pieces: TokenPieces) -> W:
        """Add a branch behind the others, and return its writer."""
        branch = Branch(self.generation, len(self.branches), sampling, stop, seed)
        self.generation.branches.append(branch)
        self.branches.append(self.make_writer(branch, pieces))
        return self.branches[-1]

    def make_writer(self, branch: Branch, pieces: TokenPieces) -> W:
        """Return a writer for ``branch``."""
        raise NotImplementedError

    def seed(self, asked: int | None, base: int, k: int) -> int:
        """Return the seed ``asked`` for, or the k-th from ``base`` on that no attempt of the request had."""
        seed = asked
        while seed is None:
            seed, k = self.derive_seed(base, k), k + 1
            seed = None if seed in self.seeds else seed
        self.seeds.add(seed)
        return seed

    def derive_seed(self, seed: int, k: int) -> int:
        """Return the k-th seed that follows from ``seed``."""
        return derive_seed(seed, k)

    @property
    def live(self) -> bool:
        return any(writer.branch.live for writer in self.branches)

    def completed(self) -> Done:
        """Return the event that ends the request."""
        tokens = sum(len(writer.branch.buffer.ids) for writer in self.branches)
        return Done(len(self.ids), self.generation.cached_tokens, tokens)


class BranchWriter:
    """The writer of one branch. ``base`` and the buffer's ids from ``first`` on are its path.

    Attributes:
        hidden: decoded characters that belong to the prompt (token healing).
        pending: characters that the next tokens have to spell again, and that are not published again.
        reported: tokens of the buffer that events have reported.
        barred: tokens that are barred at a position of the attempt.
        rewinds: the checkpoints before a banned phrase; None while no watcher may rewind it.
        deadline: time.monotonic() at which it ends.
    """

    def __init__(self, request: ServedRequest[Any], branch: Branch, pieces: TokenPieces) -> None:
        self.request, self.branch = request, branch
        self.base: Sequence[int] = request.ids
        self.first = 0
        self.hidden = self.pending = self.reported = 0
        self.sampling: Sampling = branch.sampling
        self.text = BranchText(pieces, branch.stop_rule)
        self.barred: dict[int, set[int]] = {}
        self.rewinds: RewindPolicy | None = None
        self.set_stop(branch.stop_rule)

    # ---- what there is

    @property
    def buffer(self) -> Buffer:
        return self.branch.buffer

    @property
    def path(self) -> list[int]:
        """Every token from the start of the prompt to the end of the branch."""
        return [*self.base, *self.buffer.ids[self.first :]]

    @property
    def length(self) -> int:
        """Tokens of the path."""
        return len(self.base) + len(self.buffer.ids) - self.first

    @property
    def at_prompt(self) -> bool:
        """Whether it is at the end of the prompt, as all branches of its request are at first."""
        return not self.buffer.ids and self.base is self.request.ids

    @property
    def still_healing(self) -> bool:
        """Whether its tokens repeat a part of the prompt's end, and all of its own text is still to come."""
        return self.text.decoded < self.hidden and bool(self.buffer.ids)

    @property
    def first_free(self) -> int:
        """The first token that can be sampled again: those before it were typed, or have left the window."""
        buffer = self.buffer
        end = max((end for _, end in buffer.typed), default=0)
        typed = bisect_left(buffer.ends, end) + 1 if buffer.typed else 0
        begun = bisect_right(buffer.ends, -1)  # tokens that repeat the prompt's end, and not all of it
        return max(self.first, typed, begun + 1 if begun else 0)

    @property
    def written(self) -> int:
        """Tokens of this attempt."""
        return len(self.buffer.ids)

    @property
    def left(self) -> int | None:
        """Tokens that it may still write; None: no limit."""
        return None if self.limit >= NO_LIMIT // 2 else max(self.limit - self.written, 0)

    @property
    def text_without_tokens(self) -> str:
        """The end of the text that no token spells, with the prompt's end if no token spells that."""
        begun, ends = self.request.pending_text, self.buffer.ends
        return (begun + self.branch.text)[len(begun) + ends[-1] if ends else 0 :]

    @property
    def sampling_rule(self) -> tuple[object, ...]:
        """The part of the stop rule that the engine applies."""
        return self.ignore_eog, self.min_tokens

    def tokens_within(self, chars: int) -> int:
        """Return how many tokens lie wholly within the first ``chars`` characters."""
        return bisect_right(self.buffer.ends, chars)

    def unscored(self, ids: Sequence[int]) -> list[TokenLogprob]:
        """Return placeholder logprobs for ``ids`` that the model did not write, if logprobs are reported."""
        if self.request.asked.logprobs is None:
            return []
        return [TokenLogprob(token, -math.inf) for token in ids]

    # ---- one token

    def add_token(self, token: int, logprob: TokenLogprob | None, now: float) -> Finish | Rewind | None:
        """Add a sampled token and apply the stop rules that look at text, and the limits.

        Returns None if the branch continues; a Finish, with the buffer cut already; or a Rewind for a banned
        phrase, after which only :meth:`rewind` or :meth:`commit` may follow.
        """
        buffer, text = self.branch.buffer, self.text
        if text.plain and not self.pending and (whole := text.whole[token]) is not None:
            # The usual token: nothing looks at it, so it goes straight to the reader.
            text.tokens += 1
            text.decoded += len(whole)
            buffer.ids.append(token)
            buffer.ends.append(text.decoded - self.hidden)
            if whole:
                buffer.pieces.append(whole)
            logprobs = ()
            if logprob is not None:
                buffer.logprobs.append(logprob)
                logprobs = (logprob,)
            self.reported = len(buffer.ids)
            self.request.events.append(Text(self.branch.index, whole, (token,), logprobs))
            if self.reported < self.limit and (self.deadline is None or now <= self.deadline):
                return None
            return self._end_at_limit()
        out, verdict = text.feed(token)
        out = self._hide(out)
        buffer.ids.append(token)
        buffer.ends.append(text.decoded - self.hidden)
        if logprob is not None:
            buffer.logprobs.append(logprob)
        if isinstance(verdict, Rewind):
            return verdict
        return self._publish(out, verdict) or self._limit_reached(now)

    def add_text(
        self, text: str, ids: Sequence[int], ends: Sequence[int], logprobs: Sequence[TokenLogprob], now: float
    ) -> Finish | None:  # fmt: skip
        """Add text that another engine wrote, with the tokens that spell it; return how the branch ends.

        ``ends`` are characters of ``text`` after each token. The other engine applies the limit of tokens.
        """
        buffer, begin = self.branch.buffer, self.text.decoded
        out, finish = self.text.feed_text(text)
        buffer.ids.extend(ids)
        buffer.ends.extend(begin + end for end in ends)
        buffer.logprobs.extend(logprobs)
        finish = self._publish(out, finish)
        if finish is None and self.deadline is not None and now > self.deadline:
            return self._end_at_limit()
        return finish

    def commit(self, now: float) -> Finish | None:
        """Keep the phrase that :meth:`add_token` has found; return how the branch ends, if it does."""
        out, verdict = self.text.commit()
        return self._publish(self._hide(out), verdict) or self._limit_reached(now)

    def _publish(self, out: str, finish: Finish | None) -> Finish | None:
        """Publish ``out``, the text of the last token as far as it may be; return ``finish``."""
        if finish is not None:
            self._cut_at(out, finish)
            return finish
        if out:
            self.branch.buffer.pieces.append(out)
        self.report(out, len(self.text.checkpoints))
        return None

    def _limit_reached(self, now: float) -> Finish | None:
        """Return how the branch ends if it has written all that it may."""
        if self.written < self.limit and (self.deadline is None or now <= self.deadline):
            return None
        return self._end_at_limit()

    def _end_at_limit(self) -> Finish:
        """Publish what was held back; return the end for length."""
        self.flush()
        return Finish(FinishReason.LENGTH, len(self.branch.text), None)

    def _hide(self, text: str) -> str:
        """Return what is left of ``text`` behind the characters that have to be spelt again."""
        hidden = min(self.pending, len(text))
        self.pending -= hidden
        return text[hidden:]

    def _cut_at(self, text: str, finish: Finish) -> None:
        """A stop rule matched: keep its characters, and the tokens that lie wholly in them."""
        branch, buffer = self.branch, self.branch.buffer
        if text:
            buffer.pieces.append(text)
        kept, begin = self.tokens_within(max(finish.keep - self.hidden, 0)), self.reported
        if text or kept > begin:
            ids, logprobs = buffer.ids[begin:kept], buffer.logprobs[begin:kept]
            self.request.events.append(Text(branch.index, text, tuple(ids), tuple(logprobs)))
        dropped = len(buffer.ids) - kept
        del buffer.ids[kept:], buffer.ends[kept:], buffer.logprobs[kept:]
        buffer.drawn = [drawn for drawn in buffer.drawn if drawn.position <= kept]  # the stop text's first
        if kept < self.first:  # the window was shifted within the stop text: the rest stands in the base
            self.base, self.first = self.base[: kept - self.first], kept
        if dropped:
            self.text_changed()
        buffer.tail = branch.text[buffer.ends[-1] if buffer.ends else 0 :]
        self.reported = kept
        if kept < begin:  # ids that were published before the stop string was complete
            self.request.events.append(Cut(branch.index, len(branch.text), kept))

    def report(self, text: str, held: int = 0) -> None:
        """Add an event for ``text`` and for the unreported tokens except the last ``held``."""
        buffer, begin = self.branch.buffer, self.reported
        self.reported = max(len(buffer.ids) - held, begin)
        ids, logprobs = buffer.ids[begin : self.reported], buffer.logprobs[begin : self.reported]
        if text or ids:
            self.request.events.append(Text(self.branch.index, text, tuple(ids), tuple(logprobs)))

    def flush(self) -> None:
        """Publish what was held back; text that was typed and no token covers yet becomes the tail."""
        buffer = self.buffer
        if self.still_healing:
            self.report("")
            return  # nothing has been held back yet, and the branch may go on from half a word
        held = self.text.finish()
        healing = bool(self.pending)
        held = self._hide(held)
        self.report("")
        if held:
            buffer.pieces.append(held)
            if buffer.ends:
                buffer.ends[-1] = max(buffer.ends[-1], self.text.decoded - self.hidden)
            self.request.events.append(Text(self.branch.index, held))
        if healing:
            buffer.tail = self.branch.text[max(buffer.ends[-1], 0) if buffer.ends else 0 :]

    # ---- ending

    def set_state(self, state: BranchState) -> None:
        if self.branch.state is not state:
            self.branch.state = state
            self.request.events.append(StateChanged(self.branch.index, state))

    def end(self, state: BranchState, reason: FinishReason, stop_text: str | None = None) -> None:
        """Mark the branch as ended."""
        branch = self.branch
        branch.finish_reason, branch.stop_text, branch.state = reason, stop_text, state
        problem = None if branch.error is None else branch.error.words
        tokens = len(branch.buffer.ids)
        self.request.events.append(Finished(branch.index, reason, tokens, stop_text, problem=problem))

    # ---- other rules

    def set_stop(self, stop: Stop, more: int | None = None) -> None:
        """Apply a stop rule; ``more`` tokens from here instead of its max_tokens."""
        self.branch.stop_rule = stop
        if more is not None:
            self.limit = self.written + more
        else:
            self.limit = NO_LIMIT if stop.max_tokens is None else stop.max_tokens
        self.min_tokens = stop.min_tokens
        self.ignore_eog = stop.ignore_eog
        self.stop_ids = frozenset(stop.token_ids)
        self.deadline = None if stop.max_seconds is None else time.monotonic() + stop.max_seconds
        self.text.set_stop(stop)

    def rules_changed(self) -> None:
        """Note that the sampling rules have changed; the random state stays."""

    def start_clock(self, now: float) -> None:
        """Note the time of the first token, from which ``max_seconds`` count."""
        self.branch.started_at = now
        seconds = self.branch.stop_rule.max_seconds
        self.deadline = None if seconds is None else now + seconds

    def watch(self, rewinders: Sequence[Watcher]) -> None:
        """Let other watchers take the branch back from here on."""
        self.rewinds = RewindPolicy() if rewinders else None
        self.text.watch(rewinders, self.branch.text)

    # ---- another text

    def text_changed(self) -> None:
        """The text is not the one that the last token was chosen after."""

    def restart_sampling(self) -> None:
        """Note that the next token begins another attempt, with a fresh random state."""

    def restart_attempt(self) -> None:
        """Forget the text; the reader sees a new revision."""
        branch = self.branch
        branch.buffer = Buffer(self.buffer.revision + 1)
        self.base, self.first = self.request.ids, 0
        self.hidden = self.pending = 0
        self.barred.clear()
        self.text.restart("")
        self.restart_sampling()
        branch.started_at = branch.changed_at = 0.0
        branch.bans = branch.overlap = 0
        self._forget_rewinds()
        self.set_stop(branch.stop_rule)

    def begin(self, ids: Sequence[int], without: Sequence[int], pieces: TokenPieces) -> None:
        """Begin a new attempt with ``ids``, followed by none of ``without``.

        The ids are kept as they are, even if the last one ends inside a character. The attempt writes the
        rule's number of tokens after them. Tokens that do not spell all of the healed prefix are left out.
        """
        healed = len(self.request.pending_text)
        speller = BranchText(pieces, Stop())
        spelt, ends = "", list[int]()
        for token in ids:
            spelt += speller.feed(token)[0]
            ends.append(speller.decoded - healed)
        if ends and ends[-1] >= 0:
            text, buffer = spelt[healed:], self.buffer
            buffer.pieces += [text] if text else []
            buffer.ids += ids
            buffer.ends += ends
            buffer.logprobs += self.unscored(ids)
            self.branch.overlap = healed
            self.text.restart(text, len(ids), broken=speller.broken)
            self._forget_rewinds()
            self.set_stop(self.branch.stop_rule, self.branch.stop_rule.max_tokens)
            self.request.events.append(Text(self.branch.index, text, tuple(ids)))
        if without:
            self.barred = {len(self.buffer.ids): set(without)}

    def take_up(self, attempt: Take, ids: Sequence[int], pieces: Sequence[bytes]) -> None:
        """Restore an earlier attempt, whose tokens, with the prompt's end, are ``ids``.

        The tokens write ``pieces``.
        """
        branch, begun = self.branch, self.request.pending_text
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        ends = list(accumulate((len(decoder.decode(piece)) for piece in pieces), initial=-len(begun)))[1:]
        if ends and ends[-1] != len(attempt.text):  # the pieces of characters are not known
            ends = [len(attempt.text)] * len(ids)
        text = [attempt.text] if attempt.text else []
        branch.buffer = Buffer(pieces=text, ids=list(ids), ends=ends, logprobs=self.unscored(ids))
        branch.overlap = len(begun)
        branch.finish_reason, branch.state = attempt.finish_reason, BranchState.DONE
        self.text.restart(attempt.text, len(ids))
        self.reported = len(ids)

    def rewind(self, place: int) -> bool:
        """Rewind to after ``place`` tokens, before a banned phrase; the random state stays.

        Returns whether any of the removed text had been published.
        """
        buffer, known = self.buffer, self.text.rewind(place)
        if known and max(self.text.published - self.hidden, 0) == len(self.branch.text):
            del buffer.ids[place:], buffer.ends[place:], buffer.logprobs[place:]
            self.pending = max(self.hidden - self.text.published, 0)
        else:
            text = self.branch.text[: max(buffer.ends[place - 1], 0) if place else 0]
            self._replace_buffer(text, place)
            self.text.restart(text, place)
            self.hidden = self.pending = 0
        self.buffer.drawn[:] = [drawn for drawn in self.buffer.drawn if drawn.position < place]
        self.text_changed()
        published = self.reported > place or self.buffer is not buffer
        self.reported = min(self.reported, place)
        return published

    def cut(self, chars: int) -> None:
        """Keep ``chars`` characters and the tokens within them; the rest of the characters is the tail."""
        keep, text = self.tokens_within(chars), self.branch.text[:chars]
        self._replace_buffer(text, keep)
        new = self.buffer
        new.typed = [(begin, min(end, chars)) for begin, end in new.typed if begin < chars]
        new.tail = text[max(new.ends[-1], 0) if new.ends else 0 :]
        if keep < self.first:  # the window was shifted since; it is made anew where it is still needed
            self.base, self.first = self.request.ids, 0
        self.restart_text()
        self.restart_sampling()

    def _replace_buffer(self, text: str, tokens: int) -> None:
        """Begin a new buffer with the first ``tokens`` tokens of this one, which spell ``text``."""
        old = self.buffer
        new = Buffer(old.revision + 1, [text] if text else [], old.ids[:tokens], old.ends[:tokens])
        new.logprobs, new.typed = old.logprobs[:tokens], old.typed
        new.drawn = [drawn for drawn in old.drawn if drawn.position < tokens]
        self.branch.buffer = new

    def restart_text(self) -> None:
        """Let no rule look at the text so far."""
        self.hidden = self.pending = 0
        self._forget_rewinds()
        self.text.restart(self.branch.text, self.written)

    def spell_again(self, text: str) -> None:
        """Let the next tokens spell ``text``, the end of the text so far, again."""
        self.pending = len(text)
        whole = self.branch.text
        self.text.restart(whole[: max(len(whole) - len(text), 0)], self.written, len(text))

    def spell_prompt_again(self) -> None:
        """Let the first tokens spell what token healing took off the prompt."""
        self.spell_again(self.request.pending_text)
        self.hidden = self.branch.overlap = self.pending

    def _forget_rewinds(self) -> None:
        """Forget rewind state: the text has changed."""
        self.reported = len(self.buffer.ids)
        self.barred = {k: tokens for k, tokens in self.barred.items() if k == self.reported}
        if self.rewinds is not None:
            self.rewinds.forget()

    def drop_half_spelt(self) -> None:
        """Drop tokens that repeat only part of the prompt's end: typed words begin with all of it."""
        buffer = self.buffer
        if buffer.ids and buffer.ends[-1] < 0:
            before = self.written
            buffer.ids.clear()
            buffer.ends.clear()
            buffer.logprobs.clear()
            self.limit += self.written - before
            self.reported = 0
            self.text_changed()

    def add_typed(self, text: str, ids: Sequence[int], ends: Sequence[int], unspelt: int = 0) -> None:
        """Add text that a person typed.

        The tokens spell ``unspelt`` characters before it, too; its end they need not spell. ``ends`` are
        characters after each of them. Text that follows a tail becomes a part of that.
        """
        branch, buffer, before = self.branch, self.buffer, self.written
        begin = len(branch.text)
        buffer.typed.append((begin, begin + len(text)))  # before the text, so that no reader misses it
        buffer.pieces.append(text)
        buffer.logprobs += self.unscored(ids)
        buffer.ids.extend(ids)
        buffer.ends.extend(begin + max(end - unspelt, 0) for end in ends)
        buffer.tail += text if buffer.tail else ""
        self.limit += self.written - before
        self.text_changed()
        self.restart_text()
        self.request.events.append(Text(branch.index, text, tuple(ids)))

    def settle_tail(self, ids: Sequence[int]) -> None:
        """Make ``ids`` the tokens of the text that has none yet, so that the branch can continue from it."""
        buffer, before = self.buffer, self.written
        buffer.ids.extend(ids)
        buffer.ends.extend([len(self.branch.text)] * len(ids))
        buffer.logprobs += self.unscored(ids)
        buffer.tail = ""
        self.limit += self.written - before
        self.reported = len(buffer.ids)
        self.request.events.append(Text(self.branch.index, "", tuple(ids)))
        self.text_changed()

    def shift(self, window: int) -> bool:
        """Forget the older half of what follows the kept head until it fits, if the request allows it.

        What remains is evaluated again: shifting cells in place would move them for every branch
        that shares them, and leaves other values than a fresh evaluation.
        """
        asked, path = self.request.asked, self.path
        if asked.overflow != "shift":
            return False
        keep = len(self.request.ids) if asked.n_keep < 0 else min(asked.n_keep, len(path))
        gone, rest = 0, len(path) - keep
        while len(path) - gone + 1 > window:  # a rewind can leave several windows full
            if rest < 2:
                return False
            gone, rest = gone + rest // 2, rest - rest // 2
        self.base = path[:keep] + path[keep + gone :]
        self.first = len(self.buffer.ids)
        self.request.generation.truncated = True
        self.slid(keep)
        return True

    def slid(self, kept: int) -> None:
        """The path is another one behind its first ``kept`` tokens."""
