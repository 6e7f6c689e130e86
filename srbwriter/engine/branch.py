"""The engine's side of a branch: a list of tokens, and all that follows from it.

Every token comes by :meth:`ActiveBranch.receive`, and every way back leads through
:meth:`ActiveBranch.back_to`. A :class:`~srbwriter.engine.generation.Branch` is the handle that readers have
on it. Knows nothing of models and caches.

Characters are counted in the text of the branch. Where its first tokens spell the end of the prompt again
(token healing), they begin before 0.
"""

from __future__ import annotations

import codecs
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from .generation import Branch, Buffer
from .rules import Ending, StopRules, compile_phrases
from .text import Pieces
from .tree import Demand
from .types import (
    BranchState,
    Cut,
    Finished,
    FinishReason,
    PhraseBanned,
    Sampling,
    StateChanged,
    Stop,
    Take,
    Text,
    TokenLogprob,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .active import ActiveRequest
    from .constraints import Constraint
    from .sampling import Chain
    from .siblings import Siblings

NO_LIMIT = 1 << 60  # tokens
_TO_RUN = frozenset({BranchState.WAITING, BranchState.PROMPT, BranchState.WRITING})
_utf8 = codecs.getincrementaldecoder("utf-8")


TRIES = 32
"""Attempts to go on without a phrase from one place; after these it may stay."""


class ChainState(IntEnum):
    """Whether the sampler chain of a branch has to change before it samples again."""

    CURRENT = 0
    STALE = 1  # the text was changed: the chain needs the new history
    OUTDATED = 2  # the settings were changed: the chain is replaced


class Back(NamedTuple):
    """The branch has to choose again after ``tokens`` tokens, because of a banned ``phrase``."""

    tokens: int
    phrase: str


class ActiveBranch(Demand):
    """One branch of the local engine. ``base`` and the buffer's ids are its path.

    Attributes:
        decoded: where the text of its tokens ends; behind ``shown`` text is held back, and before that
            the next tokens spell again what is there already.
        shown: where the published text ends.
        floor: where the text begins that rules may look for matches in: what the model wrote since the last
            restart.
        reported: tokens of the buffer that events have reported.
        barred: tokens that are barred at a place of the attempt.
        rows: the logits that its last tokens were chosen from, as far as a ban may need them, by place.
        deadline: time.monotonic() at which it ends.
        prompting: whether its sequence reads the prompt, for all branches of the request.
        since: the step since which it has waited or run.
        tokens_at_start: tokens that it had when it was admitted.
        constraint: its grammar; ``constrained`` says whether that has seen all of the text.
        heal: the end of typed text, which the next tokens must spell.
        alone: whether llama.cpp can sample it in a single call.
        fast: whether nothing else is to be done for a token.
        banned: the phrases that are looked for.
        siblings: the draw that it shares with its siblings; None once it has parted from them.
        begun: the tokens up to the last one that was drawn together with siblings.
    """

    def __init__(self, request: ActiveRequest, branch: Branch, pieces: Pieces) -> None:
        super().__init__(request.asked.priority, request.salt)
        self.request, self.branch, self.pieces = request, branch, pieces
        self.prompting = False
        self.since = self.tokens_at_start = 0
        self.chain: Chain | None = None
        self.chain_state = ChainState.CURRENT
        self.constraint: Constraint | None = None
        self.constrained = False
        self.heal: Constraint | None = None
        self.alone = self.fast = False
        self.banned: tuple[str, ...] = ()
        self.siblings: Siblings | None = request.siblings
        self.begun: list[int] = []
        self.base: Sequence[int] = request.ids
        self.reported = 0
        self.sampling: Sampling = branch.sampling
        self.barred: dict[int, set[int]] = {}
        self.rows: dict[int, NDArray[np.float32]] = {}
        self._farthest, self._tries = -1, 0  # where a phrase began, and attempts since that was reached
        self._decoder = _utf8("replace")
        self._broken = False  # whether a character is still to be completed
        self._bans, self._reach = compile_phrases(()), 1
        self._before = ""  # the end of the prompt, as far as a phrase may begin in it
        self.decoded = self.shown = self.floor = 0
        self._recent, self._seen = "", 0  # the text as the rules see it: its end, and where that is
        self._ban_from = self._ban_floor = 0  # where phrases may begin, and where none ends
        self._plain = False  # whether tokens are published at once, as nothing looks at them
        self.set_stop(branch.stop_rule)

    # ---- what there is

    @property
    def buffer(self) -> Buffer:
        return self.branch.buffer

    @property
    def path(self) -> list[int]:
        """Every token from the start of the prompt to the end of the branch; not to be changed."""
        if self.prompting or self.at_prompt:
            return self.request.ids
        return [*self.base, *self.buffer.ids]

    @property
    def length(self) -> int:
        """Tokens of the path."""
        if self.prompting:
            return len(self.request.ids)
        return len(self.base) + len(self.buffer.ids)

    @property
    def waiting(self) -> bool:
        """Whether it has something to write and no sequence."""
        return self.seq < 0 and self.branch.state in _TO_RUN

    @property
    def every_token(self) -> bool:
        """Whether it reads the prompt, of which log-probabilities are requested."""
        return self.prompting and self.request.needs_scoring

    @property
    def last_token(self) -> int:
        ids = self.buffer.ids
        return ids[-1] if ids else self.base[-1]

    @property
    def at_prompt(self) -> bool:
        """Whether it is at the end of the prompt, as all branches of its request are at first."""
        return not self.buffer.ids and self.base is self.request.ids

    @property
    def still_healing(self) -> bool:
        """Whether its tokens repeat a part of the prompt's end, and all of its own text is still to come."""
        return self.decoded < 0 and bool(self.buffer.ids)

    @property
    def written(self) -> int:
        """Tokens of this attempt."""
        return len(self.buffer.ids)

    @property
    def text_without_tokens(self) -> str:
        """The end of the text that no token spells, with the prompt's end if no token spells that."""
        begun, ends = self.request.pending_text, self.buffer.ends
        return (begun + self.branch.text)[len(begun) + ends[-1] if ends else 0 :]

    def tokens_within(self, chars: int) -> int:
        """Return how many tokens lie wholly within the first ``chars`` characters."""
        return bisect_right(self.buffer.ends, chars)

    def unscored(self, ids: Sequence[int]) -> list[TokenLogprob]:
        """Return placeholder logprobs for ``ids`` that the model did not write, if logprobs are reported."""
        if self.request.asked.logprobs is None:
            return []
        return [TokenLogprob(token, -math.inf) for token in ids]

    # ---- one token

    def receive(
        self, token: int, logprob: TokenLogprob | None, now: float, row: Callable[[], NDArray[np.float32]]
    ) -> Ending | Back | None:
        """Add a token that was sampled, publish what may be, and say whether the branch ends or goes back.

        None: it continues. After a Back nothing of the token is published, and :meth:`back_to` follows.

        Args:
            logprob: that of the token, if the request has them.
            now: time.monotonic().
            row: gives the logits that the token was chosen from.
        """
        branch, buffer = self.branch, self.branch.buffer

        # The end of the text is a token, too, and not kept.
        if token in self.request.eog and not self.ignore_eog:
            self.flush()
            self.text_changed()
            return Ending(FinishReason.EOG)
        if token in self.stop_ids:
            self.flush()
            self.text_changed()
            return Ending(FinishReason.STOP)

        text, begin = self.pieces.text[token], self.decoded
        if text is None or self._broken:  # a part of a character
            text = self._decoder.decode(self.pieces.bytes[token])
            self._broken = bool(self._decoder.getstate()[0])
        self.decoded = begin + len(text)
        buffer.ids.append(token)
        buffer.ends.append(self.decoded)
        if logprob is not None:
            buffer.logprobs.append(logprob)
        if self._plain:  # most tokens: nothing looks at them
            if text:
                buffer.pieces.append(text)
            self.shown = self._seen = self.decoded
            self.reported = len(buffer.ids)
            logprobs = () if logprob is None else (logprob,)
            self.request.events.append(Text(branch.index, text, (token,), logprobs))
            return self._at_limit(now)

        new = text[max(self._seen - begin, 0) :]  # without what is only spelt again
        self._seen = max(self._seen, self.decoded)
        self._recent = (self._recent + new)[-(self._reach + self._seen - self.shown) :]
        recent, at = self._recent, self._seen - len(self._recent)

        # Phrases, from which the branch goes back; what they may yet begin in is `loose`. Where it would go
        # back to, others may begin that what is taken back has ruled out.
        loose = self._seen
        if self._bans is not None:
            begun = self.shown if self.shown > self._ban_floor else self._ban_floor - self._bans.reach
            start, floor = max(begun, self._ban_from) - at, self._ban_floor - at
            match = earlier = self._bans.find(recent, start, floor)
            while earlier is not None and earlier[0] and at + earlier.start() < loose:
                loose = at + earlier.start()
                kept = self.tokens_within(loose)
                end = buffer.ends[kept - 1] if kept else 0
                earlier = self._bans.find(recent[: max(end - at, 0)], start, floor)
            first = self.tokens_within(loose)
            self.rows = {place: logits for place, logits in self.rows.items() if place >= first}
            if first < len(buffer.ids):
                self.rows[len(buffer.ids) - 1] = row().copy()
            if match is not None and not match.partial:
                phrase, found = self._bans.name(match[0]), at + match.start()
                place = self.choose_place(found, self.tokens_within(max(found, 0)))
                if place is not None:
                    return Back(place, phrase)
                self.request.events.append(PhraseBanned(branch.index, phrase, 0))  # it stays
                self._ban_from = self._ban_floor = loose = self._seen

        # Stop rules: of several that match, the one that keeps least. Nothing is shown that may be cut off.
        hold = self._seen
        taken_back = self.tokens_within(loose)
        if taken_back < len(buffer.ids):
            hold = buffer.ends[taken_back - 1] if taken_back else 0
        shown, may_end = self.shown, self.written >= self.min_tokens
        keep, ending = self._rules.judge(
            recent[shown - at :], new, shown, may_end, self.written, hold - shown
        )  # fmt: skip
        hold = shown + keep
        if ending is not None:
            kept = self.tokens_within(hold)
            drawn = self.begun
            self._show(hold, kept)
            self.back_to(kept, hold)
            self.begun = drawn[: kept + 1]
            return ending

        self._show(hold, taken_back)
        return self._at_limit(now)

    def _at_limit(self, now: float) -> Ending | None:
        """Return how the branch ends if it has written all that it may."""
        if self.written < self.limit and (self.deadline is None or now <= self.deadline):
            return None
        self.flush()
        return Ending(FinishReason.LENGTH)

    def _show(self, place: int, tokens: int) -> None:
        """Publish the text up to ``place``, and report the first ``tokens`` tokens."""
        buffer, begin, at = self.buffer, self.reported, self._seen - len(self._recent)
        text = self._recent[self.shown - at : max(place - at, 0)]
        if text:
            buffer.pieces.append(text)
            self.shown += len(text)
        self.reported = max(tokens, begin)
        ids, logprobs = buffer.ids[begin : self.reported], buffer.logprobs[begin : self.reported]
        if text or ids:
            self.request.events.append(Text(self.branch.index, text, tuple(ids), tuple(logprobs)))
        self._plain = not self._ruled and self._seen == self.shown <= self.decoded

    def flush(self) -> None:
        """Publish what was held back."""
        buffer = self.buffer
        if self.still_healing:  # nothing is held back, and the branch may go on from half a word
            self._show(self._seen, len(buffer.ids))
            return
        broken = self._decoder.decode(b"", True)  # a broken character as U+FFFD
        self._decoder.reset()
        self._broken = False
        if broken:
            self.decoded += len(broken)
            self._seen, self._recent = self.decoded, self._recent + broken
            buffer.ends[-1] = self.decoded
        self._show(self._seen, len(buffer.ids))

    # ---- the way back

    def choose_place(self, start: int, first: int) -> int | None:
        """Count a phrase that begins at the character ``start``, or a dead end.

        Returns the place of the token to choose again, which is ``first`` unless that cannot be changed. None
        where there is none, or after :data:`TRIES` attempts from one place, for any list of phrases.
        """
        if start > self._farthest:
            self._farthest, self._tries = start, 0
        self._tries += 1
        begun = bisect_right(self.buffer.ends, -1)  # tokens that repeat the prompt's end, and not all of it
        place = max(first, begun + 1 if begun else 0)
        return place if self._tries <= TRIES and place < self.written else None

    def give_up(self) -> None:
        """Let the next phrase stay: there is no other continuation."""
        self._tries = TRIES
        self.barred.clear()

    def back_to(self, tokens: int, chars: int | None = None, tell: bool = False) -> None:
        """Keep the first ``tokens`` tokens and ``chars`` characters, by default those that they spell.

        What no token spells of them is the tail. Readers get a Cut where they have seen any of what is gone,
        or to ``tell`` them anyway. The random state of the sampler stays.
        """
        buffer, text = self.buffer, self.branch.text
        whole = self.decode_again(tokens)
        if chars is not None and whole < tokens:  # a character of which a part alone would be left
            self._decoder.reset()
            tokens = whole
        self._broken = whole < tokens
        end = buffer.ends[tokens - 1] if tokens else 0
        chars = max(end, 0) if chars is None else chars
        held = self.held[: max(chars - self.shown, 0)]
        changed = tokens < len(buffer.ids)
        if chars < len(text):  # readers have it
            text = text[:chars]
            new = Buffer(buffer.revision + 1, [text] if text else [], buffer.ids[:tokens])
            new.ends, new.logprobs = buffer.ends[:tokens], buffer.logprobs[:tokens]
            self.branch.buffer = new
        else:
            del buffer.ids[tokens:], buffer.ends[tokens:], buffer.logprobs[tokens:]
            new = buffer
        self.begun = self.begun[:tokens]
        new.tail = text[max(end, 0) :]
        self.barred = {place: barred for place, barred in self.barred.items() if place <= tokens}
        self.rows = {place: row for place, row in self.rows.items() if place < tokens}
        self.decoded, self.floor = end, min(self.floor, chars)
        seen_before, self.reported = self.reported, min(self.reported, tokens)
        self._look_again(held)
        if changed:
            self.text_changed()
        if tell or new is not buffer or seen_before > tokens:
            self.request.events.append(Cut(self.branch.index, len(text), tokens))

    def decode_again(self, tokens: int) -> int:
        """Set the decoder back to where so many tokens end; return how many of them are whole characters."""
        ids, whole = self.buffer.ids, tokens
        while whole and self.pieces.text[ids[whole - 1]] is None:
            whole -= 1
        self._decoder.reset()
        for place in range(whole, tokens):
            self._decoder.decode(self.pieces.bytes[ids[place]])
            whole = whole if self._decoder.getstate()[0] else place + 1
        return whole

    def restart_attempt(self) -> None:
        """Forget the text; the reader sees a new revision."""
        branch = self.branch
        if self.request.siblings is not None:
            self.request.siblings.discard(self)
        branch.buffer = Buffer(self.buffer.revision + 1)
        self.barred.clear()
        self.begun = []
        self.restart_sampling()
        branch.started_at = branch.changed_at = 0.0
        branch.bans = branch.overlap = 0
        self.restart_text()
        self.set_stop(branch.stop_rule)
        self.request.events.append(Cut(branch.index, 0, 0))

    def restart_text(self, again: int = 0, broken: bytes = b"") -> None:
        """Let no rule look at the text so far; the next tokens spell its last ``again`` characters again.

        ``broken`` are the first bytes of a character that the next token completes.
        """
        self.heal = None
        self._decoder.reset()
        self._decoder.decode(broken)
        self._broken = bool(broken)
        self.floor = len(self.branch.text)
        self._ban_from = self.floor - self._reach
        self.decoded = self.floor - again
        self.reported = len(self.buffer.ids)
        self.barred = {place: barred for place, barred in self.barred.items() if place == self.reported}
        self.rows.clear()
        self._farthest = -1
        self._look_again()

    def _look_again(self, held: str = "") -> None:
        """Let the rules see the text as it is, with ``held`` behind the published text."""
        text = self.branch.text
        self.shown, self._seen = len(text), len(text) + len(held)
        self._ban_floor = self.shown
        self._recent = (self._before + text + held)[-(self._reach + len(held)) :]
        begun = self.request.pending_text if self.branch.overlap else ""
        self._rules = StopRules(self.branch.stop_rule, text + held, self.floor, begun)
        self._ruled = bool(self._rules.watch or self._bans)
        self._plain = not self._ruled and self._seen == self.shown <= self.decoded

    def spell_prompt_again(self) -> None:
        """Let the first tokens spell what token healing took off the prompt."""
        self.branch.overlap = len(self.request.pending_text)
        self.restart_text(self.branch.overlap)

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
        self.min_tokens, self.ignore_eog = stop.min_tokens, stop.ignore_eog
        self.stop_ids = frozenset(stop.token_ids)
        self.deadline = None if stop.max_seconds is None else time.monotonic() + stop.max_seconds
        self._look_again(self.held)

    def watch(self, prompt_end: Callable[[int], str]) -> None:
        """Look for the phrases that its sampling bans from here on, if they are others.

        ``prompt_end`` gives the last characters before the branch, at least so many.
        """
        held = self.held
        if self.banned == self.sampling.banned_phrases:
            return
        self.banned = self.sampling.banned_phrases
        self._bans = compile_phrases(self.banned)
        self._reach = self._bans.reach if self._bans else 1
        self._before = prompt_end(self._reach) if self._reach > 1 else ""
        self._ban_from = len(self.branch.text) - self._reach
        self.rows.clear()
        self._farthest = -1
        self._look_again(held)

    @property
    def held(self) -> str:
        """Return the text at the end that is not shown yet."""
        return self._recent[len(self._recent) - max(self._seen - self.shown, 0) :]

    # ---- another text

    def begin(self, ids: Sequence[int], without: Sequence[int]) -> None:
        """Begin a new attempt with ``ids``, followed by none of ``without``.

        The ids are kept as they are, even if the last one ends inside a character. The attempt writes the
        rule's number of tokens after them. Tokens that do not spell all of the healed prefix are left out.
        """
        healed, decoder, spelt = len(self.request.pending_text), _utf8("replace"), ""
        ends = list[int]()
        for token in ids:
            spelt += decoder.decode(self.pieces.bytes[token])
            ends.append(len(spelt) - healed)
        if ends and ends[-1] >= 0:
            text, buffer = spelt[healed:], self.buffer
            buffer.pieces += [text] if text else []
            buffer.ids += ids
            buffer.ends += ends
            buffer.logprobs += self.unscored(ids)
            self.branch.overlap = healed
            self.restart_text(broken=decoder.getstate()[0])
            self.set_stop(self.branch.stop_rule, self.branch.stop_rule.max_tokens)
            self.request.events.append(Text(self.branch.index, text, tuple(ids)))
        if without:
            self.barred = {len(self.buffer.ids): set(without)}

    def take_up(self, attempt: Take, ids: Sequence[int]) -> None:
        """Restore an earlier attempt, whose tokens, with the prompt's end, are ``ids``."""
        branch, begun = self.branch, self.request.pending_text
        decoder, spelt = _utf8("ignore"), map(self.pieces.bytes.__getitem__, ids)
        ends = list(accumulate((len(decoder.decode(piece)) for piece in spelt), initial=-len(begun)))[1:]
        if ends and ends[-1] != len(attempt.text):  # the pieces of characters are not known
            ends = [len(attempt.text)] * len(ids)
        text = [attempt.text] if attempt.text else []
        branch.buffer = Buffer(pieces=text, ids=list(ids), ends=ends, logprobs=self.unscored(ids))
        branch.overlap = len(begun)
        branch.finish_reason, branch.state = attempt.finish_reason, BranchState.DONE
        self.restart_text()

    def settle_tail(self, ids: Sequence[int]) -> None:
        """Make ``ids`` the tokens of the text that has none yet, so that the branch can continue from it."""
        buffer = self.buffer
        buffer.tail = ""
        buffer.logprobs += self.unscored(ids)
        buffer.ids.extend(ids)
        buffer.ends.extend([len(self.branch.text)] * len(ids))
        self.limit += len(ids)
        self.text_changed()
        self.restart_text()
        self.request.events.append(Text(self.branch.index, "", tuple(ids)))

    # ---- what the sampler has to know of

    def text_changed(self) -> None:
        """Note that chain and grammar have not seen the text as it is; the random state is kept."""
        self.chain_state = max(self.chain_state, ChainState.STALE)
        self.forget_constraint()

    def rules_changed(self) -> None:
        """Note that the settings were changed, so that the chain is replaced."""
        self.chain_state = ChainState.OUTDATED
        self.forget_constraint()

    def restart_sampling(self) -> None:
        """Let the next token begin with a fresh random state."""
        self.chain = None
        self.siblings = self.request.siblings
        self.forget_constraint()

    def forget_constraint(self) -> None:
        self.constraint, self.constrained = None, False
