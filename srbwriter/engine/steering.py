"""The verbs: what a branch handle's command does to its branch, between two steps.

Runs on the engine thread. A verb takes the branch off its sequence, changes its text, and lets
admission put it back where the cache already holds most of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..prose import last_sentence_start
from .constraints import compile_constraint
from .generation import Branch, Buffer, Command, Generation
from .lanes import Lanes
from .model import Model
from .prompt import Typed, token_ids, typed
from .runner import Run, Runner, constraint_key, tokens_within
from .types import (
    Added,
    BranchState,
    Cut,
    EngineError,
    FinishReason,
    Sampling,
    Stop,
    Take,
    Text,
)
from .writing import Writer, last_token_prefix

log = logging.getLogger(__name__)

_BEYOND_THE_END = 12  # tokens that a branch writes at least when it is to go on from "the end"


class Steering:
    """Commands to state changes."""

    def __init__(self, model: Model, writer: Writer, lanes: Lanes, window: int) -> None:
        self.model, self.writer, self.lanes, self.window = model, writer, lanes, window
        self._verbs: dict[str, Callable[..., None]] = {
            "stop": self.stop,
            "kill": self.kill,
            "reroll": self.reroll,
            "extend": self.extend,
            "pause": self.pause,
            "resume": self.resume,
            "rewind": self.rewind,
            "append": self.append,
            "set_sampling": self.set_sampling,
            "set_stop": self.set_stop,
        }

    def handle(self, command: Command) -> None:
        """Carry out one command. An error it causes ends the request it concerns, nothing else."""
        if command.verb == "call":
            _answer(*command.args)
            return
        run = command.generation.engine_state
        if not isinstance(run, Run):
            return
        try:
            if run.generation.error is None and not run.failed:
                self._handle(command, run)
        except EngineError as error:
            log.warning("request %d, %s: %s", run.generation.number, command.verb, error)
            self.writer.fail_run(run, error)
        run.generation.arrived(command)
        self._again(run)

    def _handle(self, command: Command, run: Run) -> None:
        if command.verb == "cancel":
            for runner in run.runners:
                self.stop(runner)
        elif command.verb == "add_branch":
            self.add_branch(run, *command.args)
        elif 0 <= command.branch < len(run.runners):
            self._verbs[command.verb](run.runners[command.branch], *command.args)

    def _again(self, run: Run) -> None:
        """A new request, or a finished one that has something to do or to say, is served."""
        if run not in self.lanes.runs:
            self.lanes.runs.append(run)
            for runner in run.runners:
                runner.since = self.lanes.step

    # ---- ending and pausing

    def stop(self, runner: Runner) -> None:
        self._end(runner, FinishReason.STOPPED)

    def kill(self, runner: Runner) -> None:
        branch = runner.branch
        if branch.state is BranchState.DONE and branch.finish_reason is not FinishReason.KILLED:
            self.writer.discard(runner)
        self._end(runner, FinishReason.KILLED)

    def _end(self, runner: Runner, reason: FinishReason) -> None:
        if runner.branch.live:
            self.lanes.unlist(runner)
            self.writer.finish(runner, reason, None)
            if not runner.run.live:
                self.lanes.drop_trunk(runner.run)

    def pause(self, runner: Runner) -> None:
        if runner.branch.live and runner.branch.state is not BranchState.PAUSED:
            self.lanes.unlist(runner)
            self.writer.detach(runner)
            self.writer.set_state(runner, BranchState.PAUSED)

    def resume(self, runner: Runner) -> None:
        if runner.branch.state is BranchState.PAUSED:
            self.writer.set_state(runner, BranchState.WAITING)

    # ---- going on differently

    def reroll(self, runner: Runner, seed: int | None, sampling: Sampling | None, stop: Stop | None) -> None:
        self._take_off(runner)
        branch = runner.branch
        if sampling is not None:
            runner.sampling = branch.sampling = sampling
        if stop is not None:
            branch.stop_rule = stop
        branch.seed = runner.run.seed(seed, branch.seed, branch.buffer.revision + 1)
        runner.new_take()
        branch.overlap = 0
        runner.run.events.append(Cut(branch.index, 0, 0))
        self._revive(runner)

    def extend(self, runner: Runner, stop: Stop | int | None) -> None:
        branch = runner.branch
        if branch.live and stop is None:
            return
        self._settle_tail(runner)
        if isinstance(stop, Stop):
            self.set_stop(runner, stop)
        elif not branch.live or stop is not None:
            more = stop if stop is not None else branch.stop_rule.max_tokens
            runner.set_stop(branch.stop_rule, more)
        if not branch.live:
            if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
                runner.min_tokens = max(runner.min_tokens, len(branch.buffer.ids) + _BEYOND_THE_END)
            self._restart_text(runner)
            self._revive(runner)

    def rewind(
        self, runner: Runner, tokens: int | None, chars: int | None, sentences: int | None, seed: int | None
    ) -> None:
        self._take_off(runner)
        branch = runner.branch
        text = branch.text
        if tokens is not None:
            keep = max(len(branch.buffer.ids) - max(tokens, 0), 0)
            chars_kept = min(branch.buffer.ends[keep - 1], len(text)) if keep else 0
        elif chars is not None:
            chars_kept = max(len(text) - max(chars, 0), 0)
        else:
            chars_kept = last_sentence_start(text, sentences or 0)
        self._cut_to(runner, text, chars_kept)
        branch.seed = runner.run.seed(seed, branch.seed, branch.buffer.revision + 1)
        runner.set_stop(branch.stop_rule)
        runner.run.events.append(Cut(branch.index, chars_kept, len(branch.buffer.ids)))
        self._revive(runner)

    def _cut_to(self, runner: Runner, text: str, chars: int) -> None:
        """Keep ``chars`` characters; a token cut in half is written anew as typed text."""
        if chars <= 0:
            runner.new_take()
            runner.branch.overlap = 0
            return
        buffer = runner.buffer
        kept = tokens_within(buffer, chars)
        begin = buffer.ends[kept - 1] if kept else 0
        rest = text[begin:chars]
        if not kept and runner.run.heal_prefix:
            rest = runner.run.heal_prefix.decode("utf-8", "replace") + rest
        runner.cut(chars, self.model.tokenize_continuation(rest) if rest else ())

    def append(
        self, runner: Runner, text: str, go_on: bool, alone: Typed, healed: Typed | None = None
    ) -> None:
        """``healed`` are the tokens where the text begins with what token healing took off the prompt."""
        branch = runner.branch
        if not text:
            return
        goes_on = branch.live or go_on
        self._take_off(runner)
        if branch.live:
            self.writer.flush(runner)
        self._drop_half_spelt(runner)
        self._settle_tail(runner)
        if go_on and not branch.live:
            runner.set_stop(branch.stop_rule, branch.stop_rule.max_tokens)
        unspelt = "" if runner.buffer.ids else runner.run.heal_prefix.decode("utf-8", "replace")
        new = healed if unspelt and healed is not None else alone
        if unspelt:
            branch.overlap = len(unspelt)
        heals = goes_on and runner.run.request.heal and not any(constraint_key(runner.sampling))
        prefix = last_token_prefix(self.model, new.ids, text) if heals else b""
        if prefix:
            new = Typed(new.ids[:-1], new.ends[:-1])
        self._typed(runner, text, new, len(unspelt))
        if prefix:
            self.writer.preparer.heal(runner, prefix)
        if go_on or branch.live and branch.state is not BranchState.PAUSED:
            self._revive(runner)

    def _typed(self, runner: Runner, text: str, new: Typed, unspelt: int) -> None:
        """Add typed text. The tokens spell ``unspelt`` characters before it, too; its end they need not."""
        branch, buffer = runner.branch, runner.buffer
        begin = len(branch.text)
        buffer.typed.append((begin, begin + len(text)))  # before the text, so that no reader misses it
        buffer.pieces.append(text)
        buffer.ids.extend(new.ids)
        buffer.ends.extend(begin + max(end - unspelt, 0) for end in new.ends)
        runner.limit += len(new.ids)
        runner.text_changed()
        self._restart_text(runner)
        runner.run.events.append(Text(branch.index, text, tuple(new.ids)))

    def set_sampling(self, runner: Runner, sampling: Sampling) -> None:
        runner.sampling = runner.branch.sampling = sampling
        runner.rule_changed()
        if sampling.seed is not None:
            runner.branch.seed = sampling.seed
            runner.close_chain()
        self._prepare(runner)

    def set_stop(self, runner: Runner, stop: Stop) -> None:
        ignore = runner.ignore_eog
        runner.set_stop(stop)
        if runner.ignore_eog != ignore:
            runner.rule_changed()
        if runner.branch.live and runner.buffer.ids and runner.limit <= len(runner.buffer.ids):
            self._end(runner, FinishReason.LENGTH)
        else:
            self._prepare(runner)

    def add_branch(self, run: Run, n: int, sampling: Sampling | None, stop: Stop | None) -> None:
        first = run.runners[0].branch
        for _ in range(n):
            index = len(run.runners)
            chosen = sampling if sampling is not None else first.sampling
            own = sampling.seed if sampling is not None else None
            seed = run.seed(own, first.seed, index)
            rule = stop if stop is not None else first.stop_rule
            branch = Branch(run.generation, index, chosen, rule, seed)
            run.generation.branches.append(branch)
            run.runners.append(Runner(run, branch, self.model.pieces))
            run.events.append(Added(index))

    # ---- the window

    def make_window(self, runner: Runner) -> bool:
        """Forget the older half of what follows the kept head until it fits, if the request allows it.

        What remains is evaluated again: shifting cells in place would move them for every branch
        that shares them, and leaves other values than a fresh evaluation.
        """
        request = runner.run.request
        if request.overflow != "shift":
            return False
        path = runner.path
        keep = len(runner.run.ids) if request.n_keep < 0 else min(request.n_keep, len(path))
        gone, rest = 0, len(path) - keep
        while len(path) - gone + 1 > self.window:  # a rewind can leave several windows full
            if rest < 2:
                return False
            gone, rest = gone + rest // 2, rest - rest // 2
        runner.base = path[:keep] + path[keep + gone :]
        runner.first = len(runner.buffer.ids)
        runner.run.generation.truncated = True
        return True

    # ---- inside

    def _prepare(self, runner: Runner) -> None:
        """Let a branch that writes go on by other rules, or end in the attempt."""
        if runner.pending is not None:
            self.lanes.park(runner)  # it chooses anew when it is let in
        elif runner.seq >= 0 and not self.writer.prepare(runner):
            self.lanes.retire()

    def _take_off(self, runner: Runner) -> None:
        self.lanes.unlist(runner)
        self.writer.detach(runner)

    def _revive(self, runner: Runner) -> None:
        branch = runner.branch
        branch.finish_reason = branch.stop_text = branch.error = None
        runner.since = self.lanes.step
        self.writer.set_state(runner, BranchState.WAITING)

    def _restart_text(self, runner: Runner) -> None:
        runner.hidden = runner.skip = 0
        runner.heal = None
        runner.text.restart(runner.branch.text, len(runner.buffer.ids))

    def _drop_half_spelt(self, runner: Runner) -> None:
        """Tokens that spell only part of the prompt's end again: typed words begin with all of it."""
        buffer = runner.buffer
        if buffer.ids and buffer.ends[-1] < 0:
            runner.limit -= len(buffer.ids)
            buffer.ids.clear()
            buffer.ends.clear()
            buffer.logprobs.clear()
            runner.text_changed()

    def _settle_tail(self, runner: Runner) -> None:
        """Text that no token covers becomes tokens, so that the branch can go on from it."""
        buffer = runner.buffer
        if buffer.tail:
            ids = self.model.tokenize_continuation(buffer.tail)
            buffer.ids.extend(ids)
            buffer.ends.extend([len(runner.branch.text)] * len(ids))
            buffer.tail = ""
            runner.text_changed()


