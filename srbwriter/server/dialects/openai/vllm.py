"""Fields that vLLM's clients send beside OpenAI's: which are honoured, ignored or refused, in one table."""

from __future__ import annotations

from typing import Any

from srbwriter.server.body import Body
from srbwriter.server.errors import bad

HONOURED = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "add_special_tokens",
    "response_format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
)
"""Mean here what they mean there."""

IGNORED = (
    "length_penalty",
    "spaces_between_special_tokens",
    "skip_special_tokens",
    "priority",
    "request_id",
    "cache_salt",
    "return_tokens_as_token_ids",
    "user",
    "service_tier",
    "store",
    "metadata",
)
"""Change nothing about the text, or only what this server decides for itself."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "use_beam_search": (False,),
    "logits_processors": ([],),
    "allowed_token_ids": ([],),
    "truncate_prompt_tokens": (),
    "prompt_logprobs": (),
}
"""Refused with a 400 unless null or one of these values: leaving them out would change what is meant."""

_GUIDES = ("json_schema", "regex", "guided_choice", "grammar")


def refuse_unsupported(body: Body) -> None:
    """Raises ApiError (400) for a field that cannot be honoured and must not be ignored."""
    for name, neutral in NEUTRAL.items():
        value = body.values.get(name)
        if value is not None and value not in neutral:
            raise bad(name, f"Field '{name}': not supported by this server")
    found = (body.found(name) for name in _GUIDES)
    given = [spelling for spelling, value in found if value not in (None, "", [])]
    if len(given) > 1:
        raise bad(given[1], f"Field '{given[1]}': only one constraint is possible, and {given[0]} is given")
