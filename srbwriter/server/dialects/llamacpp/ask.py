"""What a llama.cpp request asks for, as the engine's Requests."""

from __future__ import annotations

from dataclasses import dataclass

from srbwriter.engine.types import Prompt, Request, Sampling, Stop, TokenRun
from srbwriter.server.body import Body
from srbwriter.server.call import Call
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.params import Options, branch_samplings, read_n, read_options, read_sampling, read_stop
from srbwriter.server.prompt import wants_bos
from srbwriter.server.services import SystemPrompt


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything but the prompt."""

    n: int
    sampling: Sampling
    stop: Stop
    n_probs: int
    post_sampling_probs: bool
    options: Options
    stream: bool
    return_tokens: bool
    return_progress: bool
    timings_per_token: bool
    response_fields: tuple[str, ...]
    id_slot: int

    def request(self, prompt: Prompt, call: Call, add_bos: bool | None = None) -> Request:
        return Request(
            prompt=prompt,
            n=self.n,
            sampling=branch_samplings(self.sampling, self.n),
            stop=self.stop,
            logprobs=self.n_probs or None,
            add_bos=wants_bos(prompt) if add_bos is None else add_bos,
            parse_special=True,  # as its server reads every prompt
            **self.options,
            label=call.id,
        )


def read_ask(body: Body, call: Call) -> Ask:
    """Raises ApiError: 400 for a field that means nothing, 501 for what this server cannot do."""
    _refuse(body)
    base = call.settings.n_predict
    slots = call.services.max_n
    return Ask(
        n=read_n(body, 1, slots),
        sampling=read_sampling(body, call.settings.sampling, call.engine),
        stop=read_stop(body, Stop(max_tokens=base if base >= 0 else None)),
        n_probs=body.size("logprobs", 0),
        post_sampling_probs=body.flag("post_sampling_probs"),
        options=read_options(body, call.settings.context_shift, call.engine),
        stream=body.flag("stream"),
        return_tokens=body.flag("return_tokens"),
        return_progress=body.flag("return_progress"),
        timings_per_token=body.flag("timings_per_token"),
        response_fields=body.texts("response_fields"),
        id_slot=body.integer("id_slot", body.integer("slot_id", -1, -1), -1, slots - 1, hard=True),
    )


def _refuse(body: Body) -> None:
    if body.raw("image_data") or body.raw("multimodal_data"):
        raise ApiError(501, "this model reads text only; no images or other media")


def read_system_prompt(body: Body, call: Call) -> None:
    """``system_prompt`` changes what stands before every prompt from now on, as the field always did."""
    value = body.raw("system_prompt")
    if value is None:
        return
    if isinstance(value, str):
        call.services.system = SystemPrompt(value)
        return
    fields = body.mapping("system_prompt")
    assert fields is not None
    inner = Body(fields)
    call.services.system = SystemPrompt(
        inner.text("prompt"), inner.text("anti_prompt"), inner.text("assistant_name")
    )


def with_system(prompt: Prompt, call: Call) -> Prompt:
    system = call.services.system.prompt
    if not system:
        return prompt
    if isinstance(prompt, str):
        return (TokenRun(system), TokenRun(prompt)) if prompt else (TokenRun(system),)
    ids = tuple(item for item in prompt if isinstance(item, int))
    if not ids:
        raise bad("prompt", "Field 'prompt': empty")
    return (TokenRun(system), TokenRun(call.engine.detokenize(ids), ids))
