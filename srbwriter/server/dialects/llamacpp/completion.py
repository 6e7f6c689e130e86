"""``/completion``, ``/infill``, tokens and templates: what they ask for, and the shapes of the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.limits import check_range
from srbwriter.engine.types import ONLY_READ, Finished, Request
from srbwriter.server.body import Fields, Params, read_params
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.llamacpp.slots import pin
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.prompts import fill, read_ids, read_mixed, read_prompts, refuse_media
from srbwriter.server.reply import (
    BranchReply,
    Piece,
    Written,
    branch_tokens,
    entry,
    final_object,
    finite,
    frame,
    prompt_text,
    timings,
    token_text,
)
from srbwriter.server.services import Services
from srbwriter.server.system_prompt import SystemPrompt
from srbwriter.server.work import PER_BYTE, PER_ENTRY, off_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppParams(Params):
    """Everything but the prompt."""

    return_tokens: bool
    response_fields: tuple[str, ...]
    id_slot: int


def _read_params(fields: Fields, services: Services) -> LlamaCppParams:
    """Raise ApiError: 400 for a field that means nothing, 501 for what this server cannot do."""
    refuse_media(fields.values)
    params = read_params(fields, services)
    request = replace(params.request, parse_special=True, logprobs=fields.size("logprobs", 0) or None)
    return params.more(
        LlamaCppParams,
        request=request,
        return_tokens=fields.flag("return_tokens"),
        response_fields=fields.texts("response_fields"),
        id_slot=_read_slot(fields, services.max_n),
    )


def _read_slot(fields: Fields, count: int) -> int:
    """Return the slot that a request names, one of ``count``, or -1. Raises OutOfRange."""
    name = "id_slot" if fields.has("id_slot") else "slot_id"
    slot = fields.integer(name, -1)
    if name == "slot_id":  # older clients send any negative number
        slot = max(slot, -1)
    check_range(name, slot, -1, count - 1)
    return slot


async def completion(context: Context) -> Response:
    """Branches of one or several prompts. A system prompt that comes without a prompt is only read."""
    params = await context.read(_read_params)
    changed = _read_system_prompt(await context.fields(), context)

    def read(fields: Fields, services: Services) -> list[Request]:
        system = changed or services.system
        if changed is not None and not fields.has("prompt"):
            return [services.put_system_before(params.of_prompt("", stop=ONLY_READ), system)]
        prompts = read_prompts(fields.raw("prompt"), services.engine)
        if "" in prompts and not system.prompt:
            raise bad("prompt", "Field 'prompt': empty")
        return [services.put_system_before(params.of_prompt(prompt), system) for prompt in prompts]

    answer = await _answer(context, params, await context.read(read))
    if changed is not None:  # only now: neither a field nor the engine has refused the request
        context.services.system = changed
    return answer


async def infill(context: Context) -> Response:
    def read(fields: Fields, services: Services) -> tuple[LlamaCppParams, Request]:
        services.engine.capabilities.require("gap_filling")
        params = _read_params(fields, services)
        prefix, suffix = fields.need_text("input_prefix"), fields.need_text("input_suffix")
        files = _files(fields.raw("input_extra")) if fields.has("input_extra") else []
        ids = fill(services.engine, prefix + fields.text("prompt"), suffix, files)
        return params, params.of_prompt(ids, add_bos=True)

    params, request = await context.read(read)
    return await _answer(context, params, [request])


def _files(value: Any) -> list[tuple[str, str]]:
    """Names and texts of other files, to be read before the gap. Raises ApiError (400)."""
    files: list[tuple[str, str]] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else [None]:
        entry = Fields(cast("dict[str, Any]", item) if isinstance(item, dict) else {})
        if not isinstance(entry.raw("text"), str):
            raise bad("input_extra", "Field 'input_extra': expected objects with text and perhaps filename")
        files.append((entry.text("filename"), entry.text("text")))
    return files


async def _answer(context: Context, params: LlamaCppParams, requests: Sequence[Request]) -> Response:
    reply, services = CompletionReply(context.services, params), context.services
    answer = await context.reply(requests, reply, slot=params.id_slot)
    if params.id_slot >= 0 and not params.stream:  # whoever chose a slot comes back to it
        await pin(services, services.slots.all(services.max_n)[params.id_slot])
    return answer


class CompletionReply(BranchReply):
    """One object for each branch; or chunks with content, then a final object for each; no ``[DONE]``."""

    _params: LlamaCppParams

    def __init__(self, services: Services, params: LlamaCppParams) -> None:
        super().__init__(services, params)
        self._counts: dict[int, int] = {}
        self._prompts: dict[int, str] = {}

    def whole(self) -> Any:
        """One object, or as many as there are branches, made one by one."""
        results = (self._result(*one) for one in enumerate(self._record.branches))
        return next(results) if len(self._record.branches) == 1 else results

    def _result(self, index: int, branch: Branch) -> dict[str, Any]:
        params = self._params
        result = self._final(index, branch, tokens=params.return_tokens)
        if params.logprobs:
            tokens = branch_tokens(self._engine, branch)
            result["completion_probabilities"] = probabilities(
                self._engine, tokens, params.post_sampling_probs
            )
        return select(result, params.response_fields)

    def _final(
        self, index: int, branch: Branch, *, tokens: bool = False, stream: bool = False
    ) -> dict[str, Any]:
        generation = branch.generation
        if generation.number not in self._prompts:
            self._prompts[generation.number] = prompt_text(self._engine, generation)
        return final_object(
            self._services, self._record, branch, self._params, index, self._prompts[generation.number],
            tokens=tokens, stream=stream,
        )  # fmt: skip

    def _reading(self, number: int, extra: dict[str, Any]) -> str:
        return frame({**self._base(self._index(number, 0), "", []), **extra})

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        self._counts[index] = self._counts.get(index, 0) + len(piece.ids)
        chunk = self._base(index, piece.text, piece.ids)
        if self._params.logprobs:
            known = probabilities(self._engine, piece.tokens, self._params.post_sampling_probs)
            chunk["completion_probabilities"] = known
        if not piece.text and not chunk.get("completion_probabilities"):
            return
        if self._params.timings_per_token:
            chunk["timings"] = timings(*self._of(index))
        out.append(frame(chunk))

    def _base(self, index: int, text: str, ids: Sequence[int]) -> dict[str, Any]:
        return {
            "index": index,
            "content": text,
            "tokens": list(ids),
            "stop": False,
            "id_slot": self._record.slot(index),
            "tokens_predicted": self._counts.get(index, 0),
            "tokens_evaluated": len(self._of(index)[0].prompt_ids),
        }

    def _finish(self, out: list[str], index: int, last: Finished) -> None:
        value = self._final(index, self._of(index)[1], stream=True)
        out.append(frame(select(value, self._params.response_fields)))


# ---- reading


def _read_system_prompt(fields: Fields, context: Context) -> SystemPrompt | None:
    """Return the text that the body puts before every later prompt, as llama.cpp did. Raises ApiError."""
    value = fields.raw("system_prompt")
    if value is None:
        return None
    if not context.client.admin:
        raise ApiError(403, "system_prompt stands before the prompts of all clients: it takes an admin key")
    if isinstance(value, str):
        return SystemPrompt(value)
    inner = fields.mapping("system_prompt")
    assert inner is not None
    given = Fields(inner)
    return SystemPrompt(given.text("prompt"), given.text("anti_prompt"), given.text("assistant_name"))


# ---- probabilities and fields


def probabilities(engine: Backend, tokens: Sequence[Written], post: bool) -> list[dict[str, Any]]:
    """``completion_probabilities`` in today's shape, with the 2024 one beside it."""
    return [_probability(engine, token, post) for token in tokens if token.logprob is not None]


