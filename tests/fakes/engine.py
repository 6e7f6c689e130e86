"""A deterministic engine for contract tests: the real Generation, Branch and text rules, a scripted model.

Every branch writes the script's text; ``hold`` stops all branches after some tokens until ``release``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from srbwriter.engine.backend import WITHOUT_CACHE, WithoutCache
from srbwriter.engine.branch import ActiveBranch, Ending
from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.chat import render
from srbwriter.engine.checks import Checks
from srbwriter.engine.generation import Branch, BranchCommand, Generation
from srbwriter.engine.infill import NO_MARKS
from srbwriter.engine.parameters import validate
from srbwriter.engine.text import Pieces
from srbwriter.engine.types import (
    BranchState,
    ContextOverflow,
    Cut,
    Done,
    EngineClosed,
    EngineError,
    EngineStats,
    Event,
    Failed,
    Finished,
    FinishReason,
    ModelInfo,
    PromptProgress,
    Request,
    Sampling,
    Stop,
    TokenLogprob,
    TokenRun,
)

WORDS = (
    "Once", " upon", " a", " time", ",", " there", " was", " cat", ".", "\n", " The", " sat", " on",
    " mat", " dog", " and", " slept", " naïve", " 🐈", " end", "<|im_start|>", "<|im_end|>", "user",
    "assistant", " It",
)  # fmt: skip
BOS, EOS, FIM_PRE, FIM_SUF, FIM_MID = (256 + len(WORDS) + k for k in range(5))
PIECES = [bytes([b]) for b in range(256)] + [word.encode() for word in WORDS] + [b""] * 5
NAMES = {BOS: b"<s>", EOS: b"</s>", FIM_PRE: b"<PRE>", FIM_SUF: b"<SUF>", FIM_MID: b"<MID>"}
STORY = " there was a cat. The cat sat on a mat.\n The dog and a naïve 🐈 slept."

Script = Callable[[str, int], str]


class FakeEngine(WithoutCache):
    """Writes ``script(prompt, branch)`` into each branch, one token a step, then ends it."""

    missing: Mapping[str, str] = WITHOUT_CACHE

    def __init__(
        self,
        script: Script = lambda prompt, branch: STORY,
        *,
        n_ctx: int = 512,
        max_branches: int = 64,
        fim: bool = False,
        chat_template: str | None = None,
    ) -> None:
        self.script = script
        self.n_ctx, self.max_branches = n_ctx, max_branches
        self.bos: int | None = BOS
        self.add_bos = True
        self.eos: int | None = EOS
        self.eog = frozenset({EOS})
        self.fim = (FIM_PRE, FIM_SUF, FIM_MID) if fim else None
        self.info = ModelInfo(
            path="/models/fake.gguf",
            name="fake",
            description="fake 1B",
            architecture="fake",
            n_params=1000,
            size=2000,
            n_vocab=len(PIECES),
            n_ctx_train=n_ctx,
            n_ctx=n_ctx,
            n_embd=8,
            vocab="fakevocab",
            chat_template=chat_template,
            metadata={"tokenizer.ggml.model": "fake"},
        )
        self.piece_table = Pieces(PIECES)
        self.submitted: list[Request] = []
        self.generations: list[Generation] = []
        self.cancelled: list[int] = []
        self.cancel_seen = threading.Event()
        self.hold: int | None = None
        self.queue = False  # requests wait until it is false and the engine is woken
        self.fail_with: Exception | None = None
        self.break_off: dict[int, EngineError] = {}  # branches that fail when they have written their script
        self._released = threading.Event()
        self._generated = 0
        self._writers: dict[tuple[int, int], ActiveBranch] = {}
        self._scripts: dict[tuple[int, int], list[int]] = {}
        self._tokenized: dict[str, list[int]] = {}
        self._commands: list[BranchCommand] = []
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    # ---- the API

    def submit(self, request: Request) -> Generation:
        def check_rules(request: Request, samplings: Sequence[Sampling], stops: Sequence[Stop]) -> None:
            for sampling in samplings:
                validate(sampling)

        Checks(len(PIECES), self.max_branches, check_rules).check_request(request)
        ids = self._assemble(request)
        if len(ids) >= self.n_ctx:
            raise ContextOverflow(len(ids), self.n_ctx)
        self.submitted.append(request)
        generation = Generation(len(self.generations) + 1, request, self._post)
        generation.prompt_ids = tuple(ids)
        for index in range(request.n):
            self._add_branch(generation, index)
        with self._wake:  # nobody writes before it has been submitted
            self.generations.append(generation)
            self._post(BranchCommand("submit", generation))
        return generation

    def stats(self) -> EngineStats:
        live = sum(branch.live for g in self.generations for branch in g.branches)
        return EngineStats(
            generated_tokens=self._generated,
            live_branches=live,
            total_cells=self.n_ctx,
            prompt_tokens=sum(len(g.prompt_ids) for g in self.generations),
        )

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        ids = [BOS] if add_bos else []
        raw = text.encode("utf-8", "replace")
        while raw:
            match = max(
                (w for w in range(256, 256 + len(WORDS)) if raw.startswith(PIECES[w])),
                key=lambda w: len(PIECES[w]),
                default=raw[0],
            )
            ids.append(match)
            raw = raw[len(PIECES[match]) :]
        return ids

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        return b"".join(PIECES[i] for i in ids).decode("utf-8", "replace")

    def tokenize_continuation(self, text: str) -> list[int]:
        return self.tokenize(text)

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        return [PIECES[token] for token in ids]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self.missing if self.fim else {**self.missing, "gap_filling": NO_MARKS})

    def token_bytes(self, token: int) -> bytes:
        return NAMES.get(token, PIECES[token])

    def token(self, text: str) -> int | None:
        ids = self.tokenize(text)
        return ids[0] if len(ids) == 1 else None

    def apply_template(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template: str | None = None,
        **kwargs: Any,
    ) -> str:
        return render(
            template,
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            bos="",
            eos="",
            **kwargs,
        )

    def close(self) -> None:
        self._closing = True
        self.release()
        with self._wake:
            self._wake.notify_all()
        self._thread.join(5)

    # ---- for tests

    def hold_again(self, tokens: int) -> None:
        """Stop branches after so many tokens, as before :meth:`release`."""
        self._released.clear()
        self.hold = tokens

    def release(self) -> None:
        """Let held branches go on."""
        self._released.set()
        with self._wake:
            self._wake.notify_all()

    # ---- the model

    def _assemble(self, request: Request) -> list[int]:
        prompt = request.prompt
        if isinstance(prompt, str):
            return self.tokenize(prompt, add_bos=request.add_bos)
        ids: list[int] = []
        for item in prompt:
            if isinstance(item, TokenRun):
                ids += item.ids if item.ids is not None else self.tokenize(item.text)
            else:
                ids.append(item)
        return ids

    def _add_branch(self, generation: Generation, index: int) -> None:
        request = generation.request
        sampling = request.sampling[index] if isinstance(request.sampling, tuple) else request.sampling
        stop = request.stop[index] if isinstance(request.stop, tuple) else request.stop
        branch = Branch(generation, index, sampling, stop, sampling.seed or index)
        generation.branches.append(branch)
        self._begin(branch)

    def _begin(self, branch: Branch) -> None:
        key = (branch.generation.number, branch.index)
        prompt = self.detokenize(branch.generation.prompt_ids)
        request = SimpleNamespace(
            generation=branch.generation, asked=branch.generation.request, ids=[], salt="",
            siblings=None, pending_text="", eog=frozenset[int](), events=list[Event](),
        )  # fmt: skip
        self._writers[key] = ActiveBranch(cast("Any", request), branch, self.piece_table)
        self._writers[key].restart_text()
        script = self.script(prompt, branch.index)
        if script not in self._tokenized:
            self._tokenized[script] = self.tokenize(script)
        self._scripts[key] = list(self._tokenized[script])
        branch.state = BranchState.WAITING if self.queue else BranchState.WRITING

    def admit(self) -> None:
        """Let waiting requests begin."""
        self.queue = False
        for generation in self.generations:
            for branch in generation.branches:
                if branch.state is BranchState.WAITING:
                    branch.state = BranchState.WRITING
        with self._wake:
            self._wake.notify_all()

    def _post(self, command: BranchCommand) -> None:
        command.generation.expect(command)
        with self._wake:
            self._commands.append(command)
            self._wake.notify_all()

    def _loop(self) -> None:
        while not self._closing:
            with self._wake:
                commands, self._commands = self._commands, []
                if not commands and not self._runnable():
                    self._wake.wait()
                    continue
                known = list(self.generations)
            events: dict[int, list[Event]] = {}
            for command in commands:
                events.setdefault(command.generation.number, []).extend(self._obey(command))
                command.generation.arrived(command)
            for generation in known:
                news = events.get(generation.number, [])
                for branch in generation.branches:
                    if self._may_write(branch):
                        news += self._step(branch)
                obeyed = generation.number in events
                if (news or obeyed) and not any(branch.live for branch in generation.branches):
                    written = sum(len(branch.ids) for branch in generation.branches)
                    if not any(isinstance(event, Failed) for event in news):
                        news.append(Done(len(generation.prompt_ids), generation.cached_tokens, written))
                generation.publish(news)
        for generation in self.generations:  # readers are told, as they are by the engine
            if not generation.done:
                generation.abandon(EngineClosed("the engine was closed"))

    def _runnable(self) -> bool:
        return any(self._may_write(branch) for g in self.generations for branch in g.branches)

    def _may_write(self, branch: Branch) -> bool:
        held = self.hold is not None and len(branch.ids) >= self.hold and not self._released.is_set()
        return branch.state is BranchState.WRITING and not held

    def _obey(self, command: BranchCommand) -> list[Event]:
        generation = command.generation
        if command.verb == "submit":
            generation.prompt_done = len(generation.prompt_ids)
            if self.fail_with is not None:
                for branch in generation.branches:
                    branch.state = BranchState.FAILED
                return [Failed(self.fail_with)]  # type: ignore[arg-type]
            if self.queue:
                return []
            events: list[Event] = [PromptProgress(generation.prompt_done, generation.prompt_done, 0)]
            if generation.request.prompt_logprobs is not None:
                generation.prompt_logprobs = [
                    self._logprob(t, generation.request.prompt_logprobs) for t in generation.prompt_ids[1:]
                ]
            asked = generation.request
            if asked.next_logprobs is not None or asked.next_ids:
                best = [(97 + k, -1.0 - k) for k in range(asked.next_logprobs or 0)]
                others = [(t, -50.0 - t) for t in asked.next_ids if t not in dict(best)]
                generation.next_logprobs = (*best, *others)
            return events
        if command.verb == "cancel":
            self.cancelled.append(generation.number)
            self.cancel_seen.set()
            return [e for b in generation.branches if b.live for e in self._finish(b, FinishReason.STOPPED)]
        if command.verb == "add_branch":
            n, samplings, stops, *_ = command.args
            first = len(generation.branches)
            for k in range(n):
                sampling = samplings[k] if isinstance(samplings, tuple) else samplings
                stop = stops[k] if isinstance(stops, tuple) else stops
                self._add_extra(generation, first + k, sampling, stop)
            from srbwriter.engine.types import Added

            return [Added(index) for index in range(first, first + n)]
        return self._verb(generation.branches[command.branch], command)

    def _add_extra(
        self, generation: Generation, index: int, sampling: Sampling | None, stop: Stop | None
    ) -> None:
        like = generation.branches[0]
        branch = Branch(generation, index, sampling or like.sampling, stop or like.stop_rule, index)
        generation.branches.append(branch)
        self._begin(branch)

    def _verb(self, branch: Branch, command: BranchCommand) -> list[Event]:
        match command.verb:
            case "stop" if branch.live:
                return self._finish(branch, FinishReason.STOPPED)
            case "kill" if branch.live:
                return self._finish(branch, FinishReason.KILLED)
            case "reroll":
                seed, sampling, stop, *_ = command.args
                branch.seed = seed if seed is not None else branch.seed + 1000
                branch.sampling, branch.stop_rule = sampling or branch.sampling, stop or branch.stop_rule
                branch.buffer = type(branch.buffer)(branch.buffer.revision + 1)
                self._begin(branch)
                return [Cut(branch.index, 0, 0)]
            case "rewind":
                text = branch.text
                tokens, chars, _, _ = command.args
                keep = len(text) - (
                    chars if chars is not None else len(self.detokenize(branch.ids[-tokens:]))
                )
                old = branch.buffer
                branch.buffer = type(old)(old.revision + 1, [text[:keep]], self.tokenize(text[:keep]))
                self._begin(branch)
                return [Cut(branch.index, keep, len(branch.ids))]
            case "extend":
                (stop,) = command.args
                more = stop if isinstance(stop, Stop) else replace(branch.stop_rule, max_tokens=None)
                branch.stop_rule = more
                if not branch.live:
                    self._begin(branch)
                return []
            case "pause" if branch.live:
                branch.state = BranchState.PAUSED
            case "resume" if branch.state is BranchState.PAUSED:
                branch.state = BranchState.WRITING
            case "change":
                sampling, stop = command.args
                branch.sampling, branch.stop_rule = sampling or branch.sampling, stop or branch.stop_rule
            case _:
                pass
        return []

    def _step(self, branch: Branch) -> list[Event]:
        key = (branch.generation.number, branch.index)
        script, stop = self._scripts[key], branch.stop_rule
        if stop.max_tokens == 0:
            return self._finish(branch, FinishReason.LENGTH)
        if not script and branch.index in self.break_off:
            error = self.break_off[branch.index]
            branch.state, branch.finish_reason, branch.error = BranchState.FAILED, FinishReason.ERROR, error
            failed: list[Event] = [
                Finished(branch.index, FinishReason.ERROR, len(branch.ids), problem=str(error))
            ]
            over = all(b.state is BranchState.FAILED for b in branch.generation.branches)
            return [*failed, Failed(error)] if over else failed
        writer = self._writers[key]
        if not script:
            writer.flush()
            return [*self._news(writer), *self._finish(branch, FinishReason.EOG)]
        token = script.pop(0)
        self._generated += 1
        wanted = branch.generation.request.logprobs
        known = None if wanted is None else self._logprob(token, wanted)
        verdict = writer.receive(token, known, 0.0, lambda: cast("Any", None))
        if isinstance(verdict, Ending):
            return [*self._news(writer), *self._finish(branch, verdict.reason, verdict.stop_text)]
        return self._news(writer)

    def _news(self, writer: ActiveBranch) -> list[Event]:
        events, writer.request.events = writer.request.events, []
        return events

    def _finish(self, branch: Branch, reason: FinishReason, stop_text: str | None = None) -> list[Event]:
        branch.state, branch.finish_reason, branch.stop_text = BranchState.DONE, reason, stop_text
        return [Finished(branch.index, reason, len(branch.ids), stop_text)]

    def _logprob(self, token: int, k: int) -> TokenLogprob:
        best = ((token, -0.5), *((t, -1.0 - t / 100) for t in range(97, 97 + k)))
        return (
            TokenLogprob(token, -0.5, best[:k] if k else ()) if token != 0 else TokenLogprob(token, -math.inf)
        )
