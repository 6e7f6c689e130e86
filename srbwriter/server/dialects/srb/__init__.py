"""Single-request batching: n branches of one prompt as event lines, with handles. Knows no other dialect."""

from __future__ import annotations

from typing import get_args

from srbwriter.engine.exploring import MOST_TOKENS, MOST_WAYS, Ends, Exploring
from srbwriter.server.dialects.srb.completions import completions
from srbwriter.server.dialects.srb.exploring import explore, open_unexplored, unexplored
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
from srbwriter.server.dialects.srb.judging import judge
from srbwriter.server.dialects.srb.model import model, pieces, vocabulary
from srbwriter.server.dialects.srb.tokens import branch_tokens, next_tokens
from srbwriter.server.endpoints import BRANCHES, FIELDS, PROMPT, Endpoint, object_of

_REQUESTS = "/srb/v1/requests"


_REQUEST = _REQUESTS + "/{id}"


_BRANCH = _REQUEST + "/branches/{branch}"


_SWITCH = {"type": "boolean"}


_AFTER = {"after": {"type": "integer", "minimum": 0}}


_CHANGES = {"type": "object", "properties": FIELDS}

_NEXT = {
    "type": "object",
    "properties": {
        "prompt": PROMPT,
        "parent": BRANCHES["properties"]["parent"],
        "k": {"type": "integer", "minimum": 0},
        "ids": {"type": "array", "items": {"type": "integer"}},
        "from": {"type": "integer", "minimum": 1},
    },
    "example": {"prompt": "Once upon a", "k": 3},
}

_IDS = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "items": {"type": "integer"}},
        "special": {"type": "boolean", "default": False},
    },
    "required": ["ids"],
    "example": {"ids": [5, 6]},
}

_RUBRIC = {
    "type": "object",
    "properties": {
        "rubric": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
    "example": {"rubric": ["Is this passage sad?"]},
}

_USUAL = Exploring()
_EXPLORING = {
    "type": "object",
    "properties": {
        **{name: BRANCHES["properties"][name] for name in ("prompt", "parent", "heal")},
        "cutoff": {"type": "number", "minimum": 0, "maximum": 1, "default": _USUAL.cutoff},
        "multiplier": {"type": "number", "minimum": 0, "maximum": 10, "default": _USUAL.multiplier},
        "depth": {"type": "integer", "minimum": 1, "maximum": MOST_TOKENS, "default": _USUAL.depth},
        "beams": {"type": "integer", "minimum": 1, "maximum": MOST_WAYS, "default": _USUAL.beams},
        "ends": {"type": "string", "enum": list(get_args(Ends)), "default": _USUAL.ends},
    },
    "example": {"prompt": "Once upon a time,", "cutoff": 0.1, "depth": 8},
}

ENDPOINTS = (
    Endpoint(
        "POST", ("/srb/v1/completions",), completions, "srb", "n branches of a prompt as event lines",
        body=BRANCHES, query={"sse": _SWITCH, "rich": _SWITCH},
    ),
    Endpoint("GET", ("/srb/v1/model",), model, "srb", "the model, its context and its special tokens"),
    Endpoint("GET", ("/srb/v1/vocabulary",), vocabulary, "srb", "what each token writes, in base64"),
    Endpoint("POST", ("/srb/v1/vocabulary",), pieces, "srb", "what some tokens write, in base64", body=_IDS),
    Endpoint(
        "POST", ("/srb/v1/next",), next_tokens, "srb", "what could follow a prompt, and how likely it is",
        body=_NEXT,
    ),
    Endpoint("GET", (_REQUESTS,), requests, "srb", "requests that can be addressed"),
    Endpoint("POST", (_REQUESTS,), create, "srb", "start a request and return its id", body=BRANCHES),
    Endpoint("GET", (_REQUEST,), read, "srb", "a request and its branches"),
    Endpoint("DELETE", (_REQUEST,), forget, "srb", "cancel a request and forget it"),
    Endpoint("POST", (_REQUEST + "/cancel",), cancel_all, "srb", "stop every branch, keep the text"),
    Endpoint(
        "POST", (_REQUEST + "/judge",), judge, "srb", "score the branches that have ended by a rubric",
        body=_RUBRIC, chooses=False,
    ),
    Endpoint(
        "GET", (_REQUEST + "/unexplored",), unexplored, "srb", "what could follow that no branch shows"
    ),
    Endpoint(
        "POST", (_REQUEST + "/unexplored",), open_unexplored, "srb", "let another branch begin with it",
        body=object_of(token="integer"), chooses=False,
    ),
    Endpoint(
        "POST", ("/srb/v1/explore",), explore, "srb", "follow the ways on that are likely",
        body=_EXPLORING,
    ),
    Endpoint("POST", (_REQUEST + "/promote",), promote, "srb", "write as soon as any what was asked ahead"),
    Endpoint("GET", (_REQUEST + "/events",), events, "srb", "follow a request", query=_AFTER),
    Endpoint(
        "POST", (_REQUEST + "/branches",), add_branches, "srb", "add branches", body=_CHANGES, chooses=False
    ),
    Endpoint("GET", (_BRANCH,), read_branch, "srb", "a branch with its tokens"),
    Endpoint(
        "PATCH", (_BRANCH,), patch_branch, "srb", "change sampling and stop rules", body=_CHANGES,
        chooses=False,
    ),
    Endpoint("GET", (_BRANCH + "/events",), branch_events, "srb", "follow one branch", query=_AFTER),
    Endpoint(
        "POST", (_BRANCH + "/tokens",), branch_tokens, "srb", "its tokens, and what else could have come",
        body=object_of(**{"k": "integer", "from": "integer", "to": "integer"}), chooses=False,
    ),
    Endpoint(
        "POST", (_BRANCH + "/{verb}",), steer, "srb",
        "stop, kill, pause, resume, reroll, extend, rewind, append, fork or pick a branch",
        body=object_of(
            text="string", tokens="integer", chars="integer", sentences="integer", max_tokens="integer",
            seed="integer", n="integer", at="integer", token="integer", without="array",
        ),
        chooses=False,
    ),
)  # fmt: skip
