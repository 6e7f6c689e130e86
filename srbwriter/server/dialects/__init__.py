"""The dialects, side by side. They share the rooms around them and never each other."""

from __future__ import annotations

from starlette.responses import Response

from srbwriter.server.call import Call
from srbwriter.server.endpoint import Endpoint
from srbwriter.server.schema import COMPLETION

from .llamacpp.table import ENDPOINTS as LLAMACPP
from .openai.completions import completions as openai_completions
from .openai.table import ENDPOINTS as OPENAI
from .srb.completions import completions as srb_completions
from .srb.completions import is_srb
from .srb.table import ENDPOINTS as SRB


async def shared_completions(call: Call) -> Response:
    """``/v1/completions`` belongs to two dialects; the body tells which one is spoken."""
    answer = srb_completions if is_srb(await call.json()) else openai_completions
    return await answer(call)


SHARED = (
    Endpoint(
        "POST",
        ("/v1/completions",),
        shared_completions,
        "openai",
        "branches of a prompt: event lines for a bare body, OpenAI's answer for one that names a model, "
        "stream, echo, logprobs, best_of, suffix or stream_options",
        body=COMPLETION,
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = (*SHARED, *SRB, *OPENAI, *LLAMACPP)
