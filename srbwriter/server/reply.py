"""Replies of every dialect: their common parts, and the frames of a stream.

Finish reasons, token counts and timings; tokens as text, log-probabilities in the shapes that clients read,
and llama.cpp's final object of a branch. A stream's batch of events is sorted by branch here, and a dialect
overrides the frames: before a branch's first piece, for a piece, at its end, and while a prompt is evaluated.
Branches are numbered through all prompts of a request.
"""

from __future__ import annotations

import codecs
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.parameters import PARAMETERS
from srbwriter.engine.types import Finished, FinishReason, PromptProgress, Sampling, Stop, Text, TokenLogprob
from srbwriter.server.body import Params, default_order
from srbwriter.server.errors import LLAMACPP, ApiError, Dialect
from srbwriter.server.registry import Record
from srbwriter.server.services import Services
from srbwriter.server.streams import EVENTS, PING, News, waiting_comment
from srbwriter.server.work import encode

_BY_LIMIT = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT})
_BY_ITSELF = frozenset(
    {FinishReason.EOG, FinishReason.STOP, FinishReason.LINE, FinishReason.SENTENCE, FinishReason.PARAGRAPH}
)


def finish_reason(reason: FinishReason | None) -> str:
    """Return ``stop`` or ``length``; ``error`` for a choice that failed while others did not."""
    if reason is FinishReason.ERROR:
        return "error"
    return "length" if reason in _BY_LIMIT else "stop"


def stop_type(reason: FinishReason | None, stop_text: str | None) -> str:
    """Return llama.cpp's ``word``, ``limit``, ``eos`` or ``none``; ``word`` only with a stop text.

    A complete grammar, a stop token, and the end of a line, sentence or paragraph are ``eos``.
    """
    if reason in _BY_LIMIT:
        return "limit"
    if reason in _BY_ITSELF:
        return "word" if stop_text else "eos"
    return "none"


def problem(branch: Branch) -> dict[str, str]:
    """Return the ``error`` member of a choice that failed: the reason as text."""
    return {} if branch.error is None else {"error": branch.error.words}


def usage(record: Record) -> dict[str, Any]:
    """Return OpenAI's ``usage``: tokens of all prompts, each once, and of all branches."""
    return {
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.written,
        "total_tokens": record.prompt_tokens + record.written,
        "prompt_tokens_details": {"cached_tokens": record.cached_tokens},
    }


def timings(
    generation: Generation, branch: Branch, now: float = 0.0, read: int | None = None
) -> dict[str, Any]:
    """Return llama.cpp's ``timings``.

    The rate of writing leaves out the first token: the prompt took its time.

    While a prompt is evaluated ``read`` is the number of its tokens in the cache, and ``now`` the start of
    that in seconds of time.monotonic.
    """
    prompt = (len(generation.prompt_ids) if read is None else read) - generation.cached_tokens
    begun = (branch.started_at if read is None else now) or generation.submitted_at
    prompt_ms = max(0.0, (begun - generation.submitted_at) * 1000)
    written = len(branch.buffer.ids) if read is None else 0
    predicted_ms = max(0.0, (branch.changed_at - begun) * 1000) if written > 1 else 0.0
    return {
        "cache_n": generation.cached_tokens,
        "prompt_n": max(prompt, 0),
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": ratio(prompt_ms, prompt),
        "prompt_per_second": ratio(prompt * 1000, prompt_ms),
        "predicted_n": written,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": ratio(predicted_ms, written - 1),
        "predicted_per_second": ratio((written - 1) * 1000, predicted_ms),
    }


def progress(generation: Generation, event: PromptProgress, now: float) -> dict[str, Any]:
    """``prompt_progress`` and ``timings`` of a frame that reports how much of the prompt is evaluated."""
    begun = now if event.done > event.cached else generation.submitted_at  # nothing takes no time
    return {
        "prompt_progress": {
            "total": event.total,
            "cache": event.cached,
            "processed": event.done,
            "time_ms": (begun - generation.submitted_at) * 1000,
        },
        "timings": timings(generation, generation.branches[0], begun, event.done),
    }


