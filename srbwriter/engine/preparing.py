"""What a branch samples with: its chain, its constraint, and the word of the prompt that it completes.

Called before a branch writes on, whatever has become of it since it last did. Knows runners; knows no rows,
no sequences and no queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .chains import derive_seed
from .constraints import Constraint, PrefixConstraint, compile_constraint
from .model import Model
from .native.context import Context
from .parameters import notation
from .runner import ChainIs, Run, Runner, constraint_key
from .sampling import SamplerTemplate
from .types import InvalidRequest

_PLACES = 1 << 32  # seeds derived for places in a text lie beyond those of samplers and takes


class Preparer:
    """Makes branches of one context ready to sample."""

    def __init__(self, model: Model, context: Context) -> None:
        self.model, self.context = model, context

    def prepare(self, runner: Runner) -> None:
        """Bring chain and constraint to where the text ends.

        Raises InvalidRequest for settings that cannot be built, and for text that breaks the constraint.
        """
        run, ids = runner.run, runner.buffer.ids
        chain = runner.chain if runner.chain is not None and runner.chain.pointer else None
        if chain is None or runner.chain_is is ChainIs.OUTDATED:
            # a seed of its own for each place, or the numbers drawn before would be drawn again
            seed = derive_seed(runner.branch.seed, _PLACES + len(ids)) if ids else runner.branch.seed
            runner.chain = chain = self._template(run, runner).new(seed, ids, chain)
        elif runner.chain_is is ChainIs.STALE:
            chain.remember([*run.looked_back_at, *ids])
        chain.rests = 0
        runner.chain_is = ChainIs.RIGHT
        if not ids and run.heal_prefix and runner.base is run.ids and runner.heal is None:
            self.heal(runner, run.heal_prefix)
            runner.hidden = runner.branch.overlap = len(run.heal_prefix.decode("utf-8", "replace"))
        if not runner.constrained:
            self._constrain(runner)
        self.refresh(runner)

    def heal(self, runner: Runner, prefix: bytes) -> None:
        """Make the next tokens spell ``prefix``, the end of the text so far, again."""
        runner.heal = PrefixConstraint(self.model.piece_index, prefix)
        runner.skip = len(prefix.decode("utf-8", "replace"))
        text = runner.branch.text
        runner.text.restart(text[: max(len(text) - runner.skip, 0)], len(runner.buffer.ids), runner.skip)

    def refresh(self, runner: Runner) -> None:
        """Decide whether llama.cpp can sample this branch in a single call."""
        runner.fast = (
            runner.heal is None
            and runner.constraint is None
            and runner.run.request.logits_callback is None
            and runner.run.request.logprobs is None
            and len(runner.buffer.ids) >= runner.min_tokens
        )

    def _template(self, run: Run, runner: Runner) -> SamplerTemplate:
        sampling = replace(runner.sampling, seed=None)  # branches that differ in their seeds share it
        key = sampling, runner.ignore_eog
        template = run.templates.get(key)
        if template is None:
            banned = sorted(self.model.eog) if runner.ignore_eog else ()
            template = SamplerTemplate(sampling, self.model, self.context.cells, banned)
            if template.history_length:
                template.prime(run.looked_back_at[-template.history_length :])
            run.templates[key] = template
        return template

    def _constrain(self, runner: Runner) -> None:
        compiled = self._compiled(runner.run, runner)
        constraint = None if compiled is None else compiled.fork()
        if constraint is not None:
            for token in self.seen(runner):
                if constraint.slow:
                    break  # whoever follows it reads the text, too
                if not constraint.allows(token):
                    problem = constraint.trouble() if constraint.exhausted else "the text does not follow it"
                    raise InvalidRequest(notation(runner.sampling) or "grammar", problem)
                constraint.accept(token)
        runner.constraint, runner.constrained = constraint, True

    def _compiled(self, run: Run, runner: Runner) -> Constraint | None:
        key = constraint_key(runner.sampling)
        if key not in run.constraints:
            run.constraints[key] = compile_constraint(runner.sampling, self.model)
        return run.constraints[key]

    def seen(self, runner: Runner) -> Sequence[int]:
        """The branch's tokens as a constraint sees them: of one that completes the prompt, what is new."""
        buffer = runner.buffer
        if not runner.branch.overlap:
            return buffer.ids
        first = next((k for k, end in enumerate(buffer.ends) if end > 0), None)
        if first is None:
            return ()
        new = runner.branch.text[: buffer.ends[first]]
        return [*self.model.tokenize_continuation(new), *buffer.ids[first + 1 :]]
