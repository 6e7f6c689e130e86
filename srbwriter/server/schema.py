"""JSON schemas of request bodies for the API's description, made from the engine's table of parameters."""

from __future__ import annotations

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
    if parameter.name == "json_schema":
        schema = {"type": "object", "description": parameter.help}
    if parameter.name == "logit_bias":
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


_HIDDEN = frozenset({"logprobs", "prompt_logprobs", "priority", "parse_special"})
LORA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer", "minimum": 0}, "scale": {"type": "number"}},
    },
}
FIELDS: dict[str, Any] = {p.name: _field(p) for p in PARAMETERS if p.name not in _HIDDEN} | {"lora": LORA}
"""Every generation parameter that requests may carry."""

_SWITCHES = {"stream": {"type": "boolean"}, "stream_options": {"type": "object"}}

COMPLETION: dict[str, Any] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {
        "prompt": PROMPT,
        "model": {"type": "string"},
        "logprobs": {"type": "integer", "minimum": 0},
        "echo": {"type": "boolean"},
        "best_of": {"type": "integer", "minimum": 1},
        "suffix": {"type": "string"},
        **_SWITCHES,
        **FIELDS,
    },
}
BRANCHES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {**PROMPT, "description": "Text or token ids; after a parent, what was typed since."},
        "parent": {
            "type": "object",
            "description": "A branch to continue token by token.",
            "properties": {
                "request": {"type": "string"},
                "branch": {"type": "integer", "minimum": 0},
                "chars": {"type": "integer", "minimum": 0, "description": "Only so much of its text."},
            },
        },
        "logprobs": {"type": "integer", "minimum": 0},
        "rich": {"type": "boolean"},
        **FIELDS,
    },
}
CHAT: dict[str, Any] = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
            },
        },
        "model": {"type": "string"},
        "logprobs": {"type": "boolean"},
        "top_logprobs": {"type": "integer", "minimum": 0},
        "tools": {"type": "array", "items": {"type": "object"}, "description": "Functions it may call."},
        "tool_choice": {"description": "auto, none, required, or a function by its name."},
        "parallel_tool_calls": {"type": "boolean", "description": "Whether one answer may call several."},
        "verbose": {"type": "boolean", "description": "Add llama.cpp's whole account of the answer."},
        "timings_per_token": {"type": "boolean"},
        "return_progress": {"type": "boolean"},
        **_SWITCHES,
        **FIELDS,
    },
}
RESPONSES: dict[str, Any] = {
    "type": "object",
    "required": ["input"],
    "properties": {
        "input": {
            "oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "object"}}]
        },
        "instructions": {"type": "string"},
        "max_output_tokens": {"type": "integer", "minimum": 0},
        "model": {"type": "string"},
        **_SWITCHES,
        **{name: field for name, field in FIELDS.items() if name != "n"},
    },
}
NATIVE: dict[str, Any] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {
        "prompt": PROMPT,
        "n_probs": {"type": "integer", "minimum": 0},
        "return_tokens": {"type": "boolean"},
        "return_progress": {"type": "boolean"},
        "timings_per_token": {"type": "boolean"},
        "id_slot": {"type": "integer", "minimum": -1},
        "penalty_prompt": {**PROMPT, "description": "What penalties look back at instead of the prompt."},
        "post_sampling_probs": {"type": "boolean"},
        "response_fields": {"type": "array", "items": {"type": "string"}},
        **_SWITCHES,
        **FIELDS,
    },
}
INFILL: dict[str, Any] = {
    "type": "object",
    "required": ["input_prefix", "input_suffix"],
    "properties": {
        "input_prefix": {"type": "string"},
        "input_suffix": {"type": "string"},
        "prompt": {"type": "string"},
        "input_extra": {"type": "array", "items": {"type": "object"}},
        **_SWITCHES,
        **FIELDS,
    },
}


def object_of(**types: str) -> dict[str, Any]:
    """The schema of a small object from the JSON types of its fields."""
    return {"type": "object", "properties": {name: {"type": type} for name, type in types.items()}}


_OF_EMBEDDINGS: dict[str, Any] = {
    "embd_normalize": {"type": "integer", "minimum": -1, "maximum": 100},
    "pooling": {"type": "string", "enum": ["none", "mean", "cls", "last"]},
}
EMBEDDINGS: dict[str, Any] = {
    "type": "object",
    "required": ["input"],
    "properties": {
        "input": PROMPT,
        "model": {"type": "string"},
        "encoding_format": {"type": "string", "enum": ["float", "base64"]},
        "dimensions": {"type": "integer", "description": "Only what the model has."},
        **_OF_EMBEDDINGS,
    },
}
NATIVE_EMBEDDINGS: dict[str, Any] = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": PROMPT, **_OF_EMBEDDINGS},
}
RERANK: dict[str, Any] = {
    "type": "object",
    "required": ["query", "documents"],
    "properties": {
        "query": {"type": "string"},
        "documents": {"type": "array", "items": {"type": "string"}},
        "texts": {"type": "array", "items": {"type": "string"}, "description": "TEI's name, and answer."},
        "top_n": {"type": "integer", "minimum": 1},
        "return_text": {"type": "boolean"},
        "return_documents": {"type": "boolean"},
        "model": {"type": "string"},
    },
}
