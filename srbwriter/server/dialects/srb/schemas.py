"""JSON schemas of what SRB's routes answer."""

from __future__ import annotations

from collections.abc import Mapping

from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.server.dialects.srb.completions import PRIORITIES
from srbwriter.server.schemas import (
    COUNT,
    FIELDS,
    MAP,
    PROMPT,
    B,
    I,
    N,
    S,
    Schema,
    event,
    listed,
    null_or,
    object_of,
    one_of,
    only,
    record,
    ref,
)

_TOKEN = {"id": I, "text": S, "bytes": listed(I)}
_KNOWN = record(**_TOKEN, logprob=N)
_PAIR = {"type": "array", "prefixItems": [I, N], "minItems": 2, "maxItems": 2}
_SCORED = record(id=I, logprob=N, top=listed(_PAIR))
_TOO_LONG = {"n_prompt_tokens": I, "n_ctx": I}

_BRANCH = {
    "index": I, "state": one_of(*map(str, BranchState)), "reason": null_or(one_of(*map(str, FinishReason))),
    "stop_text": null_or(S), "error": null_or(S), "text": S, "tokens": I, "seed": I, "bans": I,
    "tokens_per_second": N,
}  # fmt: skip

SCHEMAS: Mapping[str, Schema] = {
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
    "SrbVerb": record("index n begin note", id=S, index=I, verb=S, n=I, begin=listed(I), note=S),
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
    "SrbRewritten": record(
        filled=B, unranked=S, passage=record(text=S, fit=null_or(N)),
        variants=listed(record(index=I, text=S, ids=listed(I), reason=S, fit=null_or(N))),
        prompt_tokens=I, cached_tokens=I, completion_tokens=I,
    ),
    "SrbModel": record(
        version=S,
        info=record(
            path=S, name=S, description=S, architecture=S, n_params=I, size=I, n_vocab=I, n_ctx_train=I,
            n_ctx=I, n_embd=I, vocab=S, chat_template=null_or(S), metadata=MAP,
        ),
        n_ctx=I, max_n=I, lacks=MAP,
    ),
}  # fmt: skip


# ---- bodies

PARENT = {
    "type": "object",
    "description": "A branch to continue token by token.",
    "properties": {
        "request": {"type": "string"},
        "branch": COUNT,
        "chars": {**COUNT, "description": "Only so much of its text."},
    },
}

BRANCHES = object_of(
    prompt={**PROMPT, "description": "Text or token ids; after a parent, what was typed since."},
    parent=PARENT,
    wish={
        "type": "string",
        "description": "What the branches are to be like, as a note near the end of the text.",
    },
    logprobs=COUNT,
    priority={"type": "string", "enum": [*PRIORITIES], "default": "normal"},
    rich="boolean",
    **FIELDS,
    example={"prompt": "Once upon a time,", "n": 2, "max_tokens": 16},
)
