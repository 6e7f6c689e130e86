"""Rows of the server's surface: where each is, who answers, in which dialect, and what the docs say.

Routing, the OpenAPI description and the list of paths open without a key are all made from these rows.
Schemas of request bodies are made from the engine's table of parameters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from srbwriter import __version__
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.types import EngineError
from srbwriter.server.context import ClientGone, Context, json_response
from srbwriter.server.errors import ApiError, Dialect, from_engine
from srbwriter.server.fields import by_its_spelling
from srbwriter.server.params import OF_DIALECTS, PRIORITIES
from srbwriter.server.schemas import ERROR_OF, SCHEMAS, ref
from srbwriter.server.services import Services

log = logging.getLogger(__name__)

Handler = Callable[[Context], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one or more paths.

    ``body`` is the JSON schema of the request body, ``query`` the schemas of query parameters by name.
    ``answers`` are names of schemas by status and media type; a stream is described by one of its events.
    ``public`` paths are open without a key. Rows that work on no model, or on that of another request, do not
    choose one (``chooses``).
    """

    method: Literal["GET", "POST", "DELETE", "PATCH"]
    paths: tuple[str, ...]
    handler: Handler
    dialect: Dialect
    summary: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    answers: Mapping[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]])
    public: bool = False
    title: str = ""
    chooses: bool = True
    errors: tuple[str, ...] = ()  # schemas of its errors, where they are not its dialect's

    @property
    def group(self) -> str:
        """Where the documentation lists it."""
        return self.title or self.dialect

    def routes(self, services: Services) -> list[Route]:
        async def answer(request: Request) -> Response:
            context = Context(request, services, self.dialect)
            context.chooses = self.chooses
            try:
                if services.models.alone:
                    return await self.handler(context)
                context.services = services.models.shown().services
                if (name := context.query.get("model")) and not self.public:
                    await context.choose(name)
                return await self.handler(context)
            except (ClientGone, ClientDisconnect):
                return Response(status_code=499)  # nobody reads it; the log shows it
            except Exception as error:
                return failure(error, context.dialect, context.sent)

        return [Route(path, answer, methods=[self.method]) for path in self.paths]


Row = Callable[..., Endpoint]


def rows_of(dialect: Dialect, title: str = "") -> Row:
    """Makes rows of one dialect: ``row("GET /a /b", handler, summary, body=…)``."""

    def row(where: str, handler: Handler, summary: str, **more: Any) -> Endpoint:
        method, *paths = where.split()
        return Endpoint(cast("Any", method), tuple(paths), handler, dialect, summary, title=title, **more)

    return row


@dataclass(frozen=True, slots=True)
class Socket:
    """A path on which clients open WebSockets."""

    path: str
    handler: Callable[[Context, WebSocket], Awaitable[None]]

    def route(self, services: Services) -> WebSocketRoute:
        async def answer(socket: WebSocket) -> None:
            context = Context(cast("Request", socket), services, "kobold")
            try:
                with services.open_socket(context.client) as fits:
                    if fits:
                        await self.handler(context, socket)
                    else:
                        await socket.accept()  # closed before, it would be a 403 without words
                        await socket.close(1013, "too many WebSockets are open")
            except (WebSocketDisconnect, TimeoutError):
                pass  # it left, or stopped reading
            except Exception as error:
                log.error("unforeseen error on a WebSocket", exc_info=error)

        return WebSocketRoute(self.path, answer)


def told(make: Callable[[Context], Any], *, ready: bool = False) -> Handler:
    """A handler that answers with a value and reads nothing; ``ready``: 503 before the model is."""

    async def handler(context: Context) -> Response:
        if ready:
            _ = context.engine
        return json_response(make(context))

    return handler


def as_told(error: Exception) -> ApiError:
    """What a client is told of an error. Only what nobody foresaw is a 500, and is logged."""
    if not isinstance(error, (ApiError, EngineError)):
        log.error("unforeseen error while answering", exc_info=error)
    return from_engine(error)


def failure(error: Exception, dialect: Dialect, sent: Mapping[str, Any]) -> Response:
    """An error as an answer in ``dialect``, to a client that ``sent`` these fields."""
    told = by_its_spelling(as_told(error), sent)
    return json_response(told.body(dialect), told.status, told.headers)


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


_COUNT = {"type": "integer", "minimum": 0}
_AT_LEAST_ONE = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_OBJECTS = {"type": "array", "items": {"type": "object"}}

LORA: dict[str, Any] = {
    "type": "array",
    "items": object_of("id", id=_COUNT, scale="number"),
    "example": [{"id": 0, "scale": 0.5}],
}

FIELDS: dict[str, Any] = {p.name: _field(p) for p in PARAMETERS if p.name not in OF_DIALECTS} | {"lora": LORA}
"""Every generation parameter that requests may carry."""

_SWITCHES = {"stream": "boolean", "stream_options": "object"}

COMPLETION = object_of(
    "prompt", prompt=PROMPT, model="string", logprobs=_COUNT, echo="boolean", best_of=_AT_LEAST_ONE,
    suffix="string", **_SWITCHES, **FIELDS,
)  # fmt: skip

