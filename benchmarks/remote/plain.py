"""A simple client: httpx, lines, json. It parses the same stream and counts its tokens."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Score:
    tokens: int
    seconds: float  # from the request to the end of the last answer
    first: float  # to the first text

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


async def ask(url: str, path: str, bodies: list[dict[str, Any]]) -> Score:
    """All of ``bodies`` at once."""
    begun, first, tokens = time.perf_counter(), 0.0, 0
    limits = httpx.Limits(max_connections=256, max_keepalive_connections=256)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        await client.get("/v1/models")  # a connection is open, as one of ours is
        begun = time.perf_counter()

        async def one(body: dict[str, Any]) -> None:
            nonlocal first, tokens
            async with client.stream("POST", path, json=body) as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    came = count(json.loads(line[6:]))
                    if came and not first:
                        first = time.perf_counter() - begun
                    tokens += came

        await asyncio.gather(*map(one, bodies))
        return Score(tokens, time.perf_counter() - begun, first)


def count(event: dict[str, Any]) -> int:
    """Tokens that an event of vLLM, llama-server or srbwriter brings."""
    if "choices" in event:
        return sum(len(choice.get("token_ids") or ()) for choice in event["choices"])
    ids = event.get("ids", () if event.get("stop") else event.get("tokens"))
    return len(ids) if isinstance(ids, list) else 0
