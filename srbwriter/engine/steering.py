"""The verbs: how a command changes a branch and its request.

A verb takes the branch off the engine that computes it, changes its text or its rules, and lets it wait to be
served again. The hooks at the end of :class:`Steering` hide how an engine computes branches. Runs on the
engine's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from .branch import BranchWriter, ServedRequest, W, chars_before_rewind
from .generation import BEYOND_THE_END
from .parameters import notation
from .prompt import Typed, Vocabulary, typed
from .text import TokenPieces
from .tree import common_prefix
from .types import Added, BranchState, Cut, FinishReason, InvalidRequest, Sampling, Stop, Take, for_each


class Steering(Generic[W]):
    """Carries out verbs on branches of type ``W``."""

    pieces: TokenPieces
    """What the tokens of the vocabulary write, as far as it is known."""

    # ---- ending and pausing

    def stop(self, writer: W) -> None:
        if writer.branch.live:
            self.finish(writer, FinishReason.STOPPED)

    def cancel(self, request: ServedRequest[W]) -> None:
        for writer in request.branches:
            self.stop(writer)

    def kill(self, writer: W) -> None:
        branch = writer.branch
        if branch.live:
            self.finish(writer, FinishReason.KILLED)
        elif branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED:
            self.discard(writer)
            writer.end(BranchState.DONE, FinishReason.KILLED)

    def pause(self, writer: W) -> None:
        if writer.branch.live and writer.branch.state is not BranchState.PAUSED:
            self.release(writer)
            writer.set_state(BranchState.PAUSED)

    def resume(self, writer: W) -> None:
        if writer.branch.state is BranchState.PAUSED:
            writer.set_state(BranchState.WAITING)

    # ---- another text

    def reroll(
        self, writer: W, seed: int | None, sampling: Sampling | None, stop: Stop | None,
        begin: Sequence[int], without: Sequence[int],
    ) -> None:  # fmt: skip
        self.release(writer, keep=False)
        branch = writer.branch
        if sampling is not None:
            writer.sampling = branch.sampling = sampling
        if stop is not None:
            branch.stop_rule = stop
        branch.seed = writer.request.seed(seed, branch.seed, branch.buffer.revision + 1)
        base, shifted = writer.base, writer.first
        writer.restart_attempt()
        if not shifted:
            self._continue_after(writer, base)
        writer.request.events.append(Cut(branch.index, 0, 0))
        writer.begin(begin, without, self.pieces)
        self._heal_prompt(writer)
        self.revive(writer)

    def extend(self, writer: W, stop: Stop | int | None) -> None:
        branch = writer.branch
        if branch.live and stop is None:
            return
        self.settle_tail(writer)
        if isinstance(stop, Stop):
            self.set_stop(writer, stop)
        else:
            before = writer.sampling_rule
            writer.set_stop(branch.stop_rule, stop if stop is not None else branch.stop_rule.max_tokens)
            if branch.live and writer.sampling_rule != before:
                self.follow_rules(writer)
        if not branch.live:
            if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
                writer.min_tokens = max(writer.min_tokens, writer.written + BEYOND_THE_END)
            if not writer.still_healing:
                writer.restart_text()
            self.revive(writer)

    def rewind(
        self, writer: W, tokens: int | None, chars: int | None, sentences: int | None, seed: int | None
    ) -> None:
        self.release(writer)
        branch = writer.branch
        kept = chars_before_rewind(branch, tokens, chars, sentences)
        if kept <= 0:
            writer.restart_attempt()
        else:
            writer.cut(kept)
        writer.request.events.append(Cut(branch.index, max(kept, 0), len(branch.buffer.ids)))
        self.settle_tail(writer)
        branch.seed = writer.request.seed(seed, branch.seed, branch.buffer.revision + 1)
        writer.set_stop(branch.stop_rule)
        self.revive(writer)

    def append(
        self, writer: W, text: str, go_on: bool, alone: Typed, with_prefix: Typed | None = None
    ) -> None:
        """``with_prefix`` are the tokens of the text behind what token healing took off the prompt."""
        branch = writer.branch
        if not text:
            return
        goes_on = branch.live or go_on
        self.release(writer)
        if branch.live:
            writer.flush()
        writer.drop_half_spelt()
        self.settle_tail(writer)
        if go_on and not branch.live:
            writer.set_stop(branch.stop_rule, branch.stop_rule.max_tokens)
        unspelt = "" if writer.buffer.ids else writer.request.pending_text
        new = with_prefix if unspelt and with_prefix is not None else alone
        if writer.buffer.tail:  # its tokens are still to be found, together with those of this text
            new = Typed((), ())
        if unspelt:
            branch.overlap = len(unspelt)
        heals = goes_on and writer.request.asked.heal and not notation(writer.sampling)
        kept = len(new.ids) - (new.unfinished.tokens if heals else 0)
        writer.add_typed(text, new.ids[:kept], new.ends[:kept], len(unspelt))
        if kept < len(new.ids):
            self.heal(writer, new.unfinished.text)
        if go_on or branch.live and branch.state is not BranchState.PAUSED:
            self.revive(writer)

    def revive(self, writer: W) -> None:
        """Let a branch wait to be served again."""
        branch = writer.branch
        branch.finish_reason = branch.stop_text = branch.error = None
        writer.set_state(BranchState.WAITING)

    # ---- other rules

    def set_sampling(self, writer: W, sampling: Sampling) -> None:
        writer.sampling = writer.branch.sampling = sampling
        writer.rules_changed()
        if sampling.seed is not None:
            writer.branch.seed = sampling.seed
            writer.restart_sampling()
        self.follow_rules(writer)

    def set_stop(self, writer: W, stop: Stop) -> None:
        before, ignored_eog = writer.sampling_rule, writer.ignore_eog
        writer.set_stop(stop)
        if writer.ignore_eog != ignored_eog:
            writer.rules_changed()
        if writer.branch.live and writer.buffer.ids and writer.limit <= writer.written:
            self.finish(writer, FinishReason.LENGTH)
        elif writer.sampling_rule != before:
            self.follow_rules(writer)

    def change(self, writer: W, sampling: Sampling, stop: Stop) -> None:
        self.set_stop(writer, stop)
        self.set_sampling(writer, sampling)

    # ---- another prompt

    def set_prompt(self, writer: W, prompt: Sequence[int]) -> None:
        self.release(writer)
        writer.text.checkpoints.clear()  # their logits followed the prompt until now
        self._continue_after(writer, prompt or writer.request.ids)
        self._heal_prompt(writer)
        if writer.branch.live and writer.branch.state is not BranchState.PAUSED:
            self.revive(writer)

    def _continue_after(self, writer: W, prompt: Sequence[int]) -> None:
        """Let the next token follow ``prompt`` and all of the text so far."""
        before = writer.base
        if prompt is before:
            return
        writer.base, writer.first = prompt, 0
        writer.slid(common_prefix(before, prompt, 0, len(prompt)))
        writer.text_changed()

    def _heal_prompt(self, writer: W) -> None:
        """Let a text that begins inside a word complete it, also after a prompt of its own."""
        request = writer.request
        if writer.base is not request.ids and request.pending_text and not writer.buffer.ids:
            self.heal(writer, request.pending_text)
            writer.spell_prompt_again()

    # ---- more branches

    def add_branch(
        self, request: ServedRequest[W], n: int, samplings: Sampling | tuple[Sampling, ...] | None,
        stops: Stop | tuple[Stop, ...] | None, begin: Sequence[int], without: Sequence[int],
    ) -> None:  # fmt: skip
        first = request.branches[0].branch
        for sampling, stop in zip(for_each(samplings, n), for_each(stops, n), strict=True):
            index = len(request.branches)
            chosen = sampling if sampling is not None else first.sampling
            seed = request.seed(sampling.seed if sampling is not None else None, first.seed, index)
            rule = stop if stop is not None else first.stop_rule
            writer = request.add_branch(chosen, rule, seed, self.pieces)
            request.events.append(Added(index))
            writer.begin(begin, without, self.pieces)

    # ---- what the engines do differently

    def settle_tail(self, writer: W) -> None:
        """Let tokens spell the tail, now or before the branch is computed again."""
        raise NotImplementedError

    def finish(self, writer: W, reason: FinishReason) -> None:
        """End a live branch."""
        raise NotImplementedError

    def discard(self, writer: W) -> None:
        """Free the state that is kept for continuing a branch that has ended."""
        raise NotImplementedError

    def release(self, writer: W, keep: bool = True) -> None:
        """Stop computing a branch; ``keep`` its state so that it can continue."""
        raise NotImplementedError

    def follow_rules(self, writer: W) -> None:
        """Apply new rules to a branch that is being computed."""
        raise NotImplementedError

    def heal(self, writer: W, text: str) -> None:
        """Let the next tokens of a branch spell ``text``, the end of what was typed, again."""
        raise NotImplementedError


def typed_text(vocabulary: Vocabulary, text: str, begun: str, heals: bool) -> tuple[Typed, ...]:
    """Return the arguments that `append` needs behind its own: the tokens of ``text``.

    And of the same behind ``begun``, what token healing took off the prompt, if it took anything off.
    ``heals``: a word that breaks off at the end of the text is to be completed.
    """
    healed = text if heals else ""
    more = (typed(vocabulary, begun + text, healed),) if begun else ()
    return typed(vocabulary, text, healed), *more


def take_up(writer: BranchWriter, take: Take, vocabulary: Vocabulary) -> None:
    """Restore an earlier attempt in a new branch."""
    whole = writer.request.pending_text + take.text
    try:
        known = vocabulary.detokenize(take.ids) == whole
    except InvalidRequest:  # the ids are those of another vocabulary
        known = False
    ids = take.ids if known else vocabulary.tokenize_continuation(whole)
    writer.take_up(take, ids, vocabulary.token_pieces(ids))
