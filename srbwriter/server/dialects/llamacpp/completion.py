"""``/completion`` and ``/infill``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.types import Finished, Prompt, PromptProgress, Text
from srbwriter.server.body import Body
from srbwriter.server.call import Call, encode, json_response
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.follow import Follower
from srbwriter.server.registry import Record
from srbwriter.server.stream import PING, News, error_frame, frames
from srbwriter.server.tokens import Tokens, branch_tokens

from .ask import Ask, read_ask, read_system_prompt, with_system
from .shape import final_object, probabilities, select, timings


async def completion(call: Call) -> Response:
    body = Body(await call.json())
    ask = read_ask(body, call)
    read_system_prompt(body, call)
    prompts = await call.services.read_prompts(body.raw("prompt"))
    if "" in prompts and not call.services.system.prompt:
        raise bad("prompt", "Field 'prompt': empty")
    return await _answer(call, ask, [with_system(prompt, call) for prompt in prompts])


async def infill(call: Call) -> Response:
    body = Body(await call.json())
    if call.engine.fim is None:
        raise ApiError(501, "this model has no tokens for filling a gap in a text")
    ask = read_ask(body, call)
    for name in ("input_prefix", "input_suffix"):
        if not isinstance(body.raw(name), str):
            raise bad(name, f"Field '{name}': expected text")
    prefix = body.text("input_prefix") + body.text("prompt")
    extra = _extra(body.raw("input_extra")) if body.has("input_extra") else ""
    ids = await call.services.infill(prefix, body.text("input_suffix"), extra)
    return await _answer(call, ask, [ids], add_bos=True)


def _extra(value: Any) -> str:
    """Other files of the project, to be read before the gap. Raises ApiError (400)."""
    parts: list[str] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else [None]:
        entry = Body(cast("dict[str, Any]", item) if isinstance(item, dict) else {})
        if not isinstance(entry.raw("text"), str):
            raise bad("input_extra", "Field 'input_extra': expected objects with text and perhaps filename")
        name = entry.text("filename")
        parts.append((f"{name}\n" if name else "") + entry.text("text") + "\n")
    return "".join(parts)


async def _answer(
    call: Call, ask: Ask, prompts: Sequence[Prompt], add_bos: bool | None = None
) -> Response:
    record = await call.services.submit(
        [ask.request(prompt, call, add_bos) for prompt in prompts], "llamacpp", call.id
    )
    record.slots = call.services.slots.assign(record, call.services.max_n, ask.id_slot)
    if ask.stream:
        return await call.stream(record, frames(call, record, CompletionFrames(call, record, ask)))
    return await call.collect(record, _whole(call, record, ask))


async def _whole(call: Call, record: Record, ask: Ask) -> Response:
    with Follower(call.services.bridge, record.generations) as follower:
        await follower.finish()
    engine, name = call.engine, call.services.model_name
    results: list[dict[str, Any]] = []
    for generation in record.generations:
        for branch in generation.branches:
            result = final_object(
                engine,
                generation,
                branch,
                ask,
                index=len(results),
                slot=record.slot(branch.index),
                model=name,
                stream=False,
            )
            if ask.n_probs:
                tokens = branch_tokens(engine, branch)
                result["completion_probabilities"] = probabilities(engine, tokens, ask.post_sampling_probs)
            results.append(select(result, ask.response_fields))
    await keep_slot(call, record, ask)
    return json_response(results[0] if len(results) == 1 else results)


async def keep_slot(call: Call, record: Record, ask: Ask) -> None:
    """A client that chose its slot will come back to it: keep what it left in the cache."""
    if ask.id_slot >= 0 and record.slots:
        await call.services.pin_slot(call.services.slots.all(call.services.max_n)[ask.id_slot])


class CompletionFrames:
    """Chunks with content, then one final object for each index; no ``[DONE]``."""

    ping = PING

    def __init__(self, call: Call, record: Record, ask: Ask) -> None:
        self._call, self._record, self._ask = call, record, ask
        self._tokens: dict[tuple[int, int], Tokens] = {}
        self._counts: dict[tuple[int, int], int] = {}

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
        if self._ask.n_probs:
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
        chunk = self._base((number, 0), "", [])
        milliseconds = (self._call.now() - generation.submitted_at) * 1000
        chunk["prompt_progress"] = {
            "total": event.total,
            "cache": event.cached,
            "processed": event.done,
            "time_ms": milliseconds,
        }
        return _frame(chunk)

    def _base(self, place: tuple[int, int], text: str, ids: list[int]) -> dict[str, Any]:
        return {
            "index": self._index(place),
            "content": text,
            "tokens": ids,
            "stop": False,
            "id_slot": self._record.slot(place[1]),
            "tokens_predicted": self._counts.get(place, 0),
            "tokens_evaluated": len(self._record.generations[place[0]].prompt_ids),
        }

    def _final(self, place: tuple[int, int]) -> bytes:
        generation = self._record.generations[place[0]]
        value = final_object(
            self._call.engine,
            generation,
            generation.branches[place[1]],
            self._ask,
            index=self._index(place),
            slot=self._record.slot(place[1]),
            model=self._call.services.model_name,
            stream=True,
        )
        return _frame(select(value, self._ask.response_fields))

    def _index(self, place: tuple[int, int]) -> int:
        return place[0] * self._ask.n + place[1]


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + encode(value) + b"\n\n"
