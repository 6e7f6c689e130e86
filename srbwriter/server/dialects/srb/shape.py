"""Requests and branches as JSON."""

from __future__ import annotations

from typing import Any

from srbwriter.engine.generation import Branch
from srbwriter.server.registry import Record


def branch_object(branch: Branch, ids: bool = False) -> dict[str, Any]:
    """What a branch is now; with ``ids`` also its tokens and their logprobs."""
    value: dict[str, Any] = {
        "index": branch.index,
        "state": str(branch.state),
        "reason": None if branch.finish_reason is None or branch.live else str(branch.finish_reason),
        "stop_text": branch.stop_text,
        "error": None if branch.error is None else str(branch.error),
        "text": branch.text,
        "tokens": len(branch.buffer.ids),
        "seed": branch.seed,
        "tokens_per_second": round(branch.tokens_per_second, 2),
    }
    if ids:
        value["ids"] = list(branch.ids)
        value["logprobs"] = [max(entry.logprob, -9999.0) for entry in branch.logprobs]
    return value


def request_object(record: Record, place: int, *, texts: bool = False) -> dict[str, Any]:
    """What a request is now, with ``place`` others that wait before it; ``texts`` adds its branches."""
    error = next((g.error for g in record.generations if g.error is not None), None)
    value: dict[str, Any] = {
        "id": record.id,
        "created": int(record.created),
        "state": "running" if record.live else "failed" if error is not None else "done",
        "error": None if error is None else str(error),
        "queue": place,
        "count": len(record.branches),
        "picked": record.picked,
        "prompt_tokens": sum(len(g.prompt_ids) for g in record.generations),
        "cached_tokens": sum(g.cached_tokens for g in record.generations),
        "completion_tokens": record.written,
        "events": record.size,
    }
    if texts:
        value["branches"] = [
            {**branch_object(branch), "index": index} for index, branch in enumerate(record.branches)
        ]
    return value
