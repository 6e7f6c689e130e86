"""Which dialect a server speaks best, found out by asking it."""

from __future__ import annotations

from ..options import RemoteOptions
from ..problems import RemoteError
from ..transport import Transport
from .base import Dialect, not_found
from .koboldcpp import KoboldCpp
from .llamacpp import LlamaCpp
from .openai import VLLM, OpenAI, SGLang, cards_of
from .srb import Srb

_BY_NAME: dict[str, type[Dialect]] = {
    "vllm": VLLM, "openai": OpenAI, "llamacpp": LlamaCpp, "srb": Srb, "koboldcpp": KoboldCpp
}  # fmt: skip


async def dialect_of(transport: Transport, options: RemoteOptions) -> Dialect:
    """The dialect that the options name, or the best that the server speaks. Raises RemoteError."""
    if options.dialect not in ("auto", "vllm"):
        return _BY_NAME[options.dialect](transport, options)
    kind = await _found(transport)
    if options.dialect == "vllm" and kind is not SGLang:
        kind = VLLM
    return kind(transport, options)


async def _found(transport: Transport) -> type[Dialect]:
    try:
        cards = cards_of(await transport.ask("GET", "/v1/models"))
    except RemoteError as error:
        if not not_found(error):
            raise
        return KoboldCpp if await _answers(transport, "/api/extra/version") else OpenAI
    card = cards[0] if cards else {}
    owner = str(card.get("owned_by", "")).lower()
    if owner == "llamacpp":
        return Srb if "engine_state" in card else LlamaCpp
    if owner == "koboldcpp" or str(card.get("id", "")).startswith("koboldcpp/"):
        return KoboldCpp
    return {"vllm": VLLM, "sglang": SGLang}.get(owner, OpenAI)


async def _answers(transport: Transport, path: str) -> bool:
    try:
        await transport.ask("GET", path)
    except RemoteError as error:
        if error.again and not not_found(error):
            raise
        return False
    return True
