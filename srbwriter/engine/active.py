"""The engine thread's side of a request: its branches, their text so far, and what they sample with.

``ActiveRequest`` stands behind a Generation, ``ActiveBranch`` behind a Branch. A branch that is running or
waiting is a demand on the node of the tree where its tokens end. (It is not called a sequence: that is what
llama.cpp calls the cells it is evaluated on.) Plain state and its arithmetic; the scheduler moves it.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from .bans import PhraseReader, Turnings, phrases
from .constraints import Constraint
from .generation import Branch, Buffer, Generation
from .sampling import Chain, SamplerTemplate, derive_seed
from .siblings import Siblings
from .text import BranchText, Pieces
from .tree import Demand, Namespace
from .types import BranchState, Done, Event, PromptProgress, Request, Sampling, Stop, Text, TokenLogprob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .model import Model

Logits: TypeAlias = "NDArray[np.float32]"
ConstraintKey: TypeAlias = "tuple[str | None, str | None, str | None]"
NO_LIMIT = 1 << 60
_TEMPLATES = 64  # of one request, that are kept for branches which sample alike
_BLOCK = 256  # logits of which the highest is found in one go
WAITING_STATES = frozenset({BranchState.WAITING, BranchState.PROMPT, BranchState.WRITING})


class ChainIs(IntEnum):
    """What has to be done to a branch's chain before it samples again."""

    RIGHT = 0
    STALE = 1  # the text was changed: it must look back anew
    OUTDATED = 2  # the settings were changed: another takes its place


class Scoring(Demand):
    """Log-probabilities of a prompt are wanted, so what follows each of its tokens."""

    __slots__ = ("request",)
    every = True

    def __init__(self, request: ActiveRequest) -> None:
        super().__init__(request.asked.priority, request.namespace)
        self.request = request

    def hear(self, position: int, logits: Logits) -> None:
        request = self.request
        if request.scored < position < len(request.ids):
            known = score(logits, request.ids[position], request.asked.prompt_logprobs or 0)
            request.generation.prompt_logprobs.append(known)


