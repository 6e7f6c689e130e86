"""``/v1/completions`` and ``/v1/chat/completions`` in OpenAI's dialect: every sampler, and tools."""

from __future__ import annotations

from typing import cast

from starlette.responses import Response

from srbwriter.engine.limits import check_prompt, check_range
from srbwriter.engine.types import NotSupported, Prompt, Request, Stop
from srbwriter.server.body import Fields
from srbwriter.server.chat import TEMPLATE_SECONDS, read_chat
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.openai.params import OpenAIParams, read_openai
from srbwriter.server.dialects.openai.replies import ChatReply, CompletionReply, prompt_words
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.prompts import fill, read_prompts, wants_bos
from srbwriter.server.services import Services
from srbwriter.server.tools import refused


async def completions(context: Context) -> Response:
    requests, reply = await context.read(_read)
    return await context.reply(requests, reply)


def _read(fields: Fields, services: Services) -> tuple[list[Request], CompletionReply]:
    """A request for each prompt of a body, and the reply to all. Raises ApiError (400)."""
    engine, suffix, add_bos = services.engine, fields.text("suffix"), fields.flag("add_bos", True)
    params = read_openai(fields, services, _logprobs(fields))
    prompts = read_prompts(fields.raw("prompt"), engine)
    if fields.has("truncate_prompt_tokens"):
        prompts = [_truncated(params, fields, services, prompt) for prompt in prompts]
    if not suffix:
        requests = [
            services.put_system_before(params.of_prompt(prompt, add_bos=add_bos and wants_bos(prompt)))
            for prompt in prompts
        ]
    elif params.echo:
        raise bad("suffix", "Field 'suffix': cannot be combined with echo")
    else:
        check_prompt("suffix", sum(len(prompt) + len(suffix) for prompt in prompts))
        try:
            filled = [fill(engine, prompt, suffix) for prompt in prompts]
        except NotSupported as error:  # not 501: clients would try again
            raise bad("suffix", f"Field 'suffix': {error}") from None
        requests = [params.of_prompt(ids, add_bos=add_bos) for ids in filled]
    echoed = [prompt_words(engine, request.prompt) for request in requests] if params.echo else []
    return requests, CompletionReply(services, params, echoed)


def _logprobs(fields: Fields) -> int | None:
    value = fields.values.get("logprobs")
    if value is None or value is False:
        return None
    if value is True:
        return fields.size("top_logprobs", 1, like="logprobs")
    top = Fields({"logprobs": value})
    if top.integer("logprobs", 0) < 0:
        raise bad("logprobs", "Field 'logprobs': it cannot be less than 0")
    return top.size("logprobs", 0)


def _truncated(params: OpenAIParams, fields: Fields, services: Services, prompt: Prompt) -> Prompt:
    """The last so many tokens of a prompt; -1 is as many as fit."""
    most = fields.integer("truncate_prompt_tokens", -1)
    check_range("truncate_prompt_tokens", most, -1, services.engine.n_ctx)
    if most == 0:
        raise bad("truncate_prompt_tokens", "Field 'truncate_prompt_tokens': at least one, or -1")
    keep = (
        most
        if most > 0
        else max(services.engine.n_ctx - (cast("Stop", params.request.stop).max_tokens or 0) - 1, 1)
    )
    if isinstance(prompt, str):
        ids = services.engine.tokenize(prompt, add_bos=fields.flag("add_bos", True))
        return prompt if len(ids) <= keep else ids[-keep:]
    return prompt[-keep:]


# ---- chat

_DEFAULT_TOP = 20


async def chat_completions(context: Context) -> Response:
    request, params = await context.read(read_chat_request, TEMPLATE_SECONDS)
    reply = ChatReply(context.services, params)
    try:
        return await context.reply([request], reply)
    except ApiError as error:
        raise refused(error) if params.tools is not None else error from None


def read_chat_request(fields: Fields, services: Services) -> tuple[Request, OpenAIParams]:
    """What continues a conversation. Raises ApiError (400)."""
    for name in ("truncate_prompt_tokens", "prompt_logprobs"):
        if fields.has(name):
            raise bad(name, f"Field '{name}': for /v1/completions only")
    chat = read_chat(fields, services)
    params = read_openai(fields, services, _chat_logprobs(fields), chat.stops, chat.tools)
    return params.of_prompt(chat.prompt, parse_special=True, add_bos=chat.add_bos), params


async def input_tokens(context: Context) -> Response:
    def read(fields: Fields, services: Services) -> int:
        chat = read_chat(fields, services)
        return len(services.engine.tokenize(chat.prompt, add_bos=chat.add_bos, parse_special=True))

    count = await context.read(read, TEMPLATE_SECONDS)
    return json_response({"object": "response.input_tokens", "input_tokens": count})


def _chat_logprobs(fields: Fields) -> int | None:
    wanted = Fields({"logprobs": fields.values.get("logprobs")}).flag("logprobs")
    top = fields.size("top_logprobs", _DEFAULT_TOP, like="logprobs")
    if not wanted:
        if fields.values.get("top_logprobs"):
            raise bad("top_logprobs", "Field 'top_logprobs': needs logprobs to be true")
        return None
    return top
