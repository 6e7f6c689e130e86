"""JSON schemas of what OpenAI's routes answer."""

from __future__ import annotations

from collections.abc import Mapping

from srbwriter.server.schemas import (
    AT_LEAST_ONE,
    COUNT,
    FIELDS,
    MAP,
    PROMPT,
    SWITCHES,
    I,
    N,
    S,
    Schema,
    listed,
    null_or,
    object_of,
    one_of,
    only,
    record,
    ref,
)

_REASONS = one_of("stop", "length", "error")
_USAGE = record(
    prompt_tokens=I, completion_tokens=I, total_tokens=I, prompt_tokens_details=record(cached_tokens=I)
)
_TIMINGS = record(
    cache_n=I, prompt_n=I, prompt_ms=N, prompt_per_token_ms=N, prompt_per_second=N, predicted_n=I,
    predicted_ms=N, predicted_per_token_ms=N, predicted_per_second=N,
)  # fmt: skip
_PROGRESS = record("queue", total=I, cache=I, processed=I, time_ms=N, queue=I)
_ONE = {"id": I, "token": S, "bytes": listed(I), "logprob": N}
_CONTENT = listed(record(**_ONE, top_logprobs=listed(record(**_ONE))))
_LOGPROBS = record(
    tokens=listed(S), token_logprobs=listed(null_or(N)), top_logprobs=listed(null_or(MAP)),
    text_offset=listed(I), content=_CONTENT,
)  # fmt: skip
_HEAD = {"id": S, "created": I, "model": S, "system_fingerprint": S}
_IN_CHUNKS = {
    "usage": null_or(_USAGE), "timings": _TIMINGS, "prompt_progress": _PROGRESS, "__verbose": MAP,
}  # fmt: skip
_CHAT_LOGPROBS = null_or(record(content=_CONTENT))

_CHUNK = "usage timings prompt_progress __verbose"

SCHEMAS: Mapping[str, Schema] = {
    "Completion": record(
        **_HEAD, object=only("text_completion"), usage=_USAGE, timings=_TIMINGS,
        choices=listed(
            record(
                "error", index=I, text=S, logprobs=null_or(_LOGPROBS), finish_reason=_REASONS,
                stop_reason=null_or(S), error=S,
            )
        ),
    ),
    "CompletionChunk": record(
        _CHUNK, **_HEAD, object=only("text_completion"), **_IN_CHUNKS,
        choices=listed(
            record(
                "stop_reason error", index=I, text=S, logprobs=null_or(_LOGPROBS),
                finish_reason=null_or(_REASONS), stop_reason=null_or(S), error=S,
            )
        ),
    ),
    "ChatCompletion": record(
        "__verbose", **_HEAD, object=only("chat.completion"), usage=_USAGE, timings=_TIMINGS, __verbose=MAP,
        choices=listed(
            record(
                "error", index=I, logprobs=_CHAT_LOGPROBS, finish_reason=_REASONS, error=S,
                message=record(role=only("assistant"), content=S),
            )
        ),
    ),
    "ChatCompletionChunk": record(
        _CHUNK, **_HEAD, object=only("chat.completion.chunk"), **_IN_CHUNKS,
        choices=listed(
            record(
                "error", index=I, logprobs=_CHAT_LOGPROBS, finish_reason=null_or(_REASONS), error=S,
                delta=record("role content", role=only("assistant"), content=null_or(S)),
            )
        ),
    ),
    "Model": record(
        "max_model_len",
        id=S, aliases=listed(S), tags=listed(S), object=only("model"), created=I, owned_by=S, engine_state=S,
        max_n=I, max_model_len=I,
        meta=null_or(
            record(
                vocab_type=S, n_vocab=I, n_ctx=I, n_ctx_train=I, n_embd=I, n_params=I, size=I, ftype=S
            )
        ),
    ),
    "Models": record(object=only("list"), data=listed(ref("Model")), models=listed(MAP)),
}  # fmt: skip


# ---- bodies

COMPLETION = object_of(
    "prompt", prompt=PROMPT, model="string", logprobs=COUNT, echo="boolean", best_of=AT_LEAST_ONE,
    suffix="string", **SWITCHES, **FIELDS,
)  # fmt: skip
