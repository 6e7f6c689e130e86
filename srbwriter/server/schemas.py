"""JSON schemas of request bodies, and the parts that those of several dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srbwriter.engine.parameters import PARAMETERS, Parameter

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
