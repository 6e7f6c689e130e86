"""``/completion`` and ``/infill``: what they ask for, and llama.cpp's shapes of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.infill import NO_MARKS
from srbwriter.engine.types import Finished, NotSupported, Prompt, PromptProgress, Text, TokenRun
from srbwriter.server.answers import final_object, progress, prompt_text, seconds, timings
from srbwriter.server.body import Body
from srbwriter.server.call import Call
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.follow import Follower
from srbwriter.server.params import Ask, read_common
from srbwriter.server.registry import Record
from srbwriter.server.services import SystemPrompt
from srbwriter.server.stream import PING, News, error_frame, frames, waiting_comment
from srbwriter.server.tokens import Tokens, Written, branch_tokens, token_text
from srbwriter.server.work import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAsk(Ask):
    """Everything but the prompt."""

    return_tokens: bool = False
    response_fields: tuple[str, ...] = ()
    id_slot: int = -1


def read_ask(body: Body, call: Call) -> NativeAsk:
    """Raises ApiError: 400 for a field that means nothing, 501 for what this server cannot do."""
    _refuse(body)
    last = call.services.max_n - 1
    return NativeAsk(
        **read_common(body, call),
        logprobs=body.size("logprobs", 0) or None,
        return_tokens=body.flag("return_tokens"),
        response_fields=body.texts("response_fields"),
        id_slot=body.integer("id_slot", body.integer("slot_id", -1, -1), -1, last, hard=True),
    )


async def completion(call: Call) -> Response:
    body = Body(await call.json())
    ask = await call.read(lambda: read_ask(body, call))
    _read_system_prompt(body, call)
    prompts = await call.services.read_prompts(body.raw("prompt"), call.effort)
    if "" in prompts and not call.services.system.prompt:
        raise bad("prompt", "Field 'prompt': empty")
    whole = await call.read(lambda: [_with_system(prompt, call) for prompt in prompts])
    return await _answer(call, ask, whole)


async def infill(call: Call) -> Response:
    body = Body(await call.json())
    if call.engine.fim is None:
        raise NotSupported(NO_MARKS)
    ask = await call.read(lambda: read_ask(body, call))
    for name in ("input_prefix", "input_suffix"):
        if not isinstance(body.raw(name), str):
            raise bad(name, f"Field '{name}': expected text")
    prefix = body.text("input_prefix") + body.text("prompt")
    files = _files(body.raw("input_extra")) if body.has("input_extra") else []
    ids = await call.services.infill(prefix, body.text("input_suffix"), files)
    return await _answer(call, ask, [ids], add_bos=True)


def _files(value: Any) -> list[tuple[str, str]]:
    """Names and texts of other files, to be read before the gap. Raises ApiError (400)."""
    files: list[tuple[str, str]] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else [None]:
        entry = Body(cast("dict[str, Any]", item) if isinstance(item, dict) else {})
        if not isinstance(entry.raw("text"), str):
            raise bad("input_extra", "Field 'input_extra': expected objects with text and perhaps filename")
        files.append((entry.text("filename"), entry.text("text")))
    return files


async def _answer(
    call: Call, ask: NativeAsk, prompts: Sequence[Prompt], add_bos: bool | None = None
) -> Response:
    requests = [ask.request(prompt, parse_special=True, add_bos=add_bos) for prompt in prompts]
    record = await call.submit(requests, slot=ask.id_slot)
    if ask.stream:
        return await call.stream(record, frames(call, record, CompletionFrames(call, record, ask)))
    return await call.collect(record, _whole(call, record, ask))


async def _whole(call: Call, record: Record, ask: NativeAsk) -> Response:
    with Follower(call.services.bridge, record.generations) as follower:
        await follower.finish()
    answer = await call.answer(seconds(record), lambda: _results(call, record, ask), record)
    await _keep_slot(call, record, ask)
    return answer


def _results(call: Call, record: Record, ask: NativeAsk) -> Any:
    """One object, or as many as there are branches, made one by one."""
    results = _each_result(call, record, ask)
    return next(results) if len(record.branches) == 1 else results


def _each_result(call: Call, record: Record, ask: NativeAsk) -> Iterator[dict[str, Any]]:
    engine, index = call.engine, 0
    for generation in record.generations:
        prompt = prompt_text(engine, generation)
        for branch in generation.branches:
            result = final_object(
                engine, generation, branch, ask, index=index, slot=record.slot(index),
                model=call.services.model_name, prompt=prompt, tokens=ask.return_tokens,
            )  # fmt: skip
            if ask.logprobs:
                tokens = branch_tokens(engine, branch)
                result["completion_probabilities"] = probabilities(engine, tokens, ask.post_sampling_probs)
            yield select(result, ask.response_fields)
            index += 1


async def _keep_slot(call: Call, record: Record, ask: NativeAsk) -> None:
    """A client that chose its slot will come back to it: keep what it left in the cache."""
    if ask.id_slot >= 0 and record.slots:
        await call.services.pin_slot(call.services.slots.all(call.services.max_n)[ask.id_slot])


class CompletionFrames:
    """Chunks with content, then one final object for each index; no ``[DONE]``."""

    ping = PING

    def __init__(self, call: Call, record: Record, ask: NativeAsk) -> None:
        self._call, self._record, self._ask = call, record, ask
        self._tokens: dict[tuple[int, int], Tokens] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._prompts: dict[int, str] = {}

    def batch(self, news: News) -> bytes:
        texts: dict[tuple[int, int], list[Text]] = {}
        ends: dict[tuple[int, int], Finished] = {}
        out: list[bytes] = []
        for number, event in news:
            if isinstance(event, Text):
                texts.setdefault((number, event.branch), []).append(event)
            elif isinstance(event, Finished):
                ends[number, event.branch] = event
            elif isinstance(event, PromptProgress) and self._ask.return_progress:
                out.append(self._progress(number, event))
        for place in dict.fromkeys((*texts, *ends)):
            last = place in ends
            if place in texts:
                out.append(self._chunk(place, texts[place], last))
            if last:
                out.append(self._final(place))
        return b"".join(out)

    def waiting(self, place: int) -> bytes:
        if not self._ask.return_progress:
            return waiting_comment(place)
        generation = self._record.generations[0]
        total, now = len(generation.prompt_ids), self._call.now()
        told = progress(generation, PromptProgress(0, total, 0), now)
        told["prompt_progress"]["queue"] = place
        return _frame({**self._base((0, 0), "", []), **told})

    def end(self) -> bytes:
        return b""

    def error(self, error: ApiError) -> bytes:
        return error_frame(self._call, error)

    def _chunk(self, place: tuple[int, int], events: Sequence[Text], last: bool) -> bytes:
        generation = self._record.generations[place[0]]
        ids = [id for event in events for id in event.ids]
        self._counts[place] = self._counts.get(place, 0) + len(ids)
        text = "".join([event.text for event in events])
        chunk = self._base(place, text, ids)
        if self._ask.logprobs:
            tokens = self._tokens.get(place)
            if tokens is None:
                overlap = generation.branches[place[1]].overlap
                tokens = self._tokens[place] = Tokens(self._call.engine, overlap)
            known = [entry for event in events for entry in event.logprobs]
            written = tokens.feed(text, ids, known, last)
            chunk["completion_probabilities"] = probabilities(
                self._call.engine, written, self._ask.post_sampling_probs
            )
        if not text and not chunk.get("completion_probabilities"):
            return b""
        if self._ask.timings_per_token:
            chunk["timings"] = timings(generation, generation.branches[place[1]])
        return _frame(chunk)

    def _progress(self, number: int, event: PromptProgress) -> bytes:
        generation = self._record.generations[number]
        return _frame({**self._base((number, 0), "", []), **progress(generation, event, self._call.now())})

    def _base(self, place: tuple[int, int], text: str, ids: list[int]) -> dict[str, Any]:
        return {
            "index": self._index(place),
            "content": text,
            "tokens": ids,
            "stop": False,
            "id_slot": self._record.slot(self._index(place)),
            "tokens_predicted": self._counts.get(place, 0),
            "tokens_evaluated": len(self._record.generations[place[0]].prompt_ids),
        }

    def _final(self, place: tuple[int, int]) -> bytes:
        generation = self._record.generations[place[0]]
        if place[0] not in self._prompts:
            self._prompts[place[0]] = prompt_text(self._call.engine, generation)
        index = self._index(place)
        value = final_object(
            self._call.engine, generation, generation.branches[place[1]], self._ask, index=index,
            slot=self._record.slot(index), model=self._call.services.model_name,
            prompt=self._prompts[place[0]], stream=True,
        )  # fmt: skip
        return _frame(select(value, self._ask.response_fields))

    def _index(self, place: tuple[int, int]) -> int:
        return place[0] * self._ask.n + place[1]


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


# ---- reading


def _refuse(body: Body) -> None:
    if body.raw("image_data") or body.raw("multimodal_data"):
        raise ApiError(501, "this model reads text only; no images or other media")


def _read_system_prompt(body: Body, call: Call) -> None:
    """``system_prompt`` changes what stands before every prompt from now on, as the field always did."""
    value = body.raw("system_prompt")
    if value is None:
        return
    if not call.client.admin:
        raise ApiError(403, "system_prompt stands before the prompts of all clients: it takes an admin key")
    if isinstance(value, str):
        call.services.system = SystemPrompt(value)
        return
    fields = body.mapping("system_prompt")
    assert fields is not None
    inner = Body(fields)
    call.services.system = SystemPrompt(
        inner.text("prompt"), inner.text("anti_prompt"), inner.text("assistant_name")
    )


def _with_system(prompt: Prompt, call: Call) -> Prompt:
    system = call.services.system.prompt
    if not system:
        return prompt
    if isinstance(prompt, str):
        return (TokenRun(system), TokenRun(prompt)) if prompt else (TokenRun(system),)
    ids = tuple(item for item in prompt if isinstance(item, int))
    if not ids:
        raise bad("prompt", "Field 'prompt': empty")
    return (TokenRun(system), TokenRun(call.engine.detokenize(ids), ids))


# ---- probabilities and fields


_LEAST = -9999.0


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
    value = {"prob": math.exp(logprob)} if post else {"logprob": max(logprob, _LEAST)}
    return {"id": id, "token": token_text(engine, id), "bytes": list(engine.token_bytes(id)), **value}


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