def _answer(asked: Future[Any], function: Callable[[], Any]) -> None:
    if asked.set_running_or_notify_cancel():
        try:
            asked.set_result(function())
        except Exception as error:  # whoever asked gets it
            asked.set_exception(error)


def make_run(generation: Generation, ids: list[int], heal_prefix: bytes, seed: int, model: Model) -> Run:
    """Branches and runners of a new request. Raises InvalidRequest for a grammar that is none."""
    request = generation.request
    run = Run(generation, ids, heal_prefix)
    if request.penalty_prompt is not None:
        run.looked_back_at = token_ids(model, "penalty_prompt", request.penalty_prompt, request.parse_special)
    for index in range(request.n):
        sampling = request.sampling[index] if isinstance(request.sampling, tuple) else request.sampling
        stop = request.stop[index] if isinstance(request.stop, tuple) else request.stop
        own = sampling.seed if isinstance(request.sampling, tuple) and sampling.seed is not None else None
        branch = Branch(generation, index, sampling, stop, run.seed(own, seed, index))
        generation.branches.append(branch)
        run.runners.append(Runner(run, branch, model.pieces))
    for runner in run.runners:
        compile_for(run, runner.sampling, model)
    for runner, take in zip(run.runners, request.takes, strict=False):
        _take_up(runner, take, model)
    generation.engine_state = run
    return run


