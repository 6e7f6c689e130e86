"""Single-request batching: n branches of one prompt as event lines, with handles. Knows no other dialect."""

from __future__ import annotations

from collections.abc import Mapping

from srbwriter.engine.verbs import HTTP_VERBS, Kind
from srbwriter.server.dialects.srb.completions import OTHERS_FIELDS, SRB, completions
from srbwriter.server.dialects.srb.handles import (
    add_branches,
    branch_events,
    cancel_all,
    create,
    events,
    forget,
    patch_branch,
    promote,
    read,
    read_branch,
    requests,
    steer,
)
from srbwriter.server.dialects.srb.instruments import open_unexplored, unexplored
from srbwriter.server.dialects.srb.model import model
from srbwriter.server.dialects.srb.rewriting import rewrite
from srbwriter.server.dialects.srb.schemas import BRANCHES, PARENT
from srbwriter.server.dialects.srb.tokens import branch_tokens, next_tokens
from srbwriter.server.endpoints import Leaf, lacks, rows_of
from srbwriter.server.schemas import FIELDS, PROMPT, object_of

_REQUESTS = "/srb/v1/requests"
_REQUEST = _REQUESTS + "/{id}"
_BRANCH = _REQUEST + "/branches/{branch}"

_SWITCH = {"type": "boolean"}
_AFTER = {"after": {"type": "integer", "minimum": 0}}
_CHANGES = object_of(**FIELDS)
_NEXT = object_of(
    prompt=PROMPT, parent=PARENT, k={"type": "integer", "minimum": 0},
    ids={"type": "array", "items": {"type": "integer"}}, **{"from": {"type": "integer", "minimum": 1}},
    example={"prompt": "Once upon a", "k": 3},
)  # fmt: skip
_REWRITING = object_of(
    "passage", before="string", passage="string", after="string", **FIELDS,
    example={"before": "The fox saw the river.", "passage": " He was very tired.", "after": " Then he swam.",
             "n": 2},
)  # fmt: skip
_JSON: Mapping[Kind, str] = {"count": "integer", "seed": "integer", "text": "string", "flag": "boolean"}
_STEERING = object_of(
    **{
        argument.field or argument.name: _JSON[kind]
        for verb in HTTP_VERBS
        for argument in verb.arguments
        for kind in argument.kinds
        if kind in _JSON
    },
    n="integer", at="integer", token="integer", without="array",
)  # fmt: skip

_row = rows_of(SRB, "Single-request batching")
_ROWS = (
    _row("POST /v1/completions", completions, "event lines for a body that has none of these fields",
         body=BRANCHES, claims=lacks(OTHERS_FIELDS)),
    _row("POST /srb/v1/completions", completions, "n branches of a prompt as event lines", body=BRANCHES,
         query={"sse": _SWITCH, "rich": _SWITCH}),
    _row("GET /srb/v1/model", model, "the model, its context and what it lacks"),
    _row("POST /srb/v1/next", next_tokens, "what could follow a prompt, and how likely it is", body=_NEXT),
    _row(f"GET {_REQUESTS}", requests, "requests that can be addressed"),
    _row(f"POST {_REQUESTS}", create, "start a request and return its id", body=BRANCHES),
    _row(f"GET {_REQUEST}", read, "a request and its branches"),
    _row(f"DELETE {_REQUEST}", forget, "cancel a request and forget it"),
    _row(f"POST {_REQUEST}/cancel", cancel_all, "stop every branch, keep the text"),
    _row(f"GET {_REQUEST}/unexplored", unexplored, "what could follow that no branch shows"),
    _row(f"POST {_REQUEST}/unexplored", open_unexplored, "let another branch begin with it",
         body=object_of("token", token="integer")),
    _row("POST /srb/v1/rewrite", rewrite, "variants of a passage, by how well the text after it follows",
         body=_REWRITING),
    _row(f"POST {_REQUEST}/promote", promote, "write as soon as any what was asked ahead"),
    _row(f"GET {_REQUEST}/events", events, "follow a request", query=_AFTER),
    _row(f"POST {_REQUEST}/branches", add_branches, "add branches", body=_CHANGES),
    _row(f"GET {_BRANCH}", read_branch, "a branch with its tokens"),
    _row(f"PATCH {_BRANCH}", patch_branch, "change sampling and stop rules", body=_CHANGES),
    _row(f"GET {_BRANCH}/events", branch_events, "follow one branch", query=_AFTER),
    _row(f"POST {_BRANCH}/tokens", branch_tokens, "its tokens, and what else could have come",
         body=object_of(k="integer", **{"from": "integer", "to": "integer"})),
    _row(f"POST {_BRANCH}/{{verb}}", steer,
         f"{', '.join(verb.name for verb in HTTP_VERBS)}, fork or pick a branch", body=_STEERING),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS, prefixes={"/srb/": SRB})