class ActiveBranch(Demand):
    """One branch. ``base`` and the buffer's ids from ``first`` on are the path it is on."""

    __slots__ = (
        "banned",
        "base",
        "begun_with",
        "branch",
        "chain",
        "chain_is",
        "code",
        "constrained",
        "constraint",
        "deadline",
        "drawn",
        "fast",
        "first",
        "heal",
        "hidden",
        "ignore_eog",
        "limit",
        "min_tokens",
        "pending",
        "prompting",
        "request",
        "said",
        "sampling",
        "since",
        "skip",
        "stop_ids",
        "text",
        "together",
        "turnings",
        "without",
    )

    def __init__(self, request: ActiveRequest, branch: Branch, pieces: Pieces) -> None:
        super().__init__(request.asked.priority, request.namespace)
        self.request = request
        self.branch = branch
        self.prompting = False  # whether its sequence reads the prompt, for all branches of the request
        self.since = 0  # the step at which it began to wait or to run
        self.begun_with = 0  # tokens that it had when it was let in
        self.base: list[int] = request.ids
        self.first = 0
        self.chain: Chain | None = None
        self.chain_is = ChainIs.RIGHT
        self.constraint: Constraint | None = None
        self.constrained = False  # whether the constraint stands where the text ends
        self.pending: Pending | None = None  # the choice that waits for a slow grammar
        self.drawn: int | None = None  # the token drawn for a choice that was put off
        self.heal: Constraint | None = None  # the next tokens must spell what typed text began
        self.hidden = 0  # decoded characters that belong to the prompt (token healing)
        self.skip = 0  # characters still to be hidden
        self.sampling: Sampling = branch.sampling
        self.text = BranchText(pieces, branch.stop_rule)
        self.turnings: Turnings | None = None  # None while no phrase is banned
        self.banned: tuple[str, ...] = ()  # the phrases that are looked for
        self.said = 0  # tokens of the buffer that events have told of
        self.without: dict[int, frozenset[int]] = {}  # tokens that may not come at a place of the take
        self.fast = False
        self.together = request.siblings is not None  # until it is known to have parted from its siblings
        self.code: float | None = None  # the point at which it is drawn, where they lie evenly
        self.set_stop(branch.stop_rule)

    @property
    def buffer(self) -> Buffer:
        return self.branch.buffer

    @property
    def path(self) -> list[int]:
        """Every token from the start of the prompt to the end of the branch."""
        return self.base + self.buffer.ids[self.first :]

    @property
    def length(self) -> int:
        """Tokens of the path."""
        return len(self.base) + len(self.buffer.ids) - self.first

    @property
    def at_prompt(self) -> bool:
        """Whether it stands where the prompt ends, as all branches of its request do at first."""
        return not self.buffer.ids and self.base is self.request.ids

    @property
    def still_healing(self) -> bool:
        """Whether its tokens spell a part of the prompt's end again, and all of it is still to come."""
        return self.heal is not None and self.hidden > 0 and bool(self.buffer.ids)

    def set_stop(self, stop: Stop, more: int | None = None) -> None:
        """Apply a stop rule; ``more`` tokens from here instead of its max_tokens."""
        self.branch.stop_rule = stop
        have = len(self.buffer.ids)
        if more is not None:
            self.limit = have + more
        else:
            self.limit = NO_LIMIT if stop.max_tokens is None else stop.max_tokens
        self.min_tokens = stop.min_tokens
        self.ignore_eog = stop.ignore_eog
        self.stop_ids = frozenset(stop.token_ids)
        self.deadline = None if stop.max_seconds is None else time.monotonic() + stop.max_seconds
        self.text.set_stop(stop)

    def new_take(self) -> None:
        """Forget the text; the reader sees a new revision."""
        if self.request.siblings is not None:
            self.request.siblings.discard(self.buffer)
        self.branch.buffer = Buffer(self.buffer.revision + 1)
        self.base, self.first = self.request.ids, 0
        self.hidden = self.skip = 0
        self.heal = None
        self.without = {}
        self.text.restart("")
        self.close_chain()
        self.branch.started_at = self.branch.changed_at = 0.0
        self.branch.bans = 0
        self.text_is_another()
        self.set_stop(self.branch.stop_rule)

    def begin(self, ids: Sequence[int], without: Sequence[int], pieces: Pieces) -> None:
        """Let a new take begin with ``ids``, and not go on with one of ``without``.

        They are kept as they are, also where the last one ends inside a character. The take writes as much as
        its rule says after them. Tokens that do not spell all of what token healing took off are left out.
        """
        healed = len(self.request.heal_prefix.decode("utf-8", "replace"))
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
            self.text.restart(text, len(ids))
            self.text.break_in(speller.broken)
            self.text_is_another()
            self.set_stop(self.branch.stop_rule, self.branch.stop_rule.max_tokens)
            self.request.events.append(Text(self.branch.index, text, tuple(ids)))
        if without:
            self.without = {len(self.buffer.ids): frozenset(without)}

    def unscored(self, ids: Sequence[int]) -> list[TokenLogprob]:
        """What stands beside ``ids`` that the model has not written, where log-probabilities are told."""
        if self.request.asked.logprobs is None:
            return []
        return [TokenLogprob(token, -math.inf) for token in ids]

    def cut(self, chars: int, tail_ids: Sequence[int] = ()) -> None:
        """Keep ``chars`` characters: whole tokens up to there, then ``tail_ids`` for the rest."""
        old = self.buffer
        keep = tokens_within(old, chars)
        text = "".join(old.pieces)[:chars]
        new = Buffer(old.revision + 1, [text] if text else [], old.ids[:keep], old.ends[:keep])
        new.logprobs = old.logprobs[:keep]
        new.drawn = [drawn for drawn in old.drawn if drawn.position < keep]
        new.typed = [(begin, min(end, chars)) for begin, end in old.typed if begin < chars]
        new.ids.extend(tail_ids)
        new.ends.extend([chars] * len(tail_ids))
        new.logprobs.extend(self.unscored(tail_ids))
        if keep < self.first:  # the window was shifted since; it is made anew where it is still needed
            self.base, self.first = self.request.ids, 0
        self.branch.buffer = new
        self.text.restart(text, len(new.ids))
        self.text_is_another()
        self.hidden = self.skip = 0
        self.heal = None
        self.close_chain()

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
        if keep < self.namespace.start:  # what slides up to there is not common
            self.namespace = self.namespace._replace(start=keep)
        self.first = len(self.buffer.ids)
        self.request.generation.truncated = True
        return True

    def close_chain(self) -> None:
        """Forget where chance has got to: what comes next is another take."""
        if self.chain is not None:
            self.chain.close()
            self.chain = None
        self.together, self.code = self.request.siblings is not None, None
        self.unconstrain()

    def look_for(self, banned: tuple[str, ...], before: str) -> None:
        """Ban other phrases from here on; ``before`` is the end of what stands before the branch."""
        self.banned, known = banned, phrases(banned)
        self.turnings = None if known is None else Turnings()
        reader = None if known is None else PhraseReader(known, "", 0)
        self.text.set_bans(reader, before, self.branch.text)

    def text_is_another(self) -> None:
        """What was learnt of the ways that the text went is of no use any more."""
        self.said = len(self.buffer.ids)
        if self.turnings is not None:
            self.turnings.forget()

    def take_back(self, place: int) -> bool:
        """Keep ``place`` tokens; chance goes on. Whether any of the rest had been published."""
        buffer, known = self.buffer, self.text.go_back(place)
        if known and max(self.text.published - self.hidden, 0) == len(self.branch.text):
            del buffer.ids[place:], buffer.ends[place:], buffer.logprobs[place:]
            self.skip = max(self.hidden - self.text.published, 0)
        else:
            text = self.branch.text[: max(buffer.ends[place - 1], 0) if place else 0]
            new = Buffer(buffer.revision + 1, [text] if text else [], buffer.ids[:place], buffer.ends[:place])
            new.logprobs, new.typed, new.drawn = buffer.logprobs[:place], buffer.typed, list(buffer.drawn)
            self.branch.buffer = new
            self.text.restart(text, place)
            self.hidden = self.skip = 0
        self.text_changed()
        self.code = None  # what led to the phrase says something about it
        self.buffer.drawn[:] = [drawn for drawn in self.buffer.drawn if drawn.position < place]
        seen = self.said > place or self.buffer is not buffer
        self.said = min(self.said, place)
        return seen

    def text_changed(self) -> None:
        """The text is not what chain and constraint have seen; chance goes on."""
        self.chain_is = max(self.chain_is, ChainIs.STALE)
        self.unconstrain()

    def rule_changed(self) -> None:
        """The chain is to be another one; chance goes on."""
        self.chain_is = ChainIs.OUTDATED
        self.unconstrain()

    def unconstrain(self) -> None:
        self.constraint, self.constrained, self.drawn = None, False, None


