"""Helpers to write JSON schemas, and the parts that the bodies of several dialects share.

Schemas of one dialect are in its leaf. Those of answers are listed under ``components`` in ``/openapi.json``:
every object lists all of its fields, and fields that may be absent are optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srbwriter.engine.parameters import PARAMETERS, Parameter

Schema = Mapping[str, Any]

S: Schema = {"type": "string"}
I: Schema = {"type": "integer"}  # noqa: E741
N: Schema = {"type": "number"}
B: Schema = {"type": "boolean"}
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


JSON, EVENTS, LINES = "application/json", "text/event-stream", "text/html"


def answers(value: str = "", events: str = "", lines: str = "", status: int = 200) -> dict[int, Any]:
    """What a row answers under ``status``: a value, a stream of events, or event lines; each by its name."""
    media_types = {JSON: value, EVENTS: events, LINES: lines}
    return {status: {media: name for media, name in media_types.items() if name}}


# ---- bodies

_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "text": {"type": "string"},
    "choice": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "ids": {"type": "array", "items": {"type": "integer"}},
    "biases": {},
}

_TEXT_OR_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
PROMPT: dict[str, Any] = {
    "description": "Text, token ids, both mixed, or several of these.",
    "oneOf": [{"type": "string"}, {"type": "array", "items": {}, "minItems": 1}, {"type": "object"}],
}


def _field(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {**_TYPES[parameter.kind], "description": parameter.help}
    if parameter.name == "stop":
        schema = {**_TEXT_OR_TEXTS, "description": parameter.help}
    if parameter.name in ("json_schema", "logit_bias"):
        schema = {"type": "object", "description": parameter.help}
    schema["x-record"] = parameter.record
    if parameter.step is not None:
        schema["x-step"] = parameter.step
    if isinstance(parameter.default, bool | int | float | str):
        schema["default"] = parameter.default
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    for bound in ("minimum", "maximum"):
        value = getattr(parameter, bound)
        if value is not None and "type" in schema and schema["type"] in ("integer", "number"):
            schema[bound] = value
    return schema


def object_of(
    required: str = "", /, example: object = None, **fields: str | Mapping[str, Any]
) -> dict[str, Any]:
    """The schema of an object from its fields' schemas or JSON types; ``required`` are names of some."""
    return {
        "type": "object",
        **({"required": required.split()} if required else {}),
        "properties": {
            name: {"type": field} if isinstance(field, str) else field for name, field in fields.items()
        },
        **({} if example is None else {"example": example}),
    }


COUNT = {"type": "integer", "minimum": 0}
AT_LEAST_ONE = {"type": "integer", "minimum": 1}
TEXTS = {"type": "array", "items": {"type": "string"}}
OBJECTS = {"type": "array", "items": {"type": "object"}}

OF_DIALECTS = frozenset(
    "priority logprobs prompt_logprobs next_logprobs next_ids score_from begin without parse_special".split()
)
"""Parameters of a request that some dialects have, in their own way, and others do not."""

FIELDS: dict[str, Any] = {p.name: _field(p) for p in PARAMETERS if p.name not in OF_DIALECTS}
"""Every generation parameter that requests may carry."""

SWITCHES = {"stream": "boolean", "stream_options": "object"}

MESSAGES = {
    "type": "array",
    "minItems": 1,
    "items": object_of("role content", role="string", content="string"),
}

CHAT = object_of(
    "messages",
    messages=MESSAGES,
    model="string",
    logprobs="boolean",
    top_logprobs=COUNT,
    verbose={"type": "boolean", "description": "Add llama.cpp's whole account of the answer."},
    timings_per_token="boolean",
    return_progress="boolean",
    **SWITCHES,
    **FIELDS,
)
