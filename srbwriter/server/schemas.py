"""JSON schemas of what SRB and OpenAI routes answer, and of the errors of every dialect.

Listed under ``components`` in ``/openapi.json``. Every object lists all of its fields; those that are not
always there are optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.server.params import PRIORITIES

Schema = Mapping[str, Any]

S: Schema = {"type": "string"}
I: Schema = {"type": "integer"}  # noqa: E741
N: Schema = {"type": "number"}
B: Schema = {"type": "boolean"}
ANY: Schema = {}
MAP: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    """A schema of the table below."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def null_or(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def only(value: str) -> Schema:
    return {"const": value}


def record(optional: str = "", /, **fields: Schema) -> Schema:
    """An object that has these fields and no others; ``optional`` are names of some."""
    names = {name.rstrip("_"): schema for name, schema in fields.items()}
    sometimes = optional.split()
    return {
        "type": "object",
        "required": [name for name in names if name not in sometimes],
        "properties": names,
        "additionalProperties": False,
    }


def event(name: str, optional: str = "", /, **fields: Schema) -> Schema:
    return record(optional, event=only(name), **fields)


_TOKEN = {"id": I, "text": S, "bytes": listed(I)}
_KNOWN = record(**_TOKEN, logprob=N)
_PAIR = {"type": "array", "prefixItems": [I, N], "minItems": 2, "maxItems": 2}
_SCORED = record(id=I, logprob=N, top=listed(_PAIR))
_TOO_LONG = {"n_prompt_tokens": I, "n_ctx": I}
_REASONS = one_of("stop", "length", "error")

_ERRORS: dict[str, Schema] = {
    "SrbError": record("n_prompt_tokens n_ctx", error=S, **_TOO_LONG),
    "OpenAIError": record(
        error=record(
            "n_prompt_tokens n_ctx",
            message=S, type=S, param=null_or(S), code={"type": ["string", "integer"]}, **_TOO_LONG,
        )
    ),
    "LlamaCppError": record(error=record("n_prompt_tokens n_ctx", code=I, message=S, type=S, **_TOO_LONG)),
    "KoboldError": record(
        "value",
        detail=record("error type n_prompt_tokens n_ctx", error=S, msg=S, type=S, **_TOO_LONG),
        value=I,
    ),
}  # fmt: skip

_BRANCH = {
    "index": I, "state": one_of(*map(str, BranchState)), "reason": null_or(one_of(*map(str, FinishReason))),
    "stop_text": null_or(S), "error": null_or(S), "text": S, "tokens": I, "seed": I, "bans": I,
    "tokens_per_second": N,
}  # fmt: skip

_SRB: dict[str, Schema] = {
    "SrbEvent": {
        "oneOf": [
            event("start", "id", count=I, id=S),
            event("queue", place=I, id=S),
            event("prompt", done=I, total=I, cached=I),
            event("stream", "ids logprobs", index=I, text=S, ids=listed(I), logprobs=listed(_SCORED)),
            event(
                "stop", "reason tokens stop_text error",
                index=I, length=I, stop={"enum": [0, 1]}, reason=S, tokens=I, stop_text=null_or(S), error=S,
            ),
            event("cut", index=I, chars=I, tokens=I),
            event("banned", index=I, phrase=S, tokens=I),
            event("added", index=I),
            event("state", index=I, state=_BRANCH["state"]),
            event(
                "done", "prompt_tokens cached_tokens completion_tokens",
                count=I, prompt_tokens=I, cached_tokens=I, completion_tokens=I,
            ),
            event("error", "n_prompt_tokens n_ctx", error=S, **_TOO_LONG),
        ]
    },
    "SrbBranch": record(
        "ids logprobs drawn",
        **_BRANCH, ids=listed(I), logprobs=listed(N), drawn=listed(record(token=I, logprob=N, among=N)),
    ),
    "SrbRequest": record(
        "branches",
        id=S, created=I, state=one_of("running", "failed", "done"), error=null_or(S), queue=I, count=I,
        picked=null_or(I), prompt_tokens=I, cached_tokens=I, completion_tokens=I, events=I,
        branches=listed(ref("SrbBranch")),
    ),
    "SrbRequests": record(object=only("list"), data=listed(ref("SrbRequest"))),
    "SrbForgotten": record(id=S, deleted=B),
    "SrbVerb": record("index n begin", id=S, index=I, verb=S, n=I, begin=listed(I)),
    "SrbPick": record(
        **_BRANCH, verb=only("pick"), parent=record("chars", request=S, branch=I, chars=I)
    ),
    "SrbNext": record(
        "prompt", prompt=listed(_SCORED), tokens=listed(_KNOWN), prompt_tokens=I, cached_tokens=I
    ),
    "SrbNexts": record(data=listed(ref("SrbNext"))),
    "SrbTokens": record(
        id=S, index=I, tokens=listed(record(at=I, **_TOKEN, logprob=N, alternatives=listed(_KNOWN)))
    ),
    "SrbUnexplored": record(
        id=S, covered=N, after=listed(I),
        openings=listed(record(**_TOKEN, probability=N, branches=listed(I))),
    ),
    "SrbExplored": record(
        ways=listed(record(text=S, ids=listed(I), logprob=N, probability=N, ended=B)), tokens=I
    ),
    "SrbJudgement": record(
        id=S, questions=listed(S), data=listed(record(index=I, score=N, answers=listed(N))),
        prompt_tokens=I, cached_tokens=I,
    ),
    "SrbModel": record(
        version=S,
        info=record(
            path=S, name=S, description=S, architecture=S, n_params=I, size=I, n_vocab=I, n_ctx_train=I,
            n_ctx=I, n_embd=I, vocab=S, chat_template=null_or(S), metadata=MAP,
        ),
        n_ctx=I, max_n=I, bos=null_or(I), eos=null_or(I), eog=listed(I), fim=ANY, add_bos=B, scores=B,
        priorities=listed(one_of(*PRIORITIES)), lacks=MAP, max_logprobs=I,
    ),
    "SrbVocabulary": record(pieces=listed(S), special=listed(S)),
    "SrbPieces": record(pieces=listed(S)),
}  # fmt: skip

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
_CALL = record(id=S, type=only("function"), function=record(name=S, arguments=S))
_CALL_DELTA = record(
    "id type", index=I, id=S, type=only("function"), function=record("name", name=S, arguments=S)
)
_CHAT_LOGPROBS = null_or(record(content=_CONTENT))
_CHAT_REASONS = one_of("stop", "length", "error", "tool_calls")