def _take_up(runner: Runner, take: Take, model: Model) -> None:
    """Let a branch stand where ``take`` ended."""
    branch, unspelt = runner.branch, runner.run.heal_prefix.decode("utf-8", "replace")
    ids, whole = list(take.ids), unspelt + take.text
    known = all(0 <= token < model.n_vocab for token in ids)
    if not known or model.detokenize(ids) != whole:
        ids = model.tokenize_continuation(whole)
    spelt, ends = b"", list[int]()
    for token in ids:
        spelt += model.pieces.bytes[token]
        ends.append(len(spelt.decode("utf-8", "ignore")) - len(unspelt))
    branch.buffer = Buffer(pieces=[take.text] if take.text else [], ids=ids, ends=ends)
    branch.overlap = len(unspelt)
    branch.finish_reason, branch.state = take.finish_reason, BranchState.DONE
    runner.text.restart(take.text, len(ids))


def prepared(command: Command, model: Model) -> Command:
    """The command with what can be worked out before the engine's thread has it.

    Raises InvalidRequest for a grammar that is none.
    """
    run = command.generation.engine_state
    for value in command.args:
        if isinstance(value, Sampling):
            compile_for(run, value, model)
    if command.verb != "append":
        return command
    text, begun = command.args[0], run.heal_prefix.decode("utf-8", "replace")
    if run.request.heal:
        _ = model.piece_index
    more = (typed(model, text), *((typed(model, begun + text),) if begun else ()))
    return command._replace(args=command.args + more)


def compile_for(run: Run, sampling: Sampling, model: Model) -> None:
    """Compile the constraint on the caller's thread: the first of a model takes a while.

    Raises InvalidRequest for a grammar that is none.
    """
    key = constraint_key(sampling)
    if any(key) and key not in run.constraints:
        run.constraints[key] = compile_constraint(sampling, model)
