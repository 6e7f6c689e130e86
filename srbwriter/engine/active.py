"""The local engine's state of requests and branches: samplers, grammars and places in the token tree.

An ``ActiveRequest`` belongs to a Generation, an ``ActiveBranch`` to a Branch. A running or waiting branch is
a demand on the node of the tree where its tokens end. (It is not called a sequence: in llama.cpp that is the
cells it is evaluated on.) This is plain state, which the scheduler changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from .branch import WAITING_STATES, BranchWriter, ServedRequest
from .constraints import Constraint
from .generation import Branch, Generation
from .logprobs import likeliest, score
from .processors.base import LogitProcessor, SharedDraw, SharedDraws
from .sampling import Chain, SamplerTemplate
from .text import TokenPieces
from .tree import Demand, Namespace
from .types import PromptProgress, Sampling
from .watchers import REWINDER_FIELDS, rewinder_settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .model import Model

Logits: TypeAlias = "NDArray[np.float32]"
ConstraintKey: TypeAlias = "tuple[str | None, str | None, str | None]"
_TEMPLATES = 64  # of one request, for branches with different settings


class ChainState(IntEnum):
    """Whether the sampler chain of a branch has to change before it samples again."""

    CURRENT = 0
    STALE = 1  # the text was changed: the chain needs the new history
    OUTDATED = 2  # the settings were changed: the chain is replaced


class ScoringDemand(Demand):
    """Asks for the log-probabilities of a prompt, so for the logits after each of its tokens."""

    __slots__ = ("request",)
    every_token = True

    def __init__(self, request: ActiveRequest) -> None:
        super().__init__(request.asked.priority, request.namespace)
        self.request = request

    @property
    def path(self) -> list[int]:
        return self.request.ids

    def on_logits(self, position: int, logits: Logits) -> None:
        request = self.request
        if request.scored < position < len(request.ids):
            known = score(logits, request.ids[position], request.asked.prompt_logprobs or 0)
            request.generation.prompt_logprobs.append(known)


class ActiveBranch(BranchWriter, Demand):
    """One branch of the local engine.

    Attributes:
        prompting: whether its sequence reads the prompt, for all branches of the request.
        since: the step since which it has waited or run.
        tokens_at_start: tokens that it had when it was admitted.
        constraint: its grammar; ``constrained`` says whether that has seen all of the text.
        heal: the end of typed text, which the next tokens must spell.
        alone: whether llama.cpp can sample it in a single call.
        fast: whether nothing else is to be done for a token.
        processors: the logit processors of this branch.
        shared_draw: the draw shared with its siblings; None once it has parted from them.
    """

    request: ActiveRequest

    def __init__(self, request: ActiveRequest, branch: Branch, pieces: TokenPieces) -> None:
        Demand.__init__(self, request.asked.priority, request.namespace)
        self.prompting = False
        self.since = self.tokens_at_start = 0
        self.chain: Chain | None = None
        self.chain_state = ChainState.CURRENT
        self.constraint: Constraint | None = None
        self.constrained = False
        self.heal: Constraint | None = None
        self.rewinder_settings: Hashable = rewinder_settings(Sampling())  # of the watchers it has
        self.alone = self.fast = False
        self.processors: list[LogitProcessor[ActiveBranch]] = []
        self.shared_draw: SharedDraw | None = None
        BranchWriter.__init__(self, request, branch, pieces)
        self.join_siblings()

    @property
    def last_token(self) -> int:
        ids = self.buffer.ids
        return ids[-1] if len(ids) > self.first else self.base[-1]

    def join_siblings(self) -> None:
        """Draw together with the siblings, if the branches of the request do."""
        draws = self.request.shared_draws
        self.shared_draw = None if draws is None else draws.for_branch(self)

    def restart_attempt(self) -> None:
        if self.request.shared_draws is not None:
            self.request.shared_draws.discard(self.buffer)
        self.heal = None
        super().restart_attempt()

    def restart_text(self) -> None:
        self.heal = None
        super().restart_text()

    def restart_sampling(self) -> None:
        if self.chain is not None:
            self.chain.close()
            self.chain = None
        self.join_siblings()
        self.forget_constraint()

    def text_changed(self) -> None:
        """Note that chain and grammar have not seen the text as it is; the random state is kept."""
        self.chain_state = max(self.chain_state, ChainState.STALE)
        self.forget_constraint()

    def rules_changed(self) -> None:
        """Note that the settings were changed, so that the chain is replaced; the random state is kept."""
        self.chain_state = ChainState.OUTDATED
        self.forget_constraint()

    def forget_constraint(self) -> None:
        self.constraint, self.constrained = None, False


class ActiveRequest(ServedRequest[ActiveBranch]):
    """A request that the local engine serves."""

    def __init__(
        self, generation: Generation, ids: list[int], pending_prefix: bytes, namespace: Namespace,
        eog_ids: NDArray[np.int64],
    ) -> None:  # fmt: skip
        super().__init__(generation, ids, pending_prefix)
        self.history_ids: Sequence[int] = ids  # that penalties and DRY see before the branch's own tokens
        self.namespace = namespace
        self.eog_ids = eog_ids  # of the model
        self.client = self.asked.client
        self.scoring: ScoringDemand | None = None  # while the prompt is scored
        self.shared_draws: SharedDraws[ActiveBranch] | None = None  # where branches are drawn together
        self.ending: Constraint | None = None  # the end of the prompt, which next tokens have to spell again
        self.wants_next_logprobs = self.asked.next_logprobs is not None or bool(self.asked.next_ids)
        self.counted = False  # whether its prompt is in the statistics
        self.failed = False  # the whole request
        self.templates: dict[tuple[Sampling, bool], SamplerTemplate] = {}  # and whether no end is chosen
        self.template: tuple[Sampling | None, bool, SamplerTemplate | None] = None, False, None  # the last
        self.constraints: dict[ConstraintKey, Constraint | None] = {}

    def make_writer(self, branch: Branch, pieces: TokenPieces) -> ActiveBranch:
        return ActiveBranch(self, branch, pieces)

    @property
    def running(self) -> bool:
        """Whether anything of the request is on a sequence."""
        return self.scoring is not None or any(r.seq >= 0 for r in self.branches)

    @property
    def scored(self) -> int:
        """Return how many tokens of the prompt are scored already, or need not be."""
        return max(self.asked.score_from - 1, 0) + len(self.generation.prompt_logprobs)

    @property
    def needs_scoring(self) -> bool:
        """Whether the request has prompt log-probabilities that are still missing."""
        return self.asked.prompt_logprobs is not None and self.scored < len(self.ids) - 1

    def report_next_logprobs(self, logits: Logits) -> None:
        """Report the likeliest next tokens from the ``logits`` after the prompt, if the request has them."""
        if self.wants_next_logprobs:
            asked, self.wants_next_logprobs = self.asked, False
            found = likeliest(logits, asked.next_logprobs or 0, asked.next_ids, self.ending)
            self.generation.next_logprobs = found

    def report_cached(self, cached: int) -> bool:
        """Report that ``cached`` tokens of the prompt are in the cache; False if that was reported before."""
        if self.counted:
            return False
        self.counted = True
        generation = self.generation
        generation.cached_tokens = generation.prompt_done = cached
        self.events.append(PromptProgress(cached, len(self.ids), cached))
        return True

    def report_progress(self, tokens: int) -> None:
        """Report that so many tokens of the prompt are evaluated."""
        generation = self.generation
        if generation.prompt_done < tokens <= len(self.ids):
            generation.prompt_done = tokens
            self.events.append(PromptProgress(tokens, len(self.ids), generation.cached_tokens))

    def template_for(self, active: ActiveBranch, model: Model, n_ctx: int) -> SamplerTemplate:
        """Return the template that the chain of a branch is made from; ``n_ctx`` is the size of the context.

        Raises InvalidRequest for settings that cannot be built.
        """
        asked, ignore_eog, template = self.template  # of the last branch: it is mostly the same
        if active.sampling is asked and active.ignore_eog == ignore_eog and template is not None:
            return template
        # branches that differ only in these share a template
        sampling = replace(active.sampling, seed=None, **REWINDER_FIELDS)
        key = sampling, active.ignore_eog
        template = self.templates.get(key)
        if template is None:
            while len(self.templates) >= _TEMPLATES:
                self.templates.pop(next(iter(self.templates))).close()
            banned = sorted(model.eog) if active.ignore_eog else ()
            template = SamplerTemplate(sampling, model, n_ctx, banned)
            if template.history_length:
                template.prime(self.history_ids[-template.history_length :])
            self.templates[key] = template
        self.template = active.sampling, active.ignore_eog, template
        return template

    def close_templates(self) -> None:
        """Free the sampler templates, which only a running request needs."""
        for template in self.templates.values():
            template.close()
        self.templates.clear()
        self.template = None, False, None

    def close(self) -> None:
        """Free everything native."""
        for active in self.branches:
            active.restart_sampling()
        self.close_templates()


def constraint_key(sampling: Sampling) -> ConstraintKey:
    """Return the settings that a constraint is made from."""
    return sampling.grammar, sampling.json_schema, sampling.regex


def is_waiting(active: ActiveBranch) -> bool:
    """Whether a branch has something to write and no sequence."""
    return active.seq < 0 and active.branch.state in WAITING_STATES
