"""``/completion``, ``/infill``, tokens and templates: what they ask for, and the shapes of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.infill import NO_MARKS
from srbwriter.engine.types import Finished, NotSupported, Request
from srbwriter.server.answers import (
    Written,
    branch_tokens,
    entry,
    final_object,
    finite,
    prompt_text,
    timings,
    token_text,
)
from srbwriter.server.chat import read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import Fields, read_ids, read_mixed, refuse_media
from srbwriter.server.params import Params, read_common
from srbwriter.server.registry import Record
from srbwriter.server.streams import BranchFrames, Piece, frame
from srbwriter.server.system_prompt import SystemPrompt
from srbwriter.server.work import PER_BYTE, PER_ENTRY, off_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppParams(Params):
    """Everything but the prompt."""

    return_tokens: bool = False
    response_fields: tuple[str, ...] = ()
    id_slot: int = -1


def read_params(fields: Fields, context: Context) -> LlamaCppParams:
    """Raises ApiError: 400 for a field that means nothing, 501 for what this server cannot do."""
    refuse_media(fields)
    last = context.services.max_n - 1
    return LlamaCppParams(
        **read_common(fields, context),
        logprobs=fields.size("logprobs", 0) or None,
        return_tokens=fields.flag("return_tokens"),
        response_fields=fields.texts("response_fields"),
        id_slot=fields.integer("id_slot", fields.integer("slot_id", -1, -1), -1, last, hard=True),
    )


async def completion(context: Context) -> Response:
    fields = Fields(await context.json())
    params = await context.read(lambda: read_params(fields, context))
    _read_system_prompt(fields, context)
    prompts = await context.services.read_prompts(fields.raw("prompt"), context.effort)
    if "" in prompts and not context.services.system.prompt:
        raise bad("prompt", "Field 'prompt': empty")
    requests = await context.read(
        lambda: [
            context.services.put_system_before(params.request(prompt, parse_special=True))
            for prompt in prompts
        ]
    )
    return await _answer(context, params, requests)


async def infill(context: Context) -> Response:
    fields = Fields(await context.json())
    if context.engine.fim is None:
        raise NotSupported(NO_MARKS)
    params = await context.read(lambda: read_params(fields, context))
    prefix, suffix = fields.need_text("input_prefix"), fields.need_text("input_suffix")
    files = _files(fields.raw("input_extra")) if fields.has("input_extra") else []
    ids = await context.services.infill(prefix + fields.text("prompt"), suffix, files)
    return await _answer(context, params, [params.request(ids, parse_special=True, add_bos=True)])


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
    record = await context.submit(requests, slot=params.id_slot)
    if params.stream:
        return await context.stream(record, CompletionFrames(context, record, params))
    answer = await context.whole(record, lambda: _results(context, record, params))
    await _keep_slot(context, record, params)
    return answer


def _results(context: Context, record: Record, params: LlamaCppParams) -> Any:
    """One object, or as many as there are branches, made one by one."""
    results = _each_result(context, record, params)
    return next(results) if len(record.branches) == 1 else results


def _each_result(context: Context, record: Record, params: LlamaCppParams) -> Iterator[dict[str, Any]]:
    engine, index = context.engine, 0
    for generation in record.generations:
        prompt = prompt_text(engine, generation)
        for branch in generation.branches:
            result = final_object(context, record, branch, params, index, prompt, tokens=params.return_tokens)
            if params.logprobs:
                tokens = branch_tokens(engine, branch)
                result["completion_probabilities"] = probabilities(engine, tokens, params.post_sampling_probs)
            yield select(result, params.response_fields)
            index += 1


async def _keep_slot(context: Context, record: Record, params: LlamaCppParams) -> None:
    """A client that chose its slot will come back to it: keep what it left in the cache."""
    if params.id_slot >= 0 and record.slots:
        await context.services.pin_slot(context.services.slots.all(context.services.max_n)[params.id_slot])


class CompletionFrames(BranchFrames):
    """Chunks with content, then one final object for each index; no ``[DONE]``."""

    _params: LlamaCppParams

    def __init__(self, context: Context, record: Record, params: LlamaCppParams) -> None:
        super().__init__(context, record, params)
        self._counts: dict[int, int] = {}
        self._prompts: dict[int, str] = {}

    def _reading(self, number: int, told: dict[str, Any]) -> str:
        return frame({**self._base(self._index(number, 0), "", []), **told})

    def _piece(self, out: list[str], index: int, piece: Piece) -> None:
        self._counts[index] = self._counts.get(index, 0) + len(piece.ids)
        chunk = self._base(index, piece.text, piece.ids)
        if self._params.logprobs:
            known = probabilities(self._context.engine, piece.tokens, self._params.post_sampling_probs)
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
        generation, branch = self._of(index)
        if generation.number not in self._prompts:
            self._prompts[generation.number] = prompt_text(self._context.engine, generation)
        prompt = self._prompts[generation.number]
        value = final_object(self._context, self._record, branch, self._params, index, prompt, stream=True)
        out.append(frame(select(value, self._params.response_fields)))


# ---- reading


def _read_system_prompt(fields: Fields, context: Context) -> None:
    """``system_prompt`` changes what stands before every prompt from now on, as the field always did."""
    value = fields.raw("system_prompt")
    if value is None:
        return
    if not context.client.admin:
        raise ApiError(403, "system_prompt stands before the prompts of all clients: it takes an admin key")
    if isinstance(value, str):
        context.services.change_system_prompt(SystemPrompt(value))
        return
    inner = fields.mapping("system_prompt")
    assert inner is not None
    told = Fields(inner)
    names = told.text("anti_prompt"), told.text("assistant_name")
    context.services.change_system_prompt(SystemPrompt(told.text("prompt"), *names))


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
    fields = Fields(await context.json())
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
        told = ({"id": id, "piece": _piece(context, id)} for id in ids) if pieces else ids
        return {"tokens": told, "count": len(ids), "max_model_len": context.engine.n_ctx}

    return await context.answer(len(ids) * PER_ENTRY, make)


def _piece(context: Context, id: int) -> str | list[int]:
    raw = context.engine.token_bytes(id)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(context: Context) -> Response:
    """``content`` is llama.cpp's answer, ``prompt`` vLLM's."""
    value = Fields(await context.json()).raw("tokens")
    size = len(cast("list[Any]", value)) if isinstance(value, list) else 0

    def make() -> dict[str, str]:
        text = context.engine.detokenize(read_ids("tokens", value, context.engine))
        return {"content": text, "prompt": text}

    return await context.answer(size * PER_ENTRY, make)


async def apply_template(context: Context) -> Response:
    chat = await read_chat(Fields(await context.json()), context, system=False)
    return json_response({"prompt": chat.prompt})