def ratio(a: float, b: float) -> float:
    """``a / b``, or 0 where either is nothing yet."""
    return a / b if a > 0 and b > 0 else 0.0


def settings_object(
    engine: Backend, params: Params, seed: int | None = None, stream: bool = False
) -> dict[str, Any]:
    """``generation_settings`` in the names that llama.cpp gives them; every number finite.

    Sent back as a request, it asks for the same text.
    """
    request = params.request
    sampling, stop = cast("Sampling", request.sampling), cast("Stop", request.stop)
    n_predict = -1 if stop.max_tokens is None else stop.max_tokens
    order = default_order(sampling.infill) if sampling.samplers is None else sampling.samplers
    biases = {token: None if math.isinf(bias) else bias for token, bias in sampling.logit_bias}
    if stop.ignore_eog:
        biases |= dict.fromkeys(sorted(engine.eog))
    return {
        **{name: getattr(sampling, name) for name in _NUMBERS},
        "seed": seed if seed is not None else (sampling.seed if sampling.seed is not None else 2**32 - 1),
        "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        "banned_phrases": list(sampling.banned_phrases),
        "samplers": list(order),
        "logit_bias": [{"bias": bias, "token": token} for token, bias in biases.items()],
        "grammar": sampling.grammar or "",
        "json_schema": sampling.json_schema or "",
        "stop": list(stop.strings),
        "max_tokens": n_predict,
        "n_predict": n_predict,
        "min_tokens": stop.min_tokens,
        "n_keep": request.n_keep,
        "n_discard": 0,
        "ignore_eos": stop.ignore_eog,
        "stream": stream,
        "n_probs": request.logprobs or 0,
        "post_sampling_probs": params.post_sampling_probs,
        "timings_per_token": params.timings_per_token,
    }


_NUMBERS = [
    row.field
    for row in PARAMETERS
    if row.record == "sampling" and row.kind in ("int", "float") and row.name != "seed"
]


def prompt_text(engine: Backend, generation: Generation) -> str:
    """The prompt as it was evaluated, control tokens written out."""
    return b"".join(map(engine.token_bytes, generation.prompt_ids)).decode("utf-8", "replace")