_CHUNK = "usage timings prompt_progress __verbose"

_OPENAI: dict[str, Schema] = {
    "Completion": record(
        **_HEAD, object=only("text_completion"), usage=_USAGE, timings=_TIMINGS,
        choices=listed(
            record(
                "prompt_logprobs error", index=I, text=S, logprobs=null_or(_LOGPROBS), finish_reason=_REASONS,
                stop_reason=null_or(S), prompt_logprobs=listed(null_or(MAP)), error=S,
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
                "error", index=I, logprobs=_CHAT_LOGPROBS, finish_reason=_CHAT_REASONS, error=S,
                message=record(
                    "tool_calls", role=only("assistant"), content=null_or(S), tool_calls=listed(_CALL)
                ),
            )
        ),
    ),
    "ChatCompletionChunk": record(
        _CHUNK, **_HEAD, object=only("chat.completion.chunk"), **_IN_CHUNKS,
        choices=listed(
            record(
                "error", index=I, logprobs=_CHAT_LOGPROBS, finish_reason=null_or(_CHAT_REASONS), error=S,
                delta=record(
                    "role content tool_calls",
                    role=only("assistant"), content=null_or(S), tool_calls=listed(_CALL_DELTA),
                ),
            )
        ),
    ),
    "InputTokens": record(object=only("response.input_tokens"), input_tokens=I),
    "Model": record(
        "status max_model_len",
        id=S, aliases=listed(S), tags=listed(S), object=only("model"), created=I, owned_by=S, engine_state=S,
        max_n=I, status=record(value=S), max_model_len=I,
        meta=null_or(
            record(
                vocab_type=S, n_vocab=I, n_ctx=I, n_ctx_train=I, n_embd=I, n_params=I, size=I, ftype=S
            )
        ),
    ),
    "Models": record(object=only("list"), data=listed(ref("Model")), models=listed(MAP)),
    "Embeddings": record(
        object=only("list"), model=S, usage=record(prompt_tokens=I, total_tokens=I),
        data=listed(record(object=only("embedding"), index=I, embedding={"anyOf": [listed(N), S]})),
    ),
    "Response": record(
        id=S, object=only("response"), created_at=I, model=S, parallel_tool_calls=B, tool_choice=S,
        tools=listed(ANY), text=MAP, store=B, error=null_or(record(code=S, message=S)),
        incomplete_details=null_or(record(reason=S)), instructions=null_or(S), max_output_tokens=null_or(I),
        metadata=ANY, temperature=ANY, top_p=ANY, user=ANY,
        status=one_of("in_progress", "completed", "incomplete", "failed"),
        output=listed(
            record(
                type=only("message"), id=S, status=S, role=only("assistant"),
                content=listed(
                    record(type=only("output_text"), text=S, annotations=listed(ANY), logprobs=listed(ANY))
                ),
            )
        ),
        usage=null_or(
            record(
                input_tokens=I, input_tokens_details=record(cached_tokens=I), output_tokens=I,
                output_tokens_details=record(reasoning_tokens=I), total_tokens=I,
            )
        ),
    ),
    "ResponseEvent": {
        "type": "object",
        "required": ["type", "sequence_number"],
        "properties": {"type": S, "sequence_number": I, "response": ref("Response")},
    },
}  # fmt: skip

SCHEMAS: Mapping[str, Schema] = _ERRORS | _SRB | _OPENAI
"""Every schema by its name."""

ERROR_OF: Mapping[str, str] = {
    "srb": "SrbError", "openai": "OpenAIError", "llamacpp": "LlamaCppError", "kobold": "KoboldError",
}  # fmt: skip
"""The error of each dialect."""

JSON, EVENTS, LINES = "application/json", "text/event-stream", "text/html"


def answers(value: str = "", events: str = "", lines: str = "", status: int = 200) -> dict[int, Any]:
    """What a row answers under ``status``: a value, a stream of events, or event lines; each by its name."""
    told = {JSON: value, EVENTS: events, LINES: lines}
    return {status: {media: name for media, name in told.items() if name}}