class Pending:
    """A token that a branch drew, and may not write before a slow grammar has been asked.

    ``logits`` are the model's, ``edited`` those that the caller's rules made of them (the same, if nothing).
    """

    __slots__ = ("active", "edited", "logits", "token")

    def __init__(self, active: ActiveBranch, token: int, logits: Logits, edited: Logits) -> None:
        self.active, self.token, self.logits, self.edited = active, token, logits, edited


class ActiveRequest:
    """A request being served."""

    def __init__(
        self, generation: Generation, ids: list[int], heal_prefix: bytes, namespace: Namespace
    ) -> None:
        self.generation = generation
        self.asked: Request = generation.request
        self.ids = ids
        self.looked_back_at: Sequence[int] = ids  # by penalties and DRY, before the branch's own tokens
        self.namespace = namespace
        self.client = generation.request.client
        self.heal_prefix = heal_prefix  # bytes taken off the prompt's end, for the first token to spell
        self.scoring: Scoring | None = None  # while the prompt is scored
        self.siblings: Siblings | None = None  # where branches are drawn together
        self.branches: list[ActiveBranch] = []
        self.events: list[Event] = []
        self.ending: Constraint | None = None  # what could follow has to spell the end of the prompt again
        self.to_foretell = self.asked.next_logprobs is not None or bool(self.asked.next_ids)
        self.accounted = False  # its prompt stands in the statistics
        self.failed = False  # as a whole
        self.order = (int(self.asked.priority), generation.number)
        self.seeds: set[int] = set()  # of all takes
        self.templates: dict[tuple[Sampling, bool], SamplerTemplate] = {}  # and whether no end is chosen
        self.template: tuple[Sampling | None, bool, SamplerTemplate | None] = None, False, None  # the last
        self.constraints: dict[ConstraintKey, Constraint | None] = {}

    @property
    def live(self) -> bool:
        return any(r.branch.live for r in self.branches)

    @property
    def running(self) -> bool:
        """Whether anything of it is on a sequence."""
        begun = self.accounted and self.asked.strict
        return begun or self.scoring is not None or any(r.seq >= 0 for r in self.branches)

    @property
    def scored(self) -> int:
        """Tokens after which the prompt is scored already, or need not be."""
        return max(self.asked.score_from - 1, 0) + len(self.generation.prompt_logprobs)

    @property
    def to_score(self) -> bool:
        """Whether log-probabilities of the prompt were asked for and are still to come."""
        return self.asked.prompt_logprobs is not None and self.scored < len(self.ids) - 1

    def foretell(self, logits: Logits) -> None:
        """``logits`` follow the prompt; who asked what could is told."""
        if self.to_foretell:
            asked, self.to_foretell = self.asked, False
            told = likeliest(logits, asked.next_logprobs or 0, asked.next_ids, self.ending)
            self.generation.next_logprobs = told

    def seed(self, asked: int | None, base: int, k: int) -> int:
        """The seed ``asked`` for, or the k-th from ``base`` on, past those that takes of the request had."""
        seed = asked
        while seed is None:
            seed, k = derive_seed(base, k), k + 1
            seed = None if seed in self.seeds else seed
        self.seeds.add(seed)
        return seed

    def account(self, cached: int) -> bool:
        """The prompt is asked for: ``cached`` of its tokens were in the cache. False if that was known."""
        if self.accounted:
            return False
        self.accounted = True
        generation = self.generation
        generation.cached_tokens = generation.prompt_done = cached
        self.events.append(PromptProgress(cached, len(self.ids), cached))
        return True

    def has_read(self, tokens: int) -> None:
        """So many tokens of the prompt are evaluated."""
        generation = self.generation
        if generation.prompt_done < tokens <= len(self.ids):
            generation.prompt_done = tokens
            self.events.append(PromptProgress(tokens, len(self.ids), generation.cached_tokens))

    def completed(self) -> Done:
        tokens = sum(len(r.buffer.ids) for r in self.branches)
        return Done(len(self.ids), self.generation.cached_tokens, tokens)

    def template_for(self, active: ActiveBranch, model: Model, n_ctx: int) -> SamplerTemplate:
        """What the chain of a branch is made from; ``n_ctx`` tokens are the whole context.

        Raises InvalidRequest for settings that cannot be built.
        """
        asked, ignore_eog, template = self.template  # of the branch before: mostly it is the same
        if active.sampling is asked and active.ignore_eog == ignore_eog and template is not None:
            return template
        # branches that differ in nothing else share it
        sampling = replace(active.sampling, seed=None, banned_phrases=())
        key = sampling, active.ignore_eog
        template = self.templates.get(key)
        if template is None:
            while len(self.templates) >= _TEMPLATES:
                self.templates.pop(next(iter(self.templates))).close()
            banned = sorted(model.eog) if active.ignore_eog else ()
            template = SamplerTemplate(sampling, model, n_ctx, banned)
            if template.history_length:
                template.prime(self.looked_back_at[-template.history_length :])
            self.templates[key] = template
        self.template = active.sampling, active.ignore_eog, template
        return template

    def forget(self) -> None:
        """Give back what only a running request needs."""
        for template in self.templates.values():
            template.close()
        self.templates.clear()
        self.template = None, False, None

    def close(self) -> None:
        """Give everything native back."""
        for active in self.branches:
            active.close_chain()
        self.forget()


