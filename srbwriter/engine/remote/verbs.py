"""The verbs on branches that are written elsewhere. All but pause, stop and kill are a new request from a
prefix.

To be used on the loop's thread only. Typed text comes with its tokens, which whoever typed it has asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...prose import last_sentence_start
from ..generation import BEYOND_THE_END, BRANCH_VERBS, Branch, Command
from ..prompt import Unfinished
from ..types import Added, BranchState, Cut, Finished, FinishReason, Priority, Sampling, Stop
from .lanes import Lane, Run

log = logging.getLogger(__name__)


class Verbs:
    """Commands to state changes. ``speak`` gives a lane what came while it rested."""

    def __init__(self, speak: Callable[[Lane], None]) -> None:
        self._speak = speak
        self._verbs: dict[str, Callable[..., None]] = {verb: getattr(self, verb) for verb in BRANCH_VERBS}

    def obey(self, command: Command, run: Run) -> None:
        """Carry out one command; what is to be written after it is WAITING."""
        if command.verb == "cancel":
            for lane in run.lanes:
                self.stop(lane)
        elif command.verb == "promote":
            self.promote(run, *command.args)
        elif command.verb == "add_branch":
            self.add_branch(run, *command.args)
        elif 0 <= command.branch < len(run.lanes):
            self._verbs[command.verb](run.lanes[command.branch], *command.args)

    def promote(self, run: Run, priority: Priority) -> None:
        run.request = run.generation.request = replace(run.request, priority=priority)
        for stretch in {lane.stretch for lane in run.lanes if lane.stretch is not None}:
            stretch.promote()

    def stop(self, lane: Lane) -> None:
        if lane.branch.live:
            lane.finish(FinishReason.STOPPED)

    def kill(self, lane: Lane) -> None:
        branch = lane.branch
        if branch.live:
            lane.finish(FinishReason.KILLED)
        elif branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED:
            branch.finish_reason, branch.stop_text = FinishReason.KILLED, None
            lane.run.events.append(Finished(branch.index, FinishReason.KILLED, len(branch.buffer.ids)))

    def pause(self, lane: Lane) -> None:
        if lane.branch.live and lane.branch.state is not BranchState.PAUSED:
            if lane.stretch is not None and lane.stretch.pause(lane):
                lane.resting = True
            else:
                lane.leave()
            lane.set_state(BranchState.PAUSED)

    def resume(self, lane: Lane) -> None:
        if lane.branch.state is not BranchState.PAUSED:
            return
        lane.set_state(BranchState.WAITING)
        if lane.resting and lane.stretch is not None:
            lane.resting = False
            lane.stretch.resume(lane)
            self._speak(lane)

    def reroll(
        self, lane: Lane, seed: int | None, sampling: Sampling | None, stop: Stop | None,
        begin: Sequence[int], without: Sequence[int], spelt: Sequence[bytes],
    ) -> None:  # fmt: skip
        lane.leave(keep=False)
        branch = lane.branch
        if sampling is not None:
            branch.sampling = sampling
        if stop is not None:
            branch.stop_rule = stop
        branch.seed = lane.run.seed(seed, branch.seed, branch.buffer.revision + 1)
        lane.new_take()
        lane.beyond = False
        lane.run.events.append(Cut(branch.index, 0, 0))
        lane.begin(begin, spelt, without)
        self._revive(lane)

    def extend(self, lane: Lane, stop: Stop | int | None) -> None:
        branch = lane.branch
        if branch.live and stop is None:
            return
        lane.leave()
        if isinstance(stop, Stop):
            lane.set_stop(stop)
        else:
            lane.set_stop(branch.stop_rule, stop if stop is not None else branch.stop_rule.max_tokens)
        if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
            lane.min_tokens = max(lane.min_tokens, lane.written + BEYOND_THE_END)
            lane.beyond = True
        lane.words.restart(branch.text, lane.written)
        if branch.state is not BranchState.PAUSED:
            self._revive(lane)

    def rewind(
        self, lane: Lane, tokens: int | None, chars: int | None, sentences: int | None, seed: int | None
    ) -> None:
        lane.leave()
        lane.flush()
        branch = lane.branch
        text = branch.text
        if tokens is not None:
            keep = max(len(branch.buffer.ids) - max(tokens, 0), 0)
            kept = min(branch.buffer.ends[keep - 1], len(text)) if keep else 0
        elif chars is not None:
            kept = max(len(text) - max(chars, 0), 0)
        else:
            kept = last_sentence_start(text, sentences or 0)
        lane.cut(kept)
        branch.seed = lane.run.seed(seed, branch.seed, branch.buffer.revision + 1)
        lane.set_stop(branch.stop_rule)
        lane.run.events.append(Cut(branch.index, kept, len(branch.buffer.ids)))
        self._revive(lane)

    def append(self, lane: Lane, text: str, go_on: bool, ids: Sequence[int], end: Unfinished) -> None:
        branch = lane.branch
        if not text:
            return
        live = branch.live
        lane.leave()
        if live:
            lane.flush()
        heals = (live or go_on) and not lane.run.constrained
        lane.typed(text, ids, end if heals else Unfinished())
        if go_on and not live:
            lane.set_stop(branch.stop_rule, branch.stop_rule.max_tokens)
        if go_on or live and branch.state is not BranchState.PAUSED:
            self._revive(lane)

    def set_sampling(self, lane: Lane, sampling: Sampling) -> None:
        lane.branch.sampling = sampling
        if sampling.seed is not None:
            lane.branch.seed = sampling.seed
        self._again(lane)

    def change(self, lane: Lane, sampling: Sampling, stop: Stop) -> None:
        self.set_stop(lane, stop)  # first, so that what is asked for anew is asked for by both
        self.set_sampling(lane, sampling)

    def set_stop(self, lane: Lane, stop: Stop) -> None:
        old = lane.branch.stop_rule
        lane.set_stop(stop)
        if lane.branch.live and lane.written and lane.left == 0:
            lane.finish(FinishReason.LENGTH)
        elif (old.max_tokens, old.min_tokens, old.ignore_eog) != (
            stop.max_tokens,
            stop.min_tokens,
            stop.ignore_eog,
        ):
            self._again(lane)

    def add_branch(
        self, run: Run, n: int, samplings: Sampling | tuple[Sampling, ...] | None,
        stops: Stop | tuple[Stop, ...] | None, begin: Sequence[int], without: Sequence[int],
        spelt: Sequence[bytes],
    ) -> None:  # fmt: skip
        first = run.lanes[0].branch
        for k in range(n):
            index = len(run.lanes)
            sampling = samplings[k] if isinstance(samplings, tuple) else samplings
            stop = stops[k] if isinstance(stops, tuple) else stops
            chosen = sampling if sampling is not None else first.sampling
            own = sampling.seed if sampling is not None else None
            rule = stop if stop is not None else first.stop_rule
            branch = Branch(run.generation, index, chosen, rule, run.seed(own, first.seed, index))
            run.generation.branches.append(branch)
            lane = Lane(run, branch)
            run.lanes.append(lane)
            run.events.append(Added(index))
            lane.begin(begin, spelt, without)

    def _again(self, lane: Lane) -> None:
        """What writes on is asked for anew, by other rules."""
        if lane.branch.state is BranchState.PAUSED:
            lane.leave()
        elif lane.branch.live and lane.stretch is not None:
            lane.leave()
            self._revive(lane)

    def _revive(self, lane: Lane) -> None:
        branch = lane.branch
        branch.finish_reason = branch.stop_text = branch.error = None
        lane.failures = 0
        lane.set_state(BranchState.WAITING)
