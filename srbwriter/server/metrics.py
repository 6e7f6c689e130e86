"""Figures in Prometheus' text format, under llama.cpp's names of today and of 2024.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format, version 0.0.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from srbwriter.engine.types import EngineStats

from .auth import Client
from .services import Services

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Figure(NamedTuple):
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    value: float


def exposition(services: Services, client: Client) -> str:
    """All figures; valid while the model is being loaded too, when the engine's are 0.

    What clients have asked for is told to each of itself, and of all to an admin.
    """
    engine = services.loader.engine
    stats = engine.stats() if engine is not None else EngineStats()
    return "".join(
        f"# HELP llamacpp:{f.name} {f.help}\n"
        f"# TYPE llamacpp:{f.name} {f.kind}\n"
        f"llamacpp:{f.name} {_number(f.value)}\n"
        for f in _figures(services, stats)
    ) + "".join(_of_clients(services, client))


def _of_clients(services: Services, client: Client) -> Iterator[str]:
    shares = services.registry.shares().items()
    told = [(name, share) for name, share in shares if client.admin or name == client.name]
    for field, kind, help in (
        ("requests", "counter", "Requests of a client."),
        ("tokens", "counter", "Tokens written for a client."),
        ("branches", "gauge", "Branches of a client that are live."),
        ("waiting", "gauge", "Requests of a client that wait for room."),
    ):
        name = f"srbwriter:client_{field}" + ("_total" if kind == "counter" else "")
        yield f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
        for label, share in told:
            yield f'{name}{{client="{_escaped(label)}"}} {getattr(share, field)}\n'


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _figures(services: Services, stats: EngineStats) -> Iterator[Figure]:
    yield Figure("prompt_tokens_total", "counter", "Prompt tokens evaluated.", stats.prompt_rows)
    yield Figure(
        "prompt_tokens_cached_total", "counter", "Prompt tokens found in the cache.", stats.reused_tokens
    )
    yield Figure("prompt_seconds_total", "counter", "Seconds spent on prompts.", stats.prompt_seconds)
    yield Figure("tokens_predicted_total", "counter", "Tokens written.", stats.generated_tokens)
    yield Figure(
        "tokens_predicted_seconds_total", "counter", "Seconds spent on writing.", stats.decode_seconds
    )
    yield Figure("n_decode_total", "counter", "Calls of llama_decode.", stats.decodes)
    yield Figure("n_tokens_max", "counter", "Most tokens seen in one sequence.", services.tokens_max)
    for name in ("draft_tokens", "accepted_tokens", "drafts"):
        yield Figure(f"spec_decode_num_{name}_total", "counter", "Speculative decoding; not done here.", 0)
    yield Figure(
        "prompt_tokens_seconds",
        "gauge",
        "Mean prompt tokens a second.",
        _ratio(stats.prompt_rows, stats.prompt_seconds),
    )
    yield Figure(
        "predicted_tokens_seconds",
        "gauge",
        "Mean tokens written a second.",
        _ratio(stats.generated_tokens, stats.decode_seconds),
    )
    yield Figure("requests_processing", "gauge", "Requests being answered.", len(services.registry.live()))
    yield Figure("requests_deferred", "gauge", "Requests that wait for room.", stats.waiting_requests)
    yield Figure(
        "n_busy_slots_per_decode",
        "gauge",
        "Mean branches in one llama_decode.",
        _ratio(stats.branch_rows, stats.decodes),
    )
    yield Figure(
        "kv_cache_usage_ratio",
        "gauge",
        "Share of the KV cache in use.",
        _ratio(stats.used_cells, stats.total_cells),
    )
    yield Figure("kv_cache_tokens", "gauge", "Tokens in the KV cache.", stats.used_cells)
    yield Figure("host_cache_bytes", "gauge", "Bytes of memory for what left the cache.", stats.host_bytes)
    yield Figure("disk_cache_bytes", "gauge", "Bytes on disk for what is to outlive it.", stats.disk_bytes)
    yield Figure("tokens_saved_total", "counter", "Tokens copied out of the cache.", stats.saved_tokens)
    yield Figure("tokens_restored_total", "counter", "Tokens copied back into it.", stats.restored_tokens)
    again = sum(stats.evaluated_again.values())
    yield Figure("tokens_evaluated_again_total", "counter", "Tokens evaluated though they were held.", again)


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else 0.0


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "0"