def constraint_key(sampling: Sampling) -> ConstraintKey:
    """What of the settings a constraint is made from."""
    return sampling.grammar, sampling.json_schema, sampling.regex


def tokens_within(buffer: Buffer, chars: int) -> int:
    """How many tokens lie wholly within the first ``chars`` characters."""
    return bisect_right(buffer.ends, chars)


def waiting(active: ActiveBranch) -> bool:
    """Whether a branch has something to write and no sequence to do it on."""
    return active.seq < 0 and active.branch.state in WAITING_STATES


def score(row: object, token: int, best: int) -> TokenLogprob:
    """Log-probability of ``token`` and of the ``best`` likeliest, from one row of raw logits.

    Softmax over the whole vocabulary, row by row: a row of 128k stays in the core's cache.
    """
    top = likeliest(row, best, (token,))
    return TokenLogprob(token, dict(top)[token], top[:best])


def likeliest(
    row: object, best: int, ids: Sequence[int], among: Constraint | None = None
) -> tuple[tuple[int, float], ...]:
    """The ``best`` likeliest tokens with their log-probabilities, best first; then the others of ``ids``.

    Only what ``among`` allows is among the best.
    """
    import numpy as np

    logits = np.asarray(row, np.float32)
    peak = float(logits.max())
    total = peak + float(np.log(np.exp(logits - peak).sum()))
    chosen: list[int] = []
    if best > 0:
        open_to = logits
        if among is not None:
            open_to = logits.copy()
            among.mask(open_to)
        likely = _likely(open_to, min(best, len(logits)))
        chosen = likely[np.argsort(-open_to[likely], kind="stable")][:best].tolist()
        chosen = [token for token in chosen if open_to[token] > -np.inf] if among is not None else chosen
    chosen = list(dict.fromkeys([*chosen, *ids]))
    return tuple((token, float(logits[token]) - total) for token in chosen)


def _likely(logits: Logits, best: int) -> NDArray[np.intp]:
    """Places of the ``best`` highest, and of some more: those above the peaks of as many blocks."""
    import numpy as np

    blocks = len(logits) // _BLOCK
    if blocks < 2 * best:
        return np.arange(len(logits))
    peaks = logits[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    return np.flatnonzero(logits >= np.partition(peaks, -best)[-best])
