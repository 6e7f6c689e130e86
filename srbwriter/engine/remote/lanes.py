"""Our side of a request that runs elsewhere: what each branch has, and what becomes of text that comes in.

Stop rules are applied here, by the same code as beside a model of our own, so that a branch ends in the same
place whatever the other side knows. To be used on the loop's thread only.
"""

from __future__ import annotations

import codecs
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..generation import Branch, Buffer, Generation
from ..prompt import Unfinished
from ..text import BranchText, Hit, Pieces
from ..types import (
    BranchState,
    Cut,
    Done,
    EngineError,
    Event,
    Failed,
    Finished,
    FinishReason,
    Priority,
    Sampling,
    StateChanged,
    Stop,
    Text,
    TokenLogprob,
)
from .dialects.base import Piece, TakenBack

if TYPE_CHECKING:
    from .serving import Stretch

NO_LIMIT = 1 << 60
_MASK = 0xFFFFFFFFFFFFFFFF
_NOTHING = Pieces(())
SEEDS = 1 << 31
"""Seeds that every server takes."""

Spell = Callable[[Sequence[int]], "list[str] | None"]
"""The text of each id, as far as it is known without asking."""


def mixed(seed: int, k: int) -> int:
    """The k-th seed that follows from ``seed`` (SplitMix64; Steele, Lea and Flood, 2014)."""
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) & _MASK) % SEEDS


class Wording(BranchText):
    """The text of a branch, fed with text instead of tokens."""

    __slots__ = ()
    decoded: int
    tokens: int

    def take(self, text: str, tokens: int) -> tuple[str, Hit | None]:
        """So many tokens more, which add ``text``; see :meth:`.text.BranchText.feed`."""
        self.tokens += tokens
        self.decoded += len(text)
        return (text, None) if self._plain else self._check(text)


class Run:
    """A request being served elsewhere."""

    def __init__(self, generation: Generation, ids: tuple[int, ...], counted: bool) -> None:
        self.generation = generation
        self.request = generation.request
        self.ids = self.whole = ids  # without and with what token healing took off the prompt's end
        self.counted = counted  # ids are made up here: tokens are counted as they come
        self.lanes: list[Lane] = []
        self.events: list[Event] = []
        self.seeds: set[int] = set()
        self.to_foretell = self.request.next_logprobs is not None or bool(self.request.next_ids)
        self.read = False  # their account of the prompt has come
        self.again = False  # a branch of it is to be asked for once more
        self.dead = False

    @property
    def live(self) -> bool:
        return any(lane.branch.live for lane in self.lanes)

    @property
    def constrained(self) -> bool:
        return any(
            any((s.grammar, s.json_schema, s.regex)) for s in (lane.branch.sampling for lane in self.lanes)
        )

    def seed(self, asked: int | None, base: int, k: int) -> int:
        """The seed ``asked`` for, or one that follows from ``base`` and that no take of the request had."""
        seed = asked
        while seed is None or seed in self.seeds and asked is None:
            seed, k = mixed(base, k), k + 1
        self.seeds.add(seed)
        return seed

    def publish(self, obeyed: bool = False) -> None:
        """Let readers see what has happened."""
        if (self.events or obeyed) and not self.live and not self.dead:
            failed = [lane.branch.error for lane in self.lanes if lane.branch.state is BranchState.FAILED]
            # Who looks at a screen may roll it again when the other side is back; a program is told at once.
            if len(failed) == len(self.lanes) and self.request.priority is not Priority.FOREGROUND:
                self.dead = True
                self.events.append(Failed(failed[0] or EngineError("it failed")))
            else:
                written = sum(len(lane.branch.buffer.ids) for lane in self.lanes)
                self.events.append(Done(len(self.ids), self.generation.cached_tokens, written))
        events, self.events = self.events, []
        self.generation.publish(events)


