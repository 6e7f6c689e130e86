"""Answers of every dialect: their common parts, and the order of the frames of a stream.

Finish reasons, token counts and timings; tokens as text, log-probabilities in the shapes that clients read,
and llama.cpp's final object of a branch. A dialect's class says what its whole answer is and how its chunks
look. Branches are numbered through all prompts of a request.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.parameters import DEFAULT_ORDER, PARAMETERS
from srbwriter.engine.types import Finished, FinishReason, Request, Sampling, Stop, Text, TokenLogprob

from .body import Body
from .errors import ApiError, llamacpp_error
from .registry import RequestRecord
from .run import News, Services

JSON = "application/json; charset=utf-8"
EVENTS = "text/event-stream; charset=utf-8"
PING = b": ping\n\n"

encode = msgspec.json.Encoder().encode
"""Return compact JSON. What is not finite becomes null."""


def frame(value: Any) -> str:
    """Return one event of a stream that has no other fields than data."""
    return f"data: {encode(value).decode()}\n\n"


# ---- what an answer says of a branch

_BY_LIMIT = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT})
NATURAL = frozenset({FinishReason.STOP, FinishReason.LINE, FinishReason.SENTENCE, FinishReason.PARAGRAPH})
"""Reasons of a stop rule."""


def finish_reason(reason: FinishReason | None) -> str:
    """Return ``stop`` or ``length``; ``error`` for a choice that failed while others did not."""
    if reason is FinishReason.ERROR:
        return "error"
    return "length" if reason in _BY_LIMIT else "stop"


def problem(branch: Branch) -> dict[str, str]:
    """Return the ``error`` member of a choice that failed: the reason as text."""
    return {} if branch.error is None else {"error": branch.error.words}


def seed_note(request: Request) -> dict[str, bool]:
    """Return what an answer says about its seed, if the request had one: that it does not settle the text.

    The numbers of a token depend, in their last digits, on the batch and on where the cache keeps the prompt.
    """
    sampling = request.sampling[0] if isinstance(request.sampling, tuple) else request.sampling
    return {} if sampling.seed is None else {"deterministic": False}


def ratio(a: float, b: float) -> float:
    """Return ``a / b``, or 0 where either is nothing yet."""
    return a / b if a > 0 and b > 0 else 0.0


def timings(generation: Generation, branch: Branch) -> dict[str, Any]:
    """Return llama.cpp's ``timings``. The rate of writing leaves out the first token: it is the prompt's."""
    prompt = max(len(generation.prompt_ids) - generation.cached_tokens, 0)
    begun = branch.started_at or generation.submitted_at
    prompt_ms = max(0.0, (begun - generation.submitted_at) * 1000)
    written = len(branch.ids)
    predicted_ms = max(0.0, (branch.changed_at - begun) * 1000) if written > 1 else 0.0
    return {
        "cache_n": generation.cached_tokens,
        "prompt_n": prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": ratio(prompt_ms, prompt),
        "prompt_per_second": ratio(prompt * 1000, prompt_ms),
        "predicted_n": written,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": ratio(predicted_ms, written - 1),
        "predicted_per_second": ratio((written - 1) * 1000, predicted_ms),
    }


_NUMBERS = [
    row.field
    for row in PARAMETERS
    if row.record == "sampling" and row.kind in ("int", "float") and row.name != "seed"
]
SWITCHES = ("stream", "post_sampling_probs", "timings_per_token")
"""Fields about the answer that every dialect has."""


def settings_object(
    engine: Backend, request: Request, switches: Mapping[str, bool], seed: int | None = None
) -> dict[str, Any]:
    """Return ``generation_settings`` in the names that llama.cpp gives them; every number finite.

    Sent back as a request, it asks for the same text.
    """
    sampling, stop = cast("Sampling", request.sampling), cast("Stop", request.stop)
    n_predict = -1 if stop.max_tokens is None else stop.max_tokens
    order = DEFAULT_ORDER if sampling.samplers is None else sampling.samplers
    biases = {token: None if math.isinf(bias) else bias for token, bias in sampling.logit_bias}
    if stop.ignore_eog:
        biases |= dict.fromkeys(sorted(engine.eog))
    seed = sampling.seed if seed is None else seed
    return {
        **{name: getattr(sampling, name) for name in _NUMBERS},
        "seed": 2**32 - 1 if seed is None else seed,
        "dry_sequence_breakers": sampling.dry_sequence_breakers,
        "banned_phrases": sampling.banned_phrases,
        "samplers": order,
        "logit_bias": [{"bias": bias, "token": token} for token, bias in biases.items()],
        "grammar": sampling.grammar or "",
        "json_schema": sampling.json_schema or "",
        "stop": stop.strings,
        "max_tokens": n_predict,
        "n_predict": n_predict,
        "min_tokens": stop.min_tokens,
        "n_keep": request.n_keep,
        "n_discard": 0,
        "ignore_eos": stop.ignore_eog,
        "n_probs": request.logprobs or 0,
        **{name: switches.get(name, False) for name in SWITCHES},
    }


# ---- tokens


class Written(NamedTuple):
    """One token of a branch whose text is published."""

    id: int  # -1 for text that no token stands for: the rest of one that a stop string cut
    text: str  # what it added; "" while a character is incomplete
    start: int  # characters before it in the branch
    logprob: TokenLogprob | None


class TokenTexts:
    """Pairs the ids of one branch with the text that was published for them."""

    def __init__(self, engine: Backend, hidden: int = 0) -> None:
        """``hidden`` characters of the first tokens end the prompt already (token healing)."""
        self._engine, self._hidden = engine, hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[tuple[int, str, int, TokenLogprob | None]] = []
        self._decoded = self._published = 0
        self._covered = 0  # characters that tokens given out so far stand for

    def feed(
        self, text: str, ids: Sequence[int], logprobs: Sequence[TokenLogprob], last: bool = False
    ) -> list[Written]:
        """Return tokens whose text is out now. ``last``: what a stop string cut off will never come."""
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
    """Return the tokens of an ended branch; their texts join to its text."""
    return TokenTexts(engine, branch.overlap).feed(branch.text, branch.ids, branch.logprobs, last=True)


def prompt_tokens(engine: Backend, ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> list[Written]:
    """Return the tokens of a prompt but for the beginning token; without that the first has no logprob."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    written: list[Written] = []
    position = 0
    for number, token in enumerate(ids):
        if number == 0 and token == engine.bos:
            continue
        piece = decoder.decode(_piece(engine, token))
        known = logprobs[number - 1] if 0 < number <= len(logprobs) else None
        written.append(Written(token, piece, position, known))
        position += len(piece)
    return written


