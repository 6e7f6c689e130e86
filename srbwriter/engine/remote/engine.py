"""A :class:`~srbwriter.engine.backend.Backend` whose model runs on a server.

One thread with an event loop talks to the server and is the only one that writes into branches
(:mod:`.runner`); every public method may be called from any thread but that one.
"""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..backend import WithoutCache
from ..generation import Command, Generation
from ..prompt import assemble, token_ids
from ..seeds import derive_seed
from ..steering import take_up
from ..types import BranchState, EngineStats, InvalidRequest, ModelInfo, Request, for_each
from ..window import fit
from .branch import SEEDS, RemoteRequest
from .options import RemoteOptions, shown
from .runner import RemoteRunner
from .vocabulary import PIECES, LetterVocabulary

log = logging.getLogger(__name__)


class RemoteEngine(LetterVocabulary, WithoutCache):
    """A connection. Make one with :meth:`connect`."""

    def __init__(self, runner: RemoteRunner) -> None:
        self.options, self.profile, self._runner = runner.options, runner.connection.profile, runner
        self.capabilities, self.n_ctx = runner.checks.capabilities, self.profile.info.n_ctx
        self.max_branches = runner.options.max_branches
        self._numbers, self._drawn = itertools.count(1), itertools.count()
        seed = self.options.seed
        self._seed = seed if seed is not None else int.from_bytes(os.urandom(4), "little")
        dropped = weakref.finalize(self, runner.drop)
        dropped.atexit = False  # the end of the program closes what still runs

    # ---- life

    @classmethod
    def connect(
        cls, options: RemoteOptions, on_progress: Callable[[float], bool] | None = None
    ) -> RemoteEngine:  # fmt: skip
        """Connect, and find out which program the server is; ``on_progress`` cancels by returning False.

        Raises RemoteError for a server that does not answer as one, InvalidRequest for an invalid address,
        Cancelled.
        """
        if not options.url:
            raise InvalidRequest("connect", "there is no address")
        runner = RemoteRunner(options)
        runner.connect(on_progress)
        engine = cls(runner)
        for line in engine.profile.lines():
            log.info("%s", line)
        return engine

    def close(self, timeout: float = 5.0) -> None:
        """End every request and the connections. A second call does nothing.

        An engine without references finishes its running requests and is closed then.
        """
        self._runner.close(timeout)

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- who is there

    @property
    def info(self) -> ModelInfo:
        return replace(self.profile.info, device=shown(self.options.url))

    def stand_back(self) -> None:
        """No-op: nothing is evaluated on this machine."""

    # ---- work

    def submit(self, request: Request) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded, NotSupported for what the other side cannot do, ContextOverflow.
        """
        self._runner.check_open()
        self._runner.checks.check_request(request)
        if request.penalty_prompt is not None:
            asked = token_ids(self, "penalty_prompt", request.penalty_prompt, request.parse_special)
            request = replace(request, penalty_prompt=asked)
        # They begin an empty text by themselves.
        ids = assemble(self, replace(request, heal=False))[0] if request.prompt else list[int]()
        fitted = tuple(fit(ids, request, self.n_ctx))
        generation = Generation(next(self._numbers), request, self._runner.post)
        generation.prompt_ids = fitted
        generation.truncated = len(fitted) != len(ids)
        generation.engine_state = self._make_request(generation)
        self._runner.generations.add(generation)
        self._runner.post(Command("submit", generation))
        return generation

    def _make_request(self, generation: Generation) -> RemoteRequest:
        asked = generation.request
        request = RemoteRequest(generation)
        samplings, stops = for_each(asked.sampling, asked.n), for_each(asked.stop, asked.n)
        base = samplings[0].seed
        if base is None:
            base = derive_seed(self._seed, next(self._drawn)) % (SEEDS >> 1)
        for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
            own = sampling.seed if isinstance(asked.sampling, tuple) else None
            seed = own if own is not None else base + index  # neighbours can share a request
            seed = request.seed(seed, base, index)
            writer = request.add_branch(sampling, stop, seed, PIECES)
            if index < len(asked.takes):
                take_up(writer, asked.takes[index], self)
            else:
                self.check_ids(asked.begin)
                writer.begin(asked.begin, (), PIECES)
        return request

    def stats(self) -> EngineStats:
        """Return the counters; of the server, what its answers say."""
        upstream = self._runner.upstream
        requests = [[each.branch for each in request.branches] for request in list(upstream.active)]
        live = [branches for branches in requests if any(branch.live for branch in branches)]
        begun = [any(branch.state is not BranchState.WAITING for branch in branches) for branches in live]
        return EngineStats(
            prompt_tokens=upstream.prompt_tokens,
            generated_tokens=upstream.generated,
            total_cells=self.n_ctx,
            live_branches=sum(branch.live for branches in live for branch in branches),
            running_requests=sum(begun),
            waiting_requests=len(begun) - sum(begun),
        )

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, template: str | None = None, **options: Any
    ) -> str:
        """Return one prompt: by the template given, by the server with its own, or here with that.

        ``options`` are those of :func:`.chat.render`. Raises InvalidRequest for messages that do not fit
        together, and RemoteError.
        """
        if template is None and messages and self.profile.template:
            found = self._runner.ask(lambda dialect: dialect.template(messages, **options))
            if found is not None:
                return found
        from ..chat import render  # brings Jinja along

        return render(template or self.info.chat_template or None, messages, bos="", eos="", **options)