def _probability(engine: Backend, token: Written, post: bool) -> dict[str, Any]:
    known = token.logprob
    assert known is not None
    top = [(id, logprob) for id, logprob in known.top if not post or math.exp(logprob) > 0]
    return {
        **_entry(engine, token.id, known.logprob, post),
        "top_probs" if post else "top_logprobs": [_entry(engine, id, logprob, post) for id, logprob in top],
        "content": token_text(engine, token.id),
        "probs": [{"tok_str": token_text(engine, id), "prob": math.exp(logprob)} for id, logprob in top],
    }


def _entry(engine: Backend, id: int, logprob: float, post: bool) -> dict[str, Any]:
    known = {"prob": math.exp(logprob)} if post else {"logprob": finite(logprob)}
    return entry(engine, id, **known)


def select(value: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Only ``fields``; ``a/b`` takes b out of a and puts it at the top, as llama.cpp does."""
    if not fields:
        return dict(value)
    chosen: dict[str, Any] = {}
    for path in fields:
        found: Any = value
        for part in path.split("/"):
            found = found.get(part) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if found is not None:
            chosen[path.rsplit("/", 1)[-1]] = found
    return chosen


async def tokenize(context: Context) -> Response:
    """``{content}`` is llama.cpp's question, ``{prompt}`` vLLM's; one answer serves both."""
    fields = await context.fields()
    theirs = "content" not in fields.values and "prompt" in fields.values
    text: Any = fields.raw("content")
    special = fields.flag("add_special", fields.flag("add_bos", theirs))
    pieces = fields.flag("with_pieces")
    special_texts = fields.flag("parse_special", True)
    if isinstance(text, list):  # llama.cpp takes texts and ids mixed
        mixed = cast("list[Any]", text)
        size = sum(len(item) if isinstance(item, str) else 1 for item in mixed)
        ids = await off_loop(
            size * PER_BYTE, lambda: read_mixed("content", mixed, context.engine, special, special_texts)
        )
    else:
        text = fields.text("prompt" if theirs else "content")
        ids = await context.services.tokenize(text, add_bos=special, parse_special=special_texts)

    def make() -> dict[str, Any]:
        tokens = ({"id": id, "piece": _piece(context, id)} for id in ids) if pieces else ids
        return {"tokens": tokens, "count": len(ids), "max_model_len": context.engine.n_ctx}

    return await context.answer(len(ids) * PER_ENTRY, make)


def _piece(context: Context, id: int) -> str | list[int]:
    raw = context.engine.token_bytes(id)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(context: Context) -> Response:
    """``content`` is llama.cpp's answer, ``prompt`` vLLM's."""
    value = (await context.fields()).raw("tokens")
    size = len(cast("list[Any]", value)) if isinstance(value, list) else 0

    def make() -> dict[str, str]:
        text = context.engine.detokenize(read_ids("tokens", value, context.engine))
        return {"content": text, "prompt": text}

    return await context.answer(size * PER_ENTRY, make)


async def apply_template(context: Context) -> Response:
    chat = await context.read(partial(read_chat, system=False), TEMPLATE_SECONDS)
    return json_response({"prompt": chat.prompt})
