"""The local engine's state of a request: its branches, its prompt, and what they share.

This is plain state, which the scheduler changes. (A branch is not called a sequence: in llama.cpp that is the
cells it is evaluated on.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from .branch import ActiveBranch
from .constraints import Constraint, compile_constraint
from .generation import Branch, Generation
from .logprobs import likeliest, score
from .model import Model
from .sampling import SamplerTemplate
from .seeds import derive_seed
from .siblings import Siblings
from .types import Done, Event, PromptProgress, Request, Sampling, Stop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Logits: TypeAlias = "NDArray[np.float32]"
ConstraintKey: TypeAlias = "tuple[str | None, str | None, str | None]"
_TEMPLATES = 64  # of one request, for branches with different settings


class ActiveRequest:
    """A request that the local engine serves.

    Attributes:
        branches: by their index.
        ids: tokens of the prompt as it is evaluated.
        pending_prefix: bytes taken off the prompt's end, which the first tokens spell (token healing).
        events: what has happened since readers were last notified.
        siblings: how its branches are drawn together, if they are.
        ending: the end of the prompt, which next tokens have to spell again.
        counted: whether its prompt is in the statistics.
        failed: whether the whole request has failed.
        templates: what chains are made from, while it runs.
    """

    def __init__(
        self, generation: Generation, ids: list[int], pending_prefix: bytes, salt: str,
        model: Model,
    ) -> None:  # fmt: skip
        self.generation, self.model, self.salt = generation, model, salt
        self.asked: Request = generation.request
        self.ids = ids
        self.pending_prefix = pending_prefix
        self.pending_text = pending_prefix.decode("utf-8", "replace")
        self.eog = model.eog
        self.events: list[Event] = []
        self.branches: list[ActiveBranch] = []
        self.client = self.asked.client
        self.siblings = Siblings(self.branches) if self.asked.siblings != "independent" else None
        self.ending: Constraint | None = None
        self.wants_next_logprobs = self.asked.next_logprobs is not None or bool(self.asked.next_ids)
        self.counted = self.failed = False
        self._constraints: dict[ConstraintKey, Constraint | None] = {}
        self._seeds: set[int] = set()  # of all attempts
        self.templates: dict[tuple[Sampling, bool], SamplerTemplate] = {}  # and whether no end is chosen

    def add_branch(self, sampling: Sampling, stop: Stop, seed: int) -> ActiveBranch:
        """Add a branch behind the others."""
        branch = Branch(self.generation, len(self.branches), sampling, stop, seed)
        self.generation.branches.append(branch)
        self.branches.append(ActiveBranch(self, branch, self.model.pieces))
        return self.branches[-1]

    def seed(self, asked: int | None, base: int, k: int) -> int:
        """Return the seed ``asked`` for, or the k-th from ``base`` on that no attempt of the request had."""
        seed = asked
        while seed is None:
            seed, k = derive_seed(base, k), k + 1
            seed = None if seed in self._seeds else seed
        self._seeds.add(seed)
        return seed

    @property
    def live(self) -> bool:
        return any(active.branch.live for active in self.branches)

    @property
    def waiting_since(self) -> int:
        """The step since which its first waiting branch has waited; 0 where the engine is being closed."""
        return min((active.since for active in self.branches if active.waiting), default=0)

    def completed(self) -> Done:
        """Return the event that ends the request."""
        tokens = sum(len(active.buffer.ids) for active in self.branches)
        return Done(len(self.ids), self.generation.cached_tokens, tokens)

    # ---- the prompt

    @property
    def scored(self) -> int:
        """Return how many tokens of the prompt are scored already, or need not be."""
        return max(self.asked.score_from - 1, 0) + len(self.generation.prompt_logprobs)

    @property
    def needs_scoring(self) -> bool:
        """Whether the request has prompt log-probabilities that are still missing."""
        return self.asked.prompt_logprobs is not None and self.scored < len(self.ids) - 1

    def score_prompt(self, position: int, logits: Logits) -> None:
        """Note the log-probability of the token of the prompt that follows the first ``position`` ones."""
        if self.scored < position < len(self.ids):
            known = score(logits, self.ids[position], self.asked.prompt_logprobs or 0)
            self.generation.prompt_logprobs.append(known)

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

    # ---- constraints and sampler chains

    def compile_constraint(self, sampling: Sampling) -> Constraint | None:
        """Return the constraint that ``sampling`` asks for, at its beginning.

        Callers do so on their own thread first: the first of a model takes a while. Raises InvalidRequest.
        """
        key = sampling.grammar, sampling.json_schema, sampling.regex
        if key not in self._constraints:
            self._constraints[key] = compile_constraint(sampling, self.model)
        return self._constraints[key]

    def template_for(self, active: ActiveBranch, n_ctx: int) -> SamplerTemplate:
        """Return the template that the chain of a branch is made from; ``n_ctx`` is the size of the context.

        Raises InvalidRequest for settings that cannot be built.
        """
        # branches that differ only in these share a template
        sampling = replace(active.sampling, seed=None, banned_phrases=())
        template = self.templates.get((sampling, active.ignore_eog))
        if template is None:
            if len(self.templates) >= _TEMPLATES:
                self.templates.clear()
            # marks of gaps stand next where the end is barred: they print nothing, and derail the text
            banned = sorted({*self.eog, *(self.model.fim or ())}) if active.ignore_eog else ()
            template = SamplerTemplate(sampling, self.model, n_ctx, banned)
            if template.history_length:
                template.prime(self.ids[-template.history_length :])
            self.templates[sampling, active.ignore_eog] = template
        return template
