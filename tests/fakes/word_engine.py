"""An engine without a model: real Generation and Branch objects, driven by hand or by a thread."""

from __future__ import annotations

import itertools
import random
import threading
import time
from dataclasses import replace

from srbwriter.engine.generation import Branch, BranchCommand, Buffer, Generation
from srbwriter.engine.types import (
    Added,
    BranchState,
    Cut,
    Done,
    Event,
    Finished,
    FinishReason,
    PromptProgress,
    Request,
    Sampling,
    StateChanged,
    Text,
)

WORDS = (
    "the lamp over the harbour had gone out again and nobody would say who had seen it last because "
    "every window in the row was dark , and the tide came in as quietly as a thief . “ Leave it , ” "
    "said Mara . She counted the boats twice . \n\n One was missing ."
).split(" ")


class WordEngine:
    """Writes words instead of thinking. ``step`` gives each live branch one token."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._random: dict[tuple[int, int], random.Random] = {}
        self.decoded = 0

    def submit(self, request: Request) -> Generation:
        with self.lock:
            generation = Generation(next(self._numbers), request, self.post)
            generation.prompt_ids = tuple(range(max(1, len(str(request.prompt)) // 4)))
            generation.prompt_done = len(generation.prompt_ids)
            self.generations.append(generation)
            for _ in range(request.n):
                self._add(generation)
            return generation

    def _add(self, generation: Generation, sampling: Sampling | None = None) -> Branch:
        index = len(generation.branches)
        request = generation.request
        given = request.sampling if isinstance(request.sampling, tuple) else (request.sampling,)
        chosen = given[min(index, len(given) - 1)]
        stop = request.stop[index] if isinstance(request.stop, tuple) else request.stop
        branch = Branch(generation, index, sampling or chosen, stop, 1000 * generation.number + index)
        generation.branches.append(branch)
        branch.state = BranchState.WRITING
        self._random[generation.number, index] = random.Random(branch.seed)
        return branch

    def post(self, command: BranchCommand) -> None:
        with self.lock:
            events = getattr(self, f"_do_{command.verb}")(command)
            if all(not branch.live for branch in command.generation.branches):
                events.append(Done(0, 0, 0))
            command.generation.publish(events)

    def step(self, tokens: int = 1) -> None:
        with self.lock:
            for _ in range(tokens):
                for generation in self.generations:
                    generation.publish(self._step(generation))

    def _step(self, generation: Generation) -> list[Event]:
        events: list[Event] = []
        for branch in generation.branches:
            if branch.state is not BranchState.WRITING:
                continue
            word = self._random[generation.number, branch.index].choice(WORDS)
            text = word if word in ",.\n\n" else f" {word}"
            events += self._write(branch, text)
            limit = branch.stop_rule.max_tokens
            if limit is not None and len(branch.buffer.ids) >= limit:
                events += self._end(branch, FinishReason.LENGTH)
        if events and not any(branch.live for branch in generation.branches):
            events.append(Done(0, 0, 0))
        return events

    def _write(self, branch: Branch, text: str) -> list[Event]:
        now = time.monotonic()
        branch.started_at = branch.started_at or now
        branch.changed_at = now
        branch.buffer.ids.append(len(branch.buffer.ids))
        branch.buffer.pieces.append(text)
        self.decoded += 1
        return [Text(branch.index, text, (0,))]

    def _end(self, branch: Branch, reason: FinishReason) -> list[Event]:
        branch.state, branch.finish_reason = BranchState.DONE, reason
        return [Finished(branch.index, reason, len(branch.buffer.ids))]

    def _cut(self, branch: Branch, text: str, tokens: int) -> list[Event]:
        branch.buffer = Buffer(branch.buffer.revision + 1, [text] if text else [], branch.buffer.ids[:tokens])
        branch.state, branch.finish_reason = BranchState.WRITING, None
        return [Cut(branch.index, len(text), tokens), StateChanged(branch.index, branch.state)]

    def _branch(self, command: BranchCommand) -> Branch:
        return command.generation.branches[command.branch]

    def _do_stop(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        return self._end(branch, FinishReason.STOPPED) if branch.live else []

    def _do_kill(self, command: BranchCommand) -> list[Event]:
        return self._end(self._branch(command), FinishReason.KILLED)

    def _do_cancel(self, command: BranchCommand) -> list[Event]:
        return [
            event
            for branch in command.generation.branches
            if branch.live
            for event in self._end(branch, FinishReason.STOPPED)
        ]

    def _do_reroll(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        branch.seed += 100_000
        branch.started_at = 0.0
        self._random[command.generation.number, branch.index] = random.Random(branch.seed)
        return self._cut(branch, "", 0)

    def _do_extend(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        limit = branch.stop_rule.max_tokens
        branch.stop_rule = replace(branch.stop_rule, max_tokens=None if limit is None else 2 * limit)
        branch.state, branch.finish_reason = BranchState.WRITING, None
        return [StateChanged(branch.index, branch.state)]

    def _do_pause(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        branch.state = BranchState.PAUSED
        return [StateChanged(branch.index, branch.state)]

    def _do_resume(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        branch.state = BranchState.WRITING
        return [StateChanged(branch.index, branch.state)]

    def _do_rewind(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        kept = branch.text.rstrip(" .")
        kept = kept[: kept.rfind(".") + 1]
        return self._cut(branch, kept, len(kept) // 4)

    def _do_append(self, command: BranchCommand) -> list[Event]:
        branch = self._branch(command)
        branch.state = BranchState.WRITING
        return self._write(branch, command.args[0])

    def _do_change(self, command: BranchCommand) -> list[Event]:
        branch, (sampling, stop) = self._branch(command), command.args
        branch.sampling, branch.stop_rule = sampling or branch.sampling, stop or branch.stop_rule
        return []

    def _do_add_branch(self, command: BranchCommand) -> list[Event]:
        n, sampling, _ = command.args
        return [Added(self._add(command.generation, sampling).index) for _ in range(n)]

    def progress(self, generation: Generation, done: int, total: int) -> None:
        generation.prompt_ids = tuple(range(total))
        generation.prompt_done = done
        for branch in generation.branches:
            branch.state = BranchState.PROMPT
        generation.publish([PromptProgress(done, total, 0)])
