"""The dialects, side by side. They share the rooms around them, and each other's only where clients do."""

from __future__ import annotations

from starlette.responses import Response

from srbwriter.server.context import Context
from srbwriter.server.dialects.exllama import ENDPOINTS as EXLLAMA
from srbwriter.server.dialects.kobold import ENDPOINTS as KOBOLD
from srbwriter.server.dialects.llamacpp import ENDPOINTS as LLAMACPP
from srbwriter.server.dialects.ooba import ENDPOINTS as OOBA
from srbwriter.server.dialects.ooba import SOCKETS
from srbwriter.server.dialects.openai import ENDPOINTS as OPENAI
from srbwriter.server.dialects.openai.completions import completions as openai_completions
from srbwriter.server.dialects.srb import ENDPOINTS as SRB
from srbwriter.server.dialects.srb.completions import completions as srb_completions
from srbwriter.server.dialects.srb.completions import is_srb
from srbwriter.server.dialects.tabby import ENDPOINTS as TABBY
from srbwriter.server.dialects.tabby import VLLM
from srbwriter.server.endpoints import COMPLETION, Endpoint, rows_of
from srbwriter.server.schemas import answers


async def shared_completions(context: Context) -> Response:
    """``/v1/completions`` belongs to two dialects; the body tells which one is spoken."""
    complete = srb_completions if is_srb(await context.json()) else openai_completions
    return await complete(context)


SHARED = (
    rows_of("openai")(
        "POST /v1/completions", shared_completions,
        "branches of a prompt: event lines for a bare body, OpenAI's answer for one that names a model, "
        "stream, echo, logprobs, best_of, suffix or stream_options",
        body=COMPLETION, answers=answers("Completion", "CompletionChunk OpenAIError", "SrbEvent"),
        errors=("OpenAIError", "SrbError"),
    ),
)  # fmt: skip

ENDPOINTS: tuple[Endpoint, ...] = (
    *SHARED, *SRB, *OPENAI, *LLAMACPP, *KOBOLD, *OOBA, *TABBY, *VLLM, *EXLLAMA,
)  # fmt: skip

__all__ = ["ENDPOINTS", "SHARED", "SOCKETS"]
