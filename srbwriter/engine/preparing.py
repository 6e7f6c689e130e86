"""What a branch samples with: its chain, its constraint, and the word of the prompt that it completes.

Called before a branch writes on, whatever has become of it since it last did. Knows branches; knows no rows,
no sequences and no queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .active import ActiveBranch, ActiveRequest, ChainIs, constraint_key
from .chains import derive_seed
from .constraints import Constraint, PrefixConstraint, compile_constraint
from .model import Model
from .native.context import Context
from .parameters import notation
from .sampling import SamplerTemplate
from .types import InvalidRequest

_PLACES = 1 << 32  # seeds derived for places in a text lie beyond those of samplers and takes


class Preparer:
    """Makes branches of one context ready to sample."""

    def __init__(self, model: Model, context: Context) -> None:
        self.model, self.context = model, context

    def prepare(self, active: ActiveBranch) -> None:
        """Bring chain and constraint to where the text ends.

        Raises InvalidRequest for settings that cannot be built, and for text that breaks the constraint.
        """
        request, ids = active.request, active.buffer.ids
        chain = active.chain if active.chain is not None and active.chain.pointer else None
        if chain is None or active.chain_is is ChainIs.OUTDATED:
            # a seed of its own for each place, or the numbers drawn before would be drawn again
            seed = derive_seed(active.branch.seed, _PLACES + len(ids)) if ids else active.branch.seed
            active.chain = chain = self._template(request, active).new(seed, ids, chain)
        elif active.chain_is is ChainIs.STALE:
            chain.remember([*request.looked_back_at, *ids])
        chain.rests = 0
        active.chain_is = ChainIs.RIGHT
        if not ids and request.heal_prefix and active.base is request.ids and active.heal is None:
            self.heal(active, request.heal_prefix)
            active.hidden = active.branch.overlap = len(request.heal_prefix.decode("utf-8", "replace"))
        if not active.constrained:
            self._constrain(active)
        self.refresh(active)

    def heal(self, active: ActiveBranch, prefix: bytes) -> None:
        """Make the next tokens spell ``prefix``, the end of the text so far, again."""
        active.heal = PrefixConstraint(self.model.piece_index, prefix)
        active.skip = len(prefix.decode("utf-8", "replace"))
        text = active.branch.text
        active.text.restart(text[: max(len(text) - active.skip, 0)], len(active.buffer.ids), active.skip)

    def refresh(self, active: ActiveBranch) -> None:
        """Decide whether llama.cpp can sample this branch in a single call."""
        active.fast = (
            active.heal is None
            and active.constraint is None
            and active.request.asked.logits_callback is None
            and active.request.asked.logprobs is None
            and len(active.buffer.ids) >= active.min_tokens
        )

    def _template(self, request: ActiveRequest, active: ActiveBranch) -> SamplerTemplate:
        sampling = replace(active.sampling, seed=None)  # branches that differ in their seeds share it
        key = sampling, active.ignore_eog
        template = request.templates.get(key)
        if template is None:
            banned = sorted(self.model.eog) if active.ignore_eog else ()
            template = SamplerTemplate(sampling, self.model, self.context.cells, banned)
            if template.history_length:
                template.prime(request.looked_back_at[-template.history_length :])
            request.templates[key] = template
        return template

    def _constrain(self, active: ActiveBranch) -> None:
        compiled = self._compiled(active.request, active)
        constraint = None if compiled is None else compiled.fork()
        if constraint is not None:
            for token in self.seen(active):
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

    def seen(self, active: ActiveBranch) -> Sequence[int]:
        """The branch's tokens as a constraint sees them: of one that completes the prompt, what is new."""
        buffer = active.buffer
        if not active.branch.overlap:
            return buffer.ids
        first = next((k for k, end in enumerate(buffer.ends) if end > 0), None)
        if first is None:
            return ()
        new = active.branch.text[: buffer.ends[first]]
        return [*self.model.tokenize_continuation(new), *buffer.ids[first + 1 :]]