PARENT = {
    "type": "object",
    "description": "A branch to continue token by token.",
    "properties": {
        "request": {"type": "string"},
        "branch": _COUNT,
        "chars": {**_COUNT, "description": "Only so much of its text."},
    },
}

BRANCHES = object_of(
    prompt={**PROMPT, "description": "Text or token ids; after a parent, what was typed since."},
    parent=PARENT,
    logprobs=_COUNT,
    priority={"type": "string", "enum": [*PRIORITIES], "default": "normal"},
    rich="boolean",
    **FIELDS,
    example={"prompt": "Once upon a time,", "n": 2, "max_tokens": 16},
)

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
    top_logprobs=_COUNT,
    tools={**_OBJECTS, "description": "Functions it may call."},
    tool_choice={"description": "auto, none, required, or a function by its name."},
    parallel_tool_calls={"type": "boolean", "description": "Whether one answer may call several."},
    verbose={"type": "boolean", "description": "Add llama.cpp's whole account of the answer."},
    timings_per_token="boolean",
    return_progress="boolean",
    **_SWITCHES,
    **FIELDS,
)

RESPONSES = object_of(
    "input",
    input={"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "object"}}]},
    instructions="string",
    max_output_tokens=_COUNT,
    model="string",
    **_SWITCHES,
    **{name: field for name, field in FIELDS.items() if name != "n"},
)

NATIVE = object_of(
    "prompt",
    prompt=PROMPT,
    n_probs=_COUNT,
    return_tokens="boolean",
    return_progress="boolean",
    timings_per_token="boolean",
    id_slot={"type": "integer", "minimum": -1},
    penalty_prompt={**PROMPT, "description": "What penalties look back at instead of the prompt."},
    post_sampling_probs="boolean",
    response_fields=_TEXTS,
    **_SWITCHES,
    **FIELDS,
)

KOBOLD = object_of(
    "prompt",
    prompt="string",
    memory={"type": "string", "description": "Stands before the prompt, and stays when that is cut."},
    genkey={"type": "string", "description": "By what name to look at this request, or to stop it."},
    trim_stop={"type": "boolean", "default": True},
    logprobs="boolean",
    **FIELDS,
)

INFILL = object_of(
    "input_prefix input_suffix", input_prefix="string", input_suffix="string", prompt="string",
    input_extra=_OBJECTS, **_SWITCHES, **FIELDS,
)  # fmt: skip

_OF_EMBEDDINGS: dict[str, Any] = {
    "embd_normalize": {"type": "integer", "minimum": -1, "maximum": 100},
    "pooling": {"type": "string", "enum": ["none", "mean", "cls", "last"]},
}

EMBEDDINGS = object_of(
    "input",
    input=PROMPT,
    model="string",
    encoding_format={"type": "string", "enum": ["float", "base64"]},
    dimensions={"type": "integer", "description": "Only what the model has."},
    **_OF_EMBEDDINGS,
)

NATIVE_EMBEDDINGS = object_of("content", content=PROMPT, **_OF_EMBEDDINGS)

RERANK = object_of(
    "query documents",
    query="string",
    documents=_TEXTS,
    texts={**_TEXTS, "description": "TEI's name, and answer."},
    top_n=_AT_LEAST_ONE,
    return_text="boolean",
    return_documents="boolean",
    model="string",
    example={"query": "Who ran?", "documents": ["The fox ran.", "It rained."]},
)

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_TITLES = {
    "srb": "Single-request batching",
    "openai": "OpenAI",
    "llamacpp": "llama.cpp",
    "kobold": "KoboldAI and KoboldCpp",
    "ooba": "text-generation-webui",
    "tabby": "tabbyAPI",
    "vllm": "vLLM and aphrodite",
    "exllama": "exllama",
    "page": "Page and documentation",
}
_ERRORS = {
    "400": "a field means nothing; the answer names it",
    "401": "a key is needed",
    "403": "the Host or Origin header is not allowed",
    "404": "there is no such thing",
    "409": "the model that is to be unloaded, or the slot that is to be restored, is in use",
    "413": "the body is too large",
    "415": "the body is compressed",
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
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(SCHEMAS),
        },
    }


def _responses(row: Endpoint) -> dict[str, Any]:
    """What a row answers, and its errors in the form of its dialect."""
    wrong = {"application/json": {"schema": _either(row.errors or (ERROR_OF[row.dialect],))}}
    told = {
        str(status): {
            "description": "the answer",
            "content": {media: {"schema": _either(name.split())} for media, name in kinds.items()},
        }
        for status, kinds in row.answers.items()
    }
    return (told or {"default": {"description": "the answer"}}) | {
        status: {"description": meaning, "content": wrong} for status, meaning in _ERRORS.items()
    }


def _either(names: Sequence[str]) -> Mapping[str, Any]:
    return ref(names[0]) if len(names) == 1 else {"anyOf": [ref(name) for name in names]}


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
        "responses": _responses(row),
    }
    if row.body is not None:
        content = {"application/json": {"schema": dict(row.body)}}
        operation["requestBody"] = {"required": "required" in row.body, "content": content}
    if not row.public:
        operation["security"] = [{}, {"key": []}]
    return operation