def _piece(engine: Backend, token: int) -> bytes:
    """Return the bytes that a token adds to the text: none for a control token."""
    return engine.token_bytes(token) if engine.detokenize((token,)) else b""


def token_text(engine: Backend, token: int | None) -> str:
    return "" if token is None else engine.token_bytes(token).decode("utf-8", "replace")


def token_object(engine: Backend, token: int, name: str = "text", **known: float) -> dict[str, Any]:
    """Return a token's id, text and bytes, which show a part of a character; ``known`` are more fields."""
    raw = engine.token_bytes(token)
    return {"id": token, name: raw.decode("utf-8", "replace"), "bytes": list(raw), **known}


def finite(logprob: float) -> float:
    """Return a log-probability, minus infinity, which JSON cannot write, as vLLM writes it."""
    return max(logprob, -9999.0)


# ---- an answer


class Answer:
    """The answer to one request, whole or as a stream. A dialect overrides its form.

    ``stream`` says which of the two the client requested, ``headers`` are those of a stream, and ``ping``
    keeps a silent one open.
    """

    headers: Mapping[str, str] = {"content-type": EVENTS}
    ping: bytes = PING
    error_body = staticmethod(llamacpp_error)
    record: RequestRecord

    def __init__(self, body: Body, services: Services, request: Request) -> None:
        """``request`` is one of those that are answered; all have as many branches."""
        self.services, self.engine, self.request, self.n = services, services.engine, request, request.n
        self.switches = {name: body.flag(name) for name in SWITCHES}
        self.stream = self.switches["stream"]
        self._tokens: dict[int, TokenTexts] = {}
        self._begun: set[int] = set()

    # ---- a dialect's own

    def begin(self, record: RequestRecord) -> None:
        """Take the record to answer; called once, before anything else."""
        self.record = record

    def answer(self) -> Any:
        """Return the JSON value of the whole answer, after every branch has ended."""
        raise NotImplementedError

    def first(self, index: int) -> str:
        """Return frames before the first of a branch."""
        return ""

    def chunk(self, index: int, text: str, tokens: Sequence[Written], ids: Sequence[int]) -> str:
        """Return frames for new text of a branch, which may be empty while a character is incomplete.

        ``tokens`` are there where log-probabilities were requested.
        """
        raise NotImplementedError

    def last(self, index: int, event: Finished) -> str:
        """Return frames for a branch's end."""
        return ""

    def end(self) -> bytes:
        """Return frames after the last event."""
        return b""

    def error(self, error: ApiError) -> bytes:
        """Return the frame that ends a stream which had begun well."""
        return frame(self.error_body(error)).encode()

    # ---- the order of frames

    def frames(self, news: News) -> bytes:
        """Return the frames of a batch of events, possibly none."""
        out: list[str] = []
        texts: dict[int, Text] = {}  # the last of each branch: with the end, if that is among the news too
        for number, event in news:
            if isinstance(event, Text):
                index = number * self.n + event.branch
                if index in texts:
                    out += self._branch(index, texts[index], None)
                texts[index] = event
            elif isinstance(event, Finished):
                if self.record.broken_off is not None and event.reason is FinishReason.STOPPED:
                    continue  # by no client: the error that follows says so
                index = number * self.n + event.branch
                out += self._branch(index, texts.pop(index, None), event)
        for index, text in texts.items():
            out += self._branch(index, text, None)
        return "".join(out).encode()

    def of(self, index: int) -> tuple[Generation, Branch]:
        """Return the branch of a number, and its generation."""
        number, branch = divmod(index, self.n)
        generation = self.record.generations[number]
        return generation, generation.branches[branch]

    def _branch(self, index: int, event: Text | None, last: Finished | None) -> Iterator[str]:
        text, ids = ("", ()) if event is None else (event.text, event.ids)
        tokens: Sequence[Written] = ()
        if self.request.logprobs is not None:
            pairs = self._tokens.setdefault(index, TokenTexts(self.engine, self.of(index)[1].overlap))
            tokens = pairs.feed(text, ids, () if event is None else event.logprobs, last is not None)
        if index not in self._begun and (text or last is not None):
            self._begun.add(index)
            yield self.first(index)
        if text or tokens or ids:
            yield self.chunk(index, text, tokens, ids)
        if last is not None:
            yield self.last(index, last)

    # ---- parts that several dialects have

    def content(self, tokens: Sequence[Written]) -> list[dict[str, Any]]:
        """Return the log-probabilities that chat answers carry."""
        return [
            {
                **token_object(self.engine, token.id, "token", logprob=finite(token.logprob.logprob)),
                "top_logprobs": [
                    token_object(self.engine, id, "token", logprob=finite(p)) for id, p in token.logprob.top
                ],
            }
            for token in tokens
            if token.logprob is not None
        ]

    def legacy_logprobs(self, tokens: Sequence[Written], offset: int = 0) -> dict[str, Any]:
        """Return the log-probabilities of completions, with those of chats as ``content`` beside them.

        ``offset`` characters precede the branch.
        """

        def top(token: Written) -> dict[str, float] | None:
            if (known := token.logprob) is None:
                return None
            best = {token_text(self.engine, id): finite(logprob) for id, logprob in reversed(known.top)}
            best = dict(reversed(best.items()))
            best.setdefault(token.text or token_text(self.engine, known.id), finite(known.logprob))
            return best

        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [token.logprob and finite(token.logprob.logprob) for token in tokens],
            "top_logprobs": [top(token) for token in tokens],
            "text_offset": [offset + token.start for token in tokens],
            "content": self.content(tokens),
        }
