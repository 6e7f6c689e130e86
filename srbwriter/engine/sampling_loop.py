"""From a row of logits to a published token: sampling, stop rules, the end of a branch.

Called by the scheduler on the engine thread, once per branch and step. Knows branches and rows,
nothing of who is let in.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from .active import (
    ActiveBranch,
    ActiveRequest,
    ChainIs,
    Logits,
    Pending,
    constraint_key,
    score,
    tokens_within,
)
from .bans import Banned
from .cache import Cache
from .constraints import Constraint, PrefixConstraint, apply_bits, compile_constraint
from .grammar_process import Answer, GrammarProcess, Question
from .model import Model
from .native.context import Context
from .native.library import library
from .parameters import notation
from .sampling import Resting, derive_seed
from .sampling_threads import FEWEST, SamplingThreads
from .tree import SHARED, Demand
from .types import (
    BranchState,
    BranchView,
    Cut,
    EngineError,
    Event,
    Failed,
    Finished,
    FinishReason,
    InvalidRequest,
    NotANumber,
    PhraseBanned,
    Priority,
    StateChanged,
    Text,
    TokenLogprob,
)

log = logging.getLogger(__name__)

Row: TypeAlias = "int | Logits | None"
"""Where the logits are that a token was chosen from: in the last decode, in a copy, or nowhere any more."""


NOT_DRAWN, BROKEN = -1, -2
"""In the place of a token: none is sampled yet; none can be, as logits are no numbers."""
_NONE = frozenset[int]()
_PLACES = 1 << 32  # seeds derived for places in a text lie beyond those of samplers and takes


class SamplingLoop:
    """Samples and publishes for all branches of one context."""

    def __init__(
        self,
        model: Model,
        context: Context,
        cache: Cache,
        grammars: GrammarProcess,
        *,
        window: int,
        most: int,
    ) -> None:
        self.model, self.context, self.cache = model, context, cache
        self.grammars = grammars
        self.window = window
        self.pending: deque[Demand] = deque()  # on the last tokens of branches that have ended
        self._most_pending = most
        self.now = 0.0  # time.monotonic() of this step
        self.generated = 0
        self.resting = Resting()
        self.drawn: dict[ActiveBranch, int] = {}  # tokens of this step that are sampled already
        self.in_graph = False  # whether rows were sampled in the graph: llama.cpp gives that token to anyone
        self._sample, self._logits = library().llama_sampler_sample, library().llama_get_logits_ith
        self._eog = model.eog
        self._eog_ids = np.fromiter(model.eog, np.int64, len(model.eog))

    # ---- starting

    def prepare(self, active: ActiveBranch) -> bool:
        """Build what the branch samples with; False when its settings or its text end it instead."""
        try:
            self._make_ready(active)
        except Exception as error:  # it is this branch's alone, whatever it is
            self.break_off(active, in_words(error))
            return False
        return True

    def _make_ready(self, active: ActiveBranch) -> None:
        """Bring chain and constraint to where the text ends.

        Raises InvalidRequest for settings that cannot be built, and for text that breaks the constraint.
        """
        request, ids = active.request, active.buffer.ids
        chain = active.chain if active.chain is not None and active.chain.pointer else None
        if chain is None or active.chain_is is ChainIs.OUTDATED:
            # a seed of its own for each place, or the numbers drawn before would be drawn again
            seed = derive_seed(active.branch.seed, _PLACES + len(ids)) if ids else active.branch.seed
            active.chain = chain = request.template_for(active, self.model, self.context.cells).new(
                seed, ids, chain
            )
        elif active.chain_is is ChainIs.STALE:
            chain.remember([*request.looked_back_at, *ids])
        chain.rests = 0
        active.chain_is = ChainIs.RIGHT
        if not ids and request.heal_prefix and active.base is request.ids and active.heal is None:
            self.heal(active, request.heal_prefix)
            active.hidden = active.branch.overlap = len(request.heal_prefix.decode("utf-8", "replace"))
        if not active.constrained:
            self._constrain(active)
        if active.banned != active.sampling.banned_phrases:
            active.look_for(active.sampling.banned_phrases, self._before(active))
        self._refresh(active)

    def _before(self, active: ActiveBranch) -> str:
        """The end of what stands before the branch, in which a banned phrase may have begun."""
        longest = max(map(len, active.sampling.banned_phrases), default=0)
        text = self.model.detokenize(active.request.ids[-2 * longest - 1 :])
        return text + active.request.heal_prefix.decode("utf-8", "replace")

    def heal(self, active: ActiveBranch, prefix: bytes) -> None:
        """Make the next tokens spell ``prefix``, the end of the text so far, again."""
        active.heal = PrefixConstraint(self.model.piece_index, prefix)
        active.skip = len(prefix.decode("utf-8", "replace"))
        text = active.branch.text
        active.text.restart(text[: max(len(text) - active.skip, 0)], len(active.buffer.ids), active.skip)

    def _refresh(self, active: ActiveBranch) -> None:
        """Decide whether llama.cpp can sample this branch in a single call."""
        active.fast = (
            not active.together
            and active.heal is None
            and active.constraint is None
            and active.request.asked.logits_callback is None
            and active.request.asked.logprobs is None
            and len(active.buffer.ids) >= active.min_tokens
            and len(active.buffer.ids) > max(active.without, default=-1)
            and (active.turnings is None or len(active.buffer.ids) not in active.turnings.barred)
        )

    def _constrain(self, active: ActiveBranch) -> None:
        compiled = self._compiled(active.request, active)
        constraint = None if compiled is None else compiled.fork()
        if constraint is not None:
            for token in self._seen(active):
                if constraint.slow:
                    break  # whoever follows it reads the text, too
                if not constraint.allows(token):
                    problem = constraint.trouble() if constraint.exhausted else "the text does not follow it"
                    raise InvalidRequest(notation(active.sampling) or "grammar", problem)
                constraint.accept(token)
        active.constraint, active.constrained = constraint, True

    def _compiled(self, request: ActiveRequest, active: ActiveBranch) -> Constraint | None:
        key = constraint_key(active.sampling)
        if key not in request.constraints:
            request.constraints[key] = compile_constraint(active.sampling, self.model)
        return request.constraints[key]

    def _seen(self, active: ActiveBranch) -> Sequence[int]:
        """The branch's tokens as a constraint sees them: of one that completes the prompt, what is new."""
        buffer = active.buffer
        if not active.branch.overlap:
            return buffer.ids
        first = next((k for k, end in enumerate(buffer.ends) if end > 0), None)
        if first is None:
            return ()
        new = active.branch.text[: buffer.ends[first]]
        return [*self.model.tokenize_continuation(new), *buffer.ids[first + 1 :]]

    # ---- one token

    def draw(self, threads: SamplingThreads, rows: Iterable[tuple[Demand, int]]) -> None:
        """Sample for those branches at once that take a single call each; :meth:`next_token` publishes."""
        ready = [
            (demand, demand.chain.pointer, row)
            for demand, row in rows
            if isinstance(demand, ActiveBranch)
            and demand.fast
            and demand.chain is not None
            and not demand.prompting
            and demand.seq >= 0
        ]
        if len(ready) >= FEWEST:
            branches, chains, places = zip(*ready, strict=True)
            self.drawn = dict(zip(branches, threads.sample(chains, places), strict=True))

    def next_token(self, active: ActiveBranch, row: int) -> None:
        """Sample from a row of the decode that just ended, and publish."""
        token = self.drawn.pop(active, NOT_DRAWN) if self.drawn else NOT_DRAWN
        if not active.fast or active.chain is None or (self.in_graph and token == NOT_DRAWN):
            self.sample_from(active, self.context.logits(row), row)
            return
        if token == NOT_DRAWN:
            token = self._sample(active.chain.pointer, self.context.pointer, row)
        if token == BROKEN or not (self.in_graph or self._is_number(active, token, row)):
            self.break_off(active, NotANumber())
        else:
            self.publish(active, token, row if self.context.has_logits else None, None)

    def sample_from(self, active: ActiveBranch, logits: Logits, row: Row) -> None:
        """Sample from logits at hand (stored ones have no row), and publish.

        Where a slow grammar has to be asked, that is put off: the branch is ``pending`` then.
        """
        try:
            token = self._choose(active, logits)
        except NotANumber as error:
            self.break_off(active, error)
            return
        except Exception as error:  # a callback is the caller's code
            self._fail(active, error)
            return
        if token is None:
            if active.pending is None and not self._no_way_on(active):
                self._dead_end(active, row)
            return
        self._write(active, token, logits, row)
        if not active.branch.live or (not active.constrained and not self.prepare(active)):
            return
        if active.constraint is not None and active.constraint.finished:
            self.finish(active, FinishReason.STOP, None)

    def decide(self, pending: Pending, answer: Answer) -> None:
        """A slow grammar was asked about a token: write that, or another one, or end the branch."""
        active, token = pending.active, pending.token
        active.pending = None
        chain = active.chain
        assert chain is not None
        if answer.mask is not None:
            edited = pending.edited.copy()
            token = chain.pick(edited) if apply_bits(answer.mask, edited) else -1
        elif not answer.allowed:
            token = -1
        if token < 0:
            if not self._no_way_on(active):
                self._end_of_grammar(active, answer.trouble, pending.logits)
            return
        chain.accept(token)
        written = len(active.buffer.ids)
        self._write(active, token, pending.logits, pending.logits)
        if active.branch.live and answer.finished and len(active.buffer.ids) > written:
            self.finish(active, FinishReason.STOP, None)

    def _write(self, active: ActiveBranch, token: int, logits: Logits, row: Row) -> None:
        wanted = active.request.asked.logprobs
        logprob = None if wanted is None else score(logits, token, wanted)
        self.publish(active, token, logits if row is None else row, logprob)

    def _is_number(self, active: ActiveBranch, token: int, row: int) -> bool:
        """Whether a token was chosen by a logit; now and then, too, whether the row has no NaN."""
        if not self._logits(self.context.pointer, row)[token] < np.inf:
            return False
        return not _now_and_then(active) or not np.isnan(self.context.logits(row)).any()

    def _dead_end(self, active: ActiveBranch, row: Row) -> None:
        """No token is allowed."""
        constraint = active.heal or active.constraint
        self._end_of_grammar(active, "" if constraint is None else constraint.trouble(), row)

    def _end_of_grammar(self, active: ActiveBranch, problem: str, row: Row) -> None:
        """The text is complete, or can never be."""
        if problem:
            self.break_off(active, InvalidRequest(notation(active.sampling) or "grammar", problem))
        else:
            self.finish(active, FinishReason.STOP, row)

    def _choose(self, active: ActiveBranch, logits: Logits) -> int | None:
        """A token, accepted by the chain and the constraint; None when none is allowed, or not yet.

        Raises NotANumber when the model's row is none to choose by; a callback may spoil its own copy.
        """
        chain, constraint = active.chain, active.heal or active.constraint
        assert chain is not None
        edited = self._edited(active, logits)
        token = self._draw(active, edited, constraint) if active.drawn is None else active.drawn
        active.drawn = None
        if not logits[token] < np.inf or (_now_and_then(active) and np.isnan(logits).any()):
            raise NotANumber
        if constraint is not None and constraint.slow:
            self._ask(active, constraint, token, logits, edited)
            return None
        if constraint is not None and not constraint.allows(token):
            if edited is logits:
                edited = logits.copy()
            if not constraint.mask(edited):
                return None
            token = chain.pick(edited)
        chain.accept(token)
        if constraint is not None and token not in self._eog:
            constraint.accept(token)
            if active.heal is not None and active.heal.finished:
                active.heal = None
                active.unconstrain()  # it has not seen what this token adds to the prompt's end
        return token

    def _draw(self, active: ActiveBranch, logits: Logits, constraint: Constraint | None) -> int:
        """A token by the branch's own chance, or together with its siblings'. Raises NotANumber."""
        siblings, chain = active.request.siblings, active.chain
        assert chain is not None
        if siblings is None or not active.together:
            return chain.pick(logits)
        if siblings.parted(active):
            active.together = False
            self._refresh(active)
        elif constraint is None or not constraint.slow:
            token = siblings.draw(active, logits, constraint)
            if token is not None:
                return token
        return chain.pick(logits)

    def _ask(
        self, active: ActiveBranch, constraint: Constraint, token: int, logits: Logits, edited: Logits
    ) -> None:
        """Put the choice off until the constraint's own process has said whether ``token`` may come."""
        kept = logits.copy()
        active.pending = Pending(active, token, kept, kept if edited is logits else edited)
        ids = tuple(self._seen(active))
        self.grammars.ask(Question(constraint.form, id(active), ids, token), active.pending)

    def _edited(self, active: ActiveBranch, logits: Logits) -> Logits:
        """The row as the caller's rules want it; the row itself where they want nothing."""
        callback = active.request.asked.logits_callback
        place = len(active.buffer.ids)
        no_end = place < active.min_tokens
        barred = active.without.get(place, _NONE)
        if active.turnings is not None:
            barred = barred | active.turnings.barred.get(place, _NONE)
        if callback is None and not no_end and not barred and not active.together:
            return logits
        edited = logits.copy()
        if callback is not None:
            callback(edited, BranchView(active.branch.index, active.request.ids, active.buffer.ids))
        if no_end:
            edited[self._eog_ids] = -np.inf
        if barred:
            edited[list(barred)] = -np.inf
        if active.together and active.request.siblings is not None:
            active.request.siblings.repel(active, edited)
        return edited

    def publish(self, active: ActiveBranch, token: int, row: Row, logprob: TokenLogprob | None) -> None:
        """Add a sampled token to its branch and apply the stop rules."""
        self.generated += 1
        branch = active.branch
        buffer = branch.buffer
        branch.changed_at = self.now
        if not buffer.ids and not branch.bans:
            self._first_token(active)
        if token in self._eog and not active.ignore_eog:
            self.finish(active, FinishReason.EOG, row)
            return
        if token in active.stop_ids:
            self.finish(active, FinishReason.STOP, row)
            return
        text, hit = active.text.feed(token)
        if active.skip:
            text = self._hide(active, text)
        buffer.ids.append(token)
        buffer.ends.append(active.text.decoded - active.hidden)
        if logprob is not None:
            buffer.logprobs.append(logprob)
        if active.turnings is not None:
            if active.text.marks:
                active.turnings.keep(self._row(row), active.text.marks)
            if isinstance(hit, Banned):
                if self._avoid(active, hit):
                    return
                text, hit = active.text.let_be()
                if active.skip:
                    text = self._hide(active, text)
        if hit is not None:
            assert not isinstance(hit, Banned)
            self._stop_at(active, text, hit.keep - active.hidden, hit.reason, hit.stop_text, row, logprob)
            return
        if text:
            buffer.pieces.append(text)
        if active.seq >= 0:
            self.cache.tree.want_next(active, token)
        if active.turnings is None:
            logprobs = () if logprob is None else (logprob,)
            active.request.events.append(Text(branch.index, text, (token,), logprobs))
        else:
            self._say(active, text, active.text.marks)
        if len(buffer.ids) >= active.limit or (active.deadline is not None and self.now > active.deadline):
            self.finish(active, FinishReason.LENGTH, row)
        elif not active.fast and (
            active.without or len(buffer.ids) == active.min_tokens or active.turnings is not None
        ):
            self._refresh(active)

    def _row(self, row: Row) -> Logits:
        """A copy of the logits that a token was chosen from."""
        return (self.context.logits(row) if isinstance(row, int) else np.asarray(row)).copy()

    def _say(self, active: ActiveBranch, text: str, held: int = 0) -> None:
        """Tell of ``text``, and of the tokens that were not told of but for the last ``held``."""
        buffer, begin = active.buffer, active.said
        active.said = max(len(buffer.ids) - held, begin)
        ids, logprobs = buffer.ids[begin : active.said], buffer.logprobs[begin : active.said]
        if text or ids:
            active.request.events.append(Text(active.branch.index, text, tuple(ids), tuple(logprobs)))

    # ---- banned phrases

    def _avoid(self, active: ActiveBranch, banned: Banned) -> bool:
        """Go back before a phrase that has just been written; False where it is let be."""
        turnings, buffer = active.turnings, active.buffer
        assert turnings is not None
        start = banned.start - active.hidden
        turnings.met(start)
        place = turnings.place(buffer.ids, tokens_within(buffer, max(start, 0)), self._floor(active))
        if place is None:
            active.request.events.append(PhraseBanned(active.branch.index, banned.phrase, 0))
            return False
        tokens = self._turn_off(active, place)
        active.request.events.append(PhraseBanned(active.branch.index, banned.phrase, tokens))
        return True

    def _no_way_on(self, active: ActiveBranch) -> bool:
        """A constraint allows nothing but what led to a phrase: whether the branch takes another way."""
        turnings, ids = active.turnings, active.buffer.ids
        if turnings is None or len(ids) not in turnings.barred:
            return False
        turnings.met(len(active.branch.text))
        place = turnings.place(ids, len(ids) - 1, self._floor(active))
        if place is None:
            turnings.give_up()
            self._again(active, len(ids))
        else:
            self._turn_off(active, place)
        return True

    def _floor(self, active: ActiveBranch) -> int:
        """The first token that can be chosen anew: what stands before it was typed, or has slid out."""
        buffer = active.buffer
        end = max((end for _, end in buffer.typed), default=0)
        typed = bisect_left(buffer.ends, end) + 1 if buffer.typed else 0
        begun = bisect_right(buffer.ends, -1)  # tokens that spell the prompt's end again, and not all of it
        return max(active.first, typed, begun + 1 if begun else 0)

    def _turn_off(self, active: ActiveBranch, place: int) -> int:
        """Take another way from ``place`` on; how many tokens were taken back."""
        turnings, ids = active.turnings, active.buffer.ids
        assert turnings is not None
        if len(ids) - place > active.text.marks:  # a character is not to be cut in two
            while place > self._floor(active) and self.model.pieces.text[ids[place - 1]] is None:
                place -= 1
        tokens = len(ids) - place
        row = turnings.turn_off(place, ids)
        active.branch.bans += 1
        self._again(active, place, row)
        return tokens

    def _again(self, active: ActiveBranch, place: int, row: Logits | None = None) -> None:
        """The branch stands after ``place`` tokens and chooses anew, from ``row`` if that is kept."""
        if active.take_back(place):
            text = active.branch.text
            active.request.events.append(Cut(active.branch.index, len(text), len(active.buffer.ids)))
        seq = active.seq
        self.cache.tree.unwant(active)
        if seq >= 0 and row is not None and self.cache.partial:
            self.cache.rewind(seq, active.length)
            if self.cache.tree.tip[seq].end == active.length:
                self.cache.tree.store_logits(seq, row)
        self.detach(active)

    def _first_token(self, active: ActiveBranch) -> None:
        active.branch.started_at = self.now
        seconds = active.branch.stop_rule.max_seconds
        active.deadline = None if seconds is None else self.now + seconds

    def _hide(self, active: ActiveBranch, text: str) -> str:
        hidden = min(active.skip, len(text))
        active.skip -= hidden
        return text[hidden:]

    def _stop_at(
        self,
        active: ActiveBranch,
        text: str,
        keep: int,
        reason: FinishReason,
        stop_text: str | None,
        row: Row,
        logprob: TokenLogprob | None,
    ) -> None:
        """A stop rule matched: keep ``keep`` characters and the tokens that lie wholly in them."""
        branch, buffer = active.branch, active.buffer
        keep = max(keep, 0)
        if active.turnings is not None:
            self._say(active, "", 1)
            active.said = len(buffer.ids)
        if text:
            buffer.pieces.append(text)
        kept = tokens_within(buffer, keep)
        dropped = len(buffer.ids) - kept
        covered = buffer.ends[kept - 1] if kept else 0
        if text or dropped == 0:
            last = (buffer.ids[-1],) if dropped == 0 else ()
            active.request.events.append(
                Text(branch.index, text, last, (logprob,) if last and logprob else ())
            )
        del buffer.ids[kept:], buffer.ends[kept:], buffer.logprobs[kept:]
        buffer.drawn = [drawn for drawn in buffer.drawn if drawn.position <= kept]  # the stop text's first
        if kept < active.first:  # the window was shifted within the stop text: the rest stands in the base
            active.base, active.first = active.base[: kept - active.first], kept
        if dropped:
            active.text_changed()
        buffer.tail = branch.text[covered:]
        if dropped > 1:  # ids that were published before the stop string was complete
            active.request.events.append(Cut(branch.index, len(branch.text), kept))
        self.finish(active, reason, row, stop_text, flush=False)

    # ---- the end

    def finish(
        self,
        active: ActiveBranch,
        reason: FinishReason,
        row: Row,
        stop_text: str | None = None,
        flush: bool = True,
    ) -> None:
        """End a branch; its sequence is parked, with its logits when it ends exactly there."""
        branch = active.branch
        if flush:
            self.flush(active)
        kept = reason is not FinishReason.KILLED
        if kept and active.seq >= 0 and active.request.asked.priority is Priority.FOREGROUND:
            self.expect_more(active)
        held = active.seq >= 0
        self.detach(active, row, kept)
        if not kept and not held:  # it was paused, or waits: what it wrote may be anywhere
            self._give_back(active)
        self._rest(active, kept)
        branch.finish_reason, branch.stop_text = reason, stop_text
        branch.state = BranchState.DONE
        active.request.events.append(Finished(branch.index, reason, len(branch.buffer.ids), stop_text))

    def expect_more(self, active: ActiveBranch) -> None:
        """Somebody is reading an ended branch, and may go on from it.

        A token is sampled, published, and evaluated only when its branch goes on, so that would begin with a
        decode. It is wanted from now on, for when nobody waits for anything else.
        """
        length, tree = active.length, self.cache.tree
        if active.namespace.root > SHARED.root or not 1 < length < self.window or not self.cache.partial:
            return
        node = active.node
        if node is None or node.end != length:
            node = tree.reach(active.path, active.namespace)
        demand = Demand(Priority.BACKGROUND, active.namespace)
        tree.want_at(demand, node)
        if self.cache.standing(node).end < length - 1 or any(d in self.pending for d in node.demands):
            tree.unwant(demand)
            return
        self.pending.append(demand)
        if len(self.pending) > self._most_pending:
            tree.unwant(self.pending.popleft())

    def _rest(self, active: ActiveBranch, kept: bool) -> None:
        """Somebody may let the branch go on: what it draws next is what it would have drawn."""
        if kept and active.chain is not None and active.chain.pointer:
            self.resting.add(active.chain)
            active.unconstrain()
        else:
            active.close_chain()

    def discard(self, active: ActiveBranch) -> None:
        """An ended branch was thrown away: what the cache holds of it alone is given back, its text stays."""
        branch = active.branch
        self._give_back(active)
        active.close_chain()
        branch.finish_reason, branch.stop_text = FinishReason.KILLED, None
        active.request.events.append(Finished(branch.index, FinishReason.KILLED, len(branch.buffer.ids)))

    def _give_back(self, active: ActiveBranch) -> None:
        """What the cache holds of a branch alone goes, in every tier."""
        path = active.path
        node = self.cache.tree.reach(path, active.namespace)
        for demand in [d for d in node.demands if d in self.pending]:
            self.pending.remove(demand)
            self.cache.tree.unwant(demand)
        self.cache.tree.prune(node)
        kept = len(active.base)
        if active.urgency is Priority.AHEAD:
            kept = max(kept, self.cache.used(path, active.namespace))
        self.cache.forget(path, kept, active.namespace)

    def flush(self, active: ActiveBranch) -> None:
        """Publish what was held back; text that typing announced and no token spells yet becomes the tail."""
        if active.still_healing:
            if active.turnings is not None:
                self._say(active, "")
            return  # nothing has been held back yet, and what is half spelt may be gone on with
        held = active.text.finish()
        if active.skip:
            held = self._hide(active, held)
        if active.turnings is not None:
            self._say(active, "")
        if held:
            active.buffer.pieces.append(held)
            if active.buffer.ends:
                active.buffer.ends[-1] = max(active.buffer.ends[-1], active.text.decoded - active.hidden)
            active.request.events.append(Text(active.branch.index, held))
        if active.heal is not None:
            ends = active.buffer.ends
            active.buffer.tail = active.branch.text[max(ends[-1], 0) if ends else 0 :]

    def detach(self, active: ActiveBranch, row: Row = None, keep: bool = True) -> None:
        """Take the branch off its sequence, which stays in the cache as long as room allows."""
        seq, active.seq = active.seq, -1
        active.prompting = False
        self.cache.tree.unwant(active)
        pending, active.pending = active.pending, None
        if pending is not None:
            active.drawn, row = pending.token, pending.logits
        if seq < 0:
            return
        length = active.length if keep else len(active.base)
        evaluated = self.cache.tree.tip[seq].end
        if length < evaluated:
            if not self.cache.rewind(seq, length) and not keep:
                self.cache.drop(seq)
                return
        elif length == evaluated and row is not None:
            self.cache.store_logits(seq, self.context.logits(row) if isinstance(row, int) else row)
        self.cache.park(seq)

    def set_state(self, active: ActiveBranch, state: BranchState) -> None:
        if active.branch.state is not state:
            active.branch.state = state
            active.request.events.append(StateChanged(active.branch.index, state))

    def break_off(self, active: ActiveBranch, error: EngineError) -> None:
        """End one branch because of ``error``, and the request if it was the last that had not failed."""
        branch = active.branch
        log.warning("request %d, branch %d: %s", active.request.generation.number, branch.index, error)
        self.flush(active)
        self.detach(active)
        active.close_chain()
        branch.state, branch.finish_reason, branch.error = BranchState.FAILED, FinishReason.ERROR, error
        tokens = len(branch.buffer.ids)
        active.request.events.append(Finished(branch.index, FinishReason.ERROR, tokens, problem=str(error)))
        if all(r.branch.state is BranchState.FAILED for r in active.request.branches):
            self.fail_request(active.request, error)

    def _fail(self, active: ActiveBranch, error: Exception) -> None:
        log.warning("request %d: %s", active.request.generation.number, error, exc_info=error)
        if not isinstance(error, EngineError):
            error = InvalidRequest("logits_callback", f"it raised {type(error).__name__}: {error}")
        self.fail_request(active.request, error)

    def fail_request(self, request: ActiveRequest, error: EngineError) -> None:
        """End every branch of a request because of ``error``."""
        request.failed = True
        for active in request.branches:
            if active.branch.live:
                self.flush(active)
                self.detach(active)
                active.close_chain()
                active.branch.state = BranchState.FAILED
                active.branch.finish_reason, active.branch.error = FinishReason.ERROR, error
        failed: Event = Failed(error)
        request.events.append(failed)


def in_words(error: Exception) -> EngineError:
    """What ends a branch or a request. One that nobody foresaw is logged with where it came from."""
    if isinstance(error, EngineError):
        return error
    log.error("an error that nobody foresaw", exc_info=error)
    return EngineError(f"an error that nobody foresaw: {type(error).__name__}: {error}")


def _now_and_then(active: ActiveBranch) -> bool:
    """Whether this token is one of those at which a whole row is looked at."""
    return len(active.buffer.ids) % 16 == 0