def final_object(
    services: Services, record: Record, branch: Branch, params: Params, index: int, prompt: str = "",
    *, tokens: bool = False, stream: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """llama.cpp's last object of a branch; in a stream it has no content. ``tokens``: with their ids.

    ``prompt``: its text, if that is known already.
    """
    engine, generation = services.engine, branch.generation
    kind = stop_type(branch.finish_reason, branch.stop_text)
    written = len(branch.buffer.ids)
    return {
        "index": index,
        "content": "" if stream else branch.text,
        "tokens": list(branch.ids) if tokens and not stream else [],
        "id_slot": record.slot(index),
        "stop": True,
        "model": services.model_name,
        "tokens_predicted": written,
        "tokens_evaluated": len(generation.prompt_ids),
        "generation_settings": settings_object(engine, params, branch.seed, stream),
        "prompt": prompt or prompt_text(engine, generation),
        "has_new_line": any("\n" in piece for piece in branch.buffer.pieces),
        "truncated": generation.truncated,
        "stop_type": kind,
        "stopping_word": branch.stop_text or "",
        **problem(branch),
        "stopped_eos": kind == "eos",
        "stopped_limit": kind == "limit",
        "stopped_word": kind == "word",
        "tokens_cached": len(generation.prompt_ids) + written,
        "timings": timings(generation, branch),
    }


class Written(NamedTuple):
    """One token of a branch whose text is published."""

    id: int  # -1 for text that no token stands for: the rest of one that a stop string cut
    text: str  # what it added; "" while a character is incomplete
    start: int  # characters before it in the branch
    logprob: TokenLogprob | None


class Tokens:
    """Pairs the ids of one branch with the text that was published for them."""

    def __init__(self, engine: Backend, hidden: int = 0) -> None:
        """``hidden`` characters of the first tokens end the prompt already (token healing)."""
        self._engine = engine
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[tuple[int, str, int, TokenLogprob | None]] = []
        self._decoded = 0
        self._published = 0
        self._covered = 0  # characters that tokens given out so far stand for

    def feed(
        self, text: str, ids: Sequence[int], logprobs: Sequence[TokenLogprob], last: bool = False
    ) -> list[Written]:
        """Tokens whose text is out now. ``last``: what a stop string cut off will never come."""
        for position, token in enumerate(ids):
            piece = self._decoder.decode(_piece(self._engine, token))
            hidden = min(self._hidden, len(piece))
            self._hidden -= hidden
            piece = piece[hidden:]
            logprob = logprobs[position] if position < len(logprobs) else None
            self._waiting.append((token, piece, self._decoded, logprob))
            self._decoded += len(piece)
        self._published += len(text)
        ready: list[Written] = []
        while self._waiting:
            token, piece, start, logprob = self._waiting[0]
            if start + len(piece) > self._published and not last:
                break
            del self._waiting[0]
            if start < self._published or not piece:
                ready.append(Written(token, piece[: self._published - start], start, logprob))
        if ready:
            self._covered = ready[-1].start + len(ready[-1].text)
        rest = self._published - self._covered
        if last and rest > 0:
            ready.append(Written(-1, text[-rest:], self._covered, None))
        return ready


def branch_tokens(engine: Backend, branch: Branch) -> list[Written]:
    """The tokens of an ended branch; their texts join to its text."""
    return Tokens(engine, branch.overlap).feed(branch.text, branch.ids, branch.logprobs, last=True)


def token_text(engine: Backend, token: int) -> str:
    return engine.token_bytes(token).decode("utf-8", "replace")


def token_object(engine: Backend, token: int) -> dict[str, Any]:
    """Return a token's id, text and bytes; the bytes show a part of a character."""
    raw = engine.token_bytes(token)
    return {"id": token, "text": raw.decode("utf-8", "replace"), "bytes": list(raw)}


def prompt_tokens(engine: Backend, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> list[Written]:
    """The tokens of a prompt; the first has no logprob, and the beginning token no text."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    written: list[Written] = []
    position = 0
    for number, token in enumerate(ids):
        hidden = number == 0 and token == engine.bos
        piece = "" if hidden else decoder.decode(_piece(engine, token))
        known = logprobs[number - 1] if 0 < number <= len(logprobs) else None
        written.append(Written(token, piece, position, known))
        position += len(piece)
    return written


def _piece(engine: Backend, token: int) -> bytes:
    """Return the bytes that a token adds to the text: none for a control token."""
    return engine.token_bytes(token) if engine.detokenize((token,)) else b""


def legacy_logprobs(engine: Backend, tokens: Sequence[Written], offset: int = 0) -> dict[str, Any]:
    """``tokens``, ``token_logprobs``, ``top_logprobs``, ``text_offset``; and ``content`` beside them."""
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob and finite(token.logprob.logprob) for token in tokens],
        "top_logprobs": [token.logprob and _top(engine, token.text, token.logprob) for token in tokens],
        "text_offset": [offset + token.start for token in tokens],
        "content": content_logprobs(engine, [token for token in tokens if token.logprob is not None]),
    }


def content_logprobs(engine: Backend, tokens: Sequence[Written]) -> list[dict[str, Any]]:
    """The list that chat answers carry."""
    return [
        {
            **entry(engine, token.id, logprob=finite(token.logprob.logprob)),
            "top_logprobs": [entry(engine, id, logprob=finite(known)) for id, known in token.logprob.top],
        }
        for token in tokens
        if token.logprob is not None
    ]


def finite(logprob: float) -> float:
    """Minus infinity, which JSON cannot write, as vLLM writes it."""
    return max(logprob, -9999.0)


def _top(engine: Backend, text: str, known: TokenLogprob) -> Mapping[str, float]:
    best = {token_text(engine, id): finite(logprob) for id, logprob in reversed(known.top)}
    best = dict(reversed(best.items()))
    best.setdefault(text or token_text(engine, known.id), finite(known.logprob))
    return best


def entry(engine: Backend, id: int, **known: float) -> dict[str, Any]:
    """Return a token's id, text and bytes, with its probability under the names of ``known``."""
    return {"id": id, "token": token_text(engine, id), "bytes": list(engine.token_bytes(id)), **known}


# ---- streams


def frame(value: Mapping[str, Any]) -> str:
    """One event of a stream that has no other fields than data."""
    return f"data: {encode(value).decode()}\n\n"


class Piece(NamedTuple):
    """New text of a branch. The text may be empty while a character is incomplete."""

    text: str
    tokens: Sequence[Written]  # where logprobs were asked for
    ids: Sequence[int]


class BranchReply:
    """The answer to one record, branch by branch; a dialect overrides its form."""

    dialect: Dialect = LLAMACPP
    headers: Mapping[str, str] = {"content-type": EVENTS}
    ping: bytes = PING

    def __init__(self, services: Services, params: Params) -> None:
        self._services, self._engine, self._params = services, services.engine, params
        self._tokens: dict[int, Tokens] = {}
        self._begun: set[int] = set()

    @property
    def stream(self) -> bool:
        return self._params.stream

    def begin(self, record: Record) -> None:
        self._record = record

    def whole(self) -> Any:
        raise NotImplementedError

    def batch(self, news: News) -> bytes:
        out: list[str] = []
        texts: dict[int, Text] = {}  # the last of each branch: with the end, if that is among the news too
        for number, event in news:
            if isinstance(event, Text):
                index = self._index(number, event.branch)
                if index in texts:
                    self._branch(out, index, texts[index], None)
                texts[index] = event
            elif isinstance(event, Finished):
                index = self._index(number, event.branch)
                self._branch(out, index, texts.pop(index, None), event)
            elif isinstance(event, PromptProgress) and self._params.return_progress:
                out.append(self._reading(number, self._progress(number, event)))
        for index, text in texts.items():
            self._branch(out, index, text, None)
        return "".join(out).encode()

    def waiting(self, place: int) -> bytes:
        if not self._params.return_progress:
            return waiting_comment(place)
        progress = self._progress(0, PromptProgress(0, len(self._record.generation.prompt_ids), 0))
        progress["prompt_progress"]["queue"] = place
        return self._reading(0, progress).encode()

    def end(self) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return b"data: " + encode(self.dialect.body(error)) + b"\n\n"

    def _index(self, number: int, branch: int) -> int:
        return number * self._params.n + branch

    def _of(self, index: int) -> tuple[Generation, Branch]:
        number, branch = divmod(index, self._params.n)
        generation = self._record.generations[number]
        return generation, generation.branches[branch]

    def _progress(self, number: int, event: PromptProgress) -> dict[str, Any]:
        return progress(self._record.generations[number], event, time.monotonic())

    def _branch(self, out: list[str], index: int, event: Text | None, last: Finished | None) -> None:
        text, ids = ("", ()) if event is None else (event.text, event.ids)
        tokens: Sequence[Written] = ()
        if self._params.logprobs is not None:
            pairs = self._tokens.get(index)
            if pairs is None:
                pairs = self._tokens[index] = Tokens(self._engine, self._of(index)[1].overlap)
            tokens = pairs.feed(text, ids, () if event is None else event.logprobs, last is not None)
        if index not in self._begun and (text or last is not None):
            self._begun.add(index)
            self._begin(out, index)
        if text or tokens or ids:
            self._piece(out, index, Piece(text, tokens, ids))
        if last is not None:
            self._finish(out, index, last)

    # ---- a dialect's own

    def _reading(self, number: int, extra: dict[str, Any]) -> str:
        """Return a frame with the progress of a prompt."""
        return ""

    def _begin(self, out: list[str], index: int) -> None:
        """Frames before the first of a branch."""

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        """Frames for what a branch wrote."""
        raise NotImplementedError

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        """Frames at a branch's end."""
