"""``/openapi.json``, made from the rows of the endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from srbwriter import __version__

from .endpoint import Endpoint

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_TITLES = {
    "srb": "Single-request batching",
    "openai": "OpenAI",
    "llamacpp": "llama.cpp",
    "page": "Page and documentation",
}
_ERRORS = {
    "400": "a field means nothing; the answer names it",
    "401": "a key is needed",
    "403": "the Host or Origin header is not allowed",
    "404": "there is no such thing",
    "413": "the body is too large",
    "429": "too many requests are being answered",
    "501": "this server or its model cannot do that",
    "503": "the model is being loaded, or too many requests are being answered",
}


def description(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 description of the rows."""
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        for path in row.paths:
            plain = _PARAMETER.sub(r"{\1}", path)
            paths.setdefault(plain, {})[row.method.lower()] = _operation(row, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "srbwriter", "version": __version__, "summary": "Many branches of a text at once"},
        "tags": [{"name": title} for title in _TITLES.values()],
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(row: Endpoint, path: str) -> dict[str, Any]:
    in_path: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]
    in_query = [{"name": name, "in": "query", "schema": dict(schema)} for name, schema in row.query.items()]
    operation: dict[str, Any] = {
        "operationId": f"{row.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', path)}",
        "summary": row.summary,
        "tags": [_TITLES[row.group]],
        "parameters": in_path + in_query,
        "responses": {
            "default": {"description": "the answer"},
            **{status: {"description": meaning} for status, meaning in _ERRORS.items()},
        },
    }
    if row.body is not None:
        content = {"application/json": {"schema": dict(row.body)}}
        operation["requestBody"] = {"required": "required" in row.body, "content": content}
    if not row.public:
        operation["security"] = [{}, {"key": []}]
    return operation