class Lane:
    """One branch. ``base`` and its ids from ``first`` on are what the other side is to go on from."""

    def __init__(self, run: Run, branch: Branch) -> None:
        self.run, self.branch = run, branch
        self.stretch: Stretch | None = None  # the request that writes it now
        self.resting = False  # paused over there; its stretch goes on
        self.stood = 0  # characters when the other side began with it
        self.backlog: list[Piece | TakenBack] = []  # what came while it rested
        self.base: Sequence[int] = run.ids
        self.first = 0
        self.unspelt = ""  # text that stands there already and that the next tokens have to spell
        self.came = 0  # tokens of this take, where they are counted as they come
        self.failures = 0  # attempts since the last token
        self.asked_at = self.sign_at = 0.0  # since when it waits for a token, and for any sign of life
        self.without: dict[int, tuple[int, ...]] = {}  # tokens that may not come at a place of the take
        self.beyond = False  # it is to go on where the model saw an end
        self.words = Wording(_NOTHING, branch.stop_rule)
        self.limit = NO_LIMIT
        self.min_tokens = 0
        self.deadline: float | None = None
        self.set_stop(branch.stop_rule)
        self.heal(run.generation.healed)

    # ---- what there is

    @property
    def buffer(self) -> Buffer:
        return self.branch.buffer

    @property
    def path(self) -> tuple[int, ...]:
        return (*self.base, *self.buffer.ids[self.first :])

    @property
    def written(self) -> int:
        """Tokens of this take."""
        return self.came if self.run.counted else len(self.buffer.ids)

    @property
    def left(self) -> int | None:
        """Tokens that it may still write; None: no limit."""
        return None if self.limit >= NO_LIMIT else max(self.limit - self.written, 0)

    @property
    def barred(self) -> tuple[int, ...]:
        """Tokens that may not come next."""
        return self.without.get(len(self.buffer.ids), ())

    @property
    def next_seed(self) -> int:
        """Going on with a seed from its beginning would draw the same numbers again."""
        seed = self.branch.seed % SEEDS
        return mixed(seed, self.written) if self.buffer.ids or self.buffer.pieces else seed

    def set_waiting(self, held_up: float) -> None:
        """A request is sent now; ``held_up`` seconds before, in which others had its place, do not count."""
        if self.failures:
            self.asked_at += held_up
            self.sign_at += held_up
        else:
            self.asked_at = self.sign_at = time.monotonic()

    # ---- text that comes in

    def write(self, piece: Piece, spell: Spell) -> None:
        """Add what came to the branch and apply the stop rules."""
        branch, now = self.branch, time.monotonic()
        self.failures, self.asked_at, self.sign_at = 0, now, now
        branch.error = None
        if self.left == 0:
            self.finish(FinishReason.LENGTH)
            return
        if not branch.started_at:
            branch.started_at = branch.changed_at = now
            seconds = branch.stop_rule.max_seconds
            self.deadline = None if seconds is None else now + seconds
        self.set_state(BranchState.WRITING)
        branch.changed_at = now
        ids, logprobs = piece.ids, piece.logprobs
        ends = branch.stop_rule.token_ids
        stopped = next((k for k, token in enumerate(ids) if token in ends), None) if ends else None
        if stopped is not None:
            spelt = spell(ids)
            self._add("".join(spelt[:stopped]) if spelt else "", ids[:stopped], logprobs[:stopped], spell)
            if branch.live:
                self.finish(FinishReason.STOP)
            return
        self._add(piece.text, ids, logprobs, spell)
        if branch.live and self.deadline is not None and now > self.deadline:
            self.finish(FinishReason.LENGTH)  # that there are enough tokens they see themselves

    def _add(
        self, text: str, ids: Sequence[int], logprobs: tuple[TokenLogprob, ...], spell: Spell
    ) -> None:  # fmt: skip
        if not text and not ids:
            return
        healing, spelling = bool(self.unspelt), self._spelling(text)
        if spelling is None:
            return
        text = spelling
        buffer, words, before = self.buffer, self.words, len(self.buffer.ids)
        begin: int = words.decoded
        self.came += 1
        out, hit = words.take(text, 1 if self.run.counted else max(len(ids), 1))
        if len(ids) == 1 or healing:
            buffer.ids.extend(ids)
            buffer.ends.extend([words.decoded - len(self.unspelt)] * len(ids))
        else:
            buffer.ids.extend(ids)
            buffer.ends.extend(_ends(begin, text, spell(ids), len(ids)))
        buffer.logprobs.extend((*logprobs, *self.unscored(ids[len(logprobs) :])))
        if hit is not None:
            self._stop_at(out, hit, before, ids, logprobs)
            return
        if out:
            buffer.pieces.append(out)
        self.run.events.append(Text(self.branch.index, out, tuple(ids), logprobs))

    def _stop_at(
        self, text: str, hit: Hit, before: int, ids: Sequence[int], logprobs: tuple[TokenLogprob, ...]
    ) -> None:
        """A stop rule matched: keep its characters, and the tokens that lie wholly in them."""
        branch, buffer = self.branch, self.buffer
        if text:
            buffer.pieces.append(text)
        kept = bisect_right(buffer.ends, max(hit.keep, 0))
        fresh = max(kept - before, 0)
        if text or fresh:
            self.run.events.append(Text(branch.index, text, tuple(ids[:fresh]), logprobs[:fresh]))
        del buffer.ids[kept:], buffer.ends[kept:], buffer.logprobs[kept:]
        buffer.tail = branch.text[buffer.ends[-1] if buffer.ends else 0 :]
        if kept < before:
            self.run.events.append(Cut(branch.index, len(branch.text), kept))
        self.finish(hit.reason, hit.stop_text, flush=False)

    # ---- token healing

    def heal(self, text: str) -> None:
        """The next tokens are to spell the prompt's end, which is ``text``, again."""
        self.unspelt, self.branch.overlap = text, len(text)

    def stop_healing(self) -> None:
        """Let the text be spelt as it was typed."""
        if self.unspelt and not self.buffer.tail:
            self._drop_half_spelt()
            self.base, self.first, self.branch.overlap = self.run.whole, 0, 0
        self.unspelt = ""

    def _spelling(self, text: str) -> str | None:
        """What is new in ``text``; None where it does not spell what it should."""
        if not self.unspelt:
            return text
        if not (text.startswith(self.unspelt) or self.unspelt.startswith(text)):
            self.leave(keep=False)
            self.stop_healing()
            self.set_state(BranchState.WAITING)
            self.run.again = True
            return None
        new, self.unspelt = text[len(self.unspelt) :], self.unspelt[len(text) :]
        if self.buffer.tail:  # typed into the branch, not the prompt's end
            self.buffer.tail = self.unspelt
        return new

    def _drop_half_spelt(self) -> None:
        """Tokens that spell a part of the prompt's end are of no use to anybody."""
        buffer = self.buffer
        if self.unspelt and buffer.ids and not buffer.pieces:
            del buffer.ids[:], buffer.ends[:], buffer.logprobs[:]
            self.unspelt = self.run.generation.healed
            self.run.events.append(Cut(self.branch.index, 0, 0))

    # ---- the end

    def finish(self, reason: FinishReason, stop_text: str | None = None, flush: bool = True) -> None:
        """End the branch; nothing that still comes for it is looked at."""
        branch = self.branch
        if flush:
            self.flush()
        told = reason in (FinishReason.KILLED, FinishReason.STOPPED)
        self.leave(keep=reason is not FinishReason.KILLED, told=told)
        branch.finish_reason, branch.stop_text, branch.error = reason, stop_text, None
        branch.state = BranchState.DONE
        self.run.events.append(Finished(branch.index, reason, len(self.buffer.ids), stop_text))

    def fail(self, error: EngineError) -> None:
        """It cannot go on, and says why; its text stays."""
        branch = self.branch
        self.flush()
        self.leave()
        branch.state, branch.finish_reason, branch.error = BranchState.FAILED, FinishReason.ERROR, error
        problem = Finished(branch.index, FinishReason.ERROR, len(self.buffer.ids), problem=error.words)
        self.run.events.append(problem)

    def flush(self) -> None:
        """Publish what was held back."""
        self._drop_half_spelt()
        held = self.words.finish()
        if held:
            self.buffer.pieces.append(held)
            self.run.events.append(Text(self.branch.index, held))

    def leave(self, keep: bool = True, told: bool = True) -> None:
        """Let go of the request that writes it; ``keep``: it may be gone on with.

        ``told``: by somebody, and not by a stop rule.
        """
        stretch, self.stretch = self.stretch, None
        self.resting = False
        self.backlog.clear()
        if stretch is not None:
            stretch.leave(self, keep, told)

    def set_state(self, state: BranchState) -> None:
        if self.branch.state is not state:
            self.branch.state = state
            self.run.events.append(StateChanged(self.branch.index, state))

    # ---- other rules, another text

    def set_stop(self, stop: Stop, more: int | None = None) -> None:
        """Apply a stop rule; ``more`` tokens from here instead of its max_tokens."""
        self.branch.stop_rule = stop
        if more is not None:
            self.limit = self.written + more
        else:
            self.limit = NO_LIMIT if stop.max_tokens is None else stop.max_tokens
        self.min_tokens = stop.min_tokens
        self.deadline = None if stop.max_seconds is None else time.monotonic() + stop.max_seconds
        self.words.set_stop(stop)

    def new_take(self) -> None:
        """Forget the text; the reader sees a new revision."""
        self.branch.buffer = Buffer(self.buffer.revision + 1)
        self.base, self.first, self.came, self.without = self.run.ids, 0, 0, {}
        self.heal(self.run.generation.healed)
        self.words.restart("")
        self.branch.started_at = self.branch.changed_at = 0.0
        self.set_stop(self.branch.stop_rule)

    def begin(self, ids: Sequence[int], spelt: Sequence[bytes], without: Sequence[int]) -> None:
        """Let a new take begin with ``ids``, which write ``spelt``, and not go on with one of ``without``.

        It writes as much as its rule says after them.
        """
        if ids:
            self._begin(ids, spelt)
        if without:
            self.without = {len(self.buffer.ids): tuple(without)}

    def _begin(self, ids: Sequence[int], spelt: Sequence[bytes]) -> None:
        decoder, ends = codecs.getincrementaldecoder("utf-8")("replace"), list[int]()
        text = ""
        for piece in spelt:
            text += decoder.decode(piece)
            ends.append(len(text))
        if self.unspelt and self.unspelt.startswith(text):
            return  # nothing is left of what did not get beyond the prompt's end
        if not text.startswith(self.unspelt):
            self.stop_healing()
        begun, self.unspelt = len(self.unspelt), ""
        text, ends = text[begun:], [end - begun for end in ends]
        self.buffer.pieces += [text] if text else []
        self.buffer.ids += ids
        self.buffer.ends += ends
        self.buffer.logprobs += self.unscored(ids)
        self.came = len(ids)
        self.words.restart(text, self.written)
        self.set_stop(self.branch.stop_rule, self.branch.stop_rule.max_tokens)
        self.run.events.append(Text(self.branch.index, text, tuple(ids)))

    def cut(self, chars: int) -> None:
        """Keep ``chars`` characters and the tokens within them; what no token covers is the tail."""
        if chars <= 0:
            self.new_take()
        else:
            self._keep(chars)

    def take_back(self, chars: int) -> None:
        """The other side goes another way after so many characters of what it wrote."""
        chars = max(self.stood + chars, 0)
        if chars < len(self.branch.text):
            self._keep(chars)
            self.run.events.append(Cut(self.branch.index, chars, len(self.buffer.ids)))

    def _keep(self, chars: int) -> None:
        old = self.buffer
        keep = bisect_right(old.ends, chars)
        if self.branch.overlap and (not keep or old.ends[keep - 1] < 0):  # cut amid the token that healed
            keep, self.branch.overlap = 0, 0
            self.base, self.first = self.run.whole, 0
        self.unspelt = ""
        text = "".join(old.pieces)[:chars]
        new = Buffer(old.revision + 1, [text] if text else [], old.ids[:keep], old.ends[:keep])
        new.logprobs = old.logprobs[:keep]
        new.typed = [(begin, min(end, chars)) for begin, end in old.typed if begin < chars]
        new.tail = text[new.ends[-1] if new.ends else 0 :]
        if keep < self.first:
            self.base, self.first = self.run.ids if self.branch.overlap else self.run.whole, 0
        self.came = round(self.came * chars / max(len("".join(old.pieces)), 1))
        self.branch.buffer = new
        self.words.restart(text, self.written)

    def typed(self, text: str, ids: Sequence[int], end: Unfinished) -> None:
        """Add words that a person typed; where text without tokens stands before them, they join that.

        The model is to spell their ``end`` itself.
        """
        self.stop_healing()
        buffer, begin = self.buffer, len(self.branch.text)
        buffer.typed.append((begin, begin + len(text)))  # before the text, so that no reader misses it
        buffer.pieces.append(text)
        if buffer.tail:
            buffer.tail, ids = buffer.tail + text, ()
        elif end.tokens:
            buffer.tail = self.unspelt = end.text
            ids = ids[: -end.tokens]
        self._unwritten(ids, begin + len(text) - len(self.unspelt))
        self.limit += 0 if self.run.counted else len(ids)
        self.words.restart(self.branch.text, self.written)
        self.run.events.append(Text(self.branch.index, text, tuple(ids)))

    def settle(self, ids: Sequence[int]) -> None:
        """The tail has become tokens."""
        self._unwritten(ids, len(self.branch.text))
        self.buffer.tail = ""

    def _unwritten(self, ids: Sequence[int], end: int) -> None:
        """Add tokens that the model has not written; after the last of them there are ``end`` characters."""
        self.buffer.ids.extend(ids)
        self.buffer.ends.extend([end] * len(ids))
        self.buffer.logprobs.extend(self.unscored(ids))

    def unscored(self, ids: Sequence[int]) -> list[TokenLogprob]:
        """What stands beside ``ids`` that the model has not written, where log-probabilities are told."""
        if self.run.request.logprobs is None:
            return []
        return [TokenLogprob(token, -math.inf) for token in ids]

    def forget_half(self, window: int) -> bool:
        """Make room in a full window by leaving out the older half of what follows the kept head."""
        request, path = self.run.request, list(self.path)
        if request.overflow != "shift":
            return False
        keep = len(self.run.ids) if request.n_keep < 0 else min(request.n_keep, len(path))
        gone, rest = 0, len(path) - keep
        while len(path) - gone + 1 >= window:
            if rest < 2:
                return False
            gone, rest = gone + rest // 2, rest - rest // 2
        if not gone:
            return False
        self.base = path[:keep] + path[keep + gone :]
        self.first = len(self.buffer.ids)
        self.run.generation.truncated = True
        return True


def plain(sampling: Sampling) -> Sampling:
    """``sampling`` without its seed: branches that are equal but for that can be asked for together."""
    return replace(sampling, seed=None)


def barring(sampling: Sampling, tokens: Sequence[int]) -> Sampling:
    """``sampling`` that never chooses one of ``tokens``."""
    bias = dict(sampling.logit_bias) | dict.fromkeys(tokens, -math.inf)
    return replace(sampling, logit_bias=tuple(bias.items()))


def _ends(begin: int, text: str, spelt: list[str] | None, count: int) -> list[int]:
    """Characters decoded after each of several ids; where that is not known, after all of them."""
    if spelt is None or "".join(spelt) != text:
        return [begin + len(text)] * count
    ends: list[int] = []
    for each in spelt:
        begin += len(each)
        ends.append(begin)
    return ends
