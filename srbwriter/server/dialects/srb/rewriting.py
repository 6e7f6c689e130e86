"""Variants of a passage between two texts, ranked by how likely they make the text after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.generation import Generation
from srbwriter.engine.limits import check_prompt, check_range
from srbwriter.engine.types import Priority, Request, Stop
from srbwriter.server.body import Fields, branch_samplings, read_n, read_options, read_sampling, read_stop
from srbwriter.server.context import Context
from srbwriter.server.dialects.srb.completions import with_wish
from srbwriter.server.dialects.srb.instruments import answered
from srbwriter.server.errors import bad
from srbwriter.server.services import Services
from srbwriter.session.rewriting import (
    MOST_CHARS,
    PRESENT,
    WISH_CHARS,
    Rewrite,
    fills_gap,
    fit_of,
    fit_requests,
    gap_prompt,
    gap_requests,
    variants_request,
    why_unranked,
)


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    passage: str
    after: str
    before: tuple[int, ...]
    """Tokens of the text before the passage, if the model may fill the gap."""
    gap: list[int]
    """The prompt for that."""
    unranked: str


async def rewrite(context: Context) -> Response:
    """Answer with variants of a passage, when all of them have ended, and the fit of each."""
    asked, engine = await context.read(_read), context.engine
    request, before = asked.request, asked.before
    if asked.gap and not asked.unranked:
        checks = gap_requests(engine, before, asked.gap, asked.passage, Priority.NORMAL)
        if not fills_gap(await context.until_gone(answered(context, checks))):
            before = ()
    if before:
        request = replace(request, prompt=asked.gap, heal=False, add_bos=True)
    (written,) = await context.until_gone(answered(context, [request]))
    fits: dict[int, float | None] = {}
    scored: list[Generation] = []
    if not asked.unranked:
        requests = fit_requests(engine, written, before, asked.passage, asked.after)
        scored = await context.until_gone(answered(context, list(requests.values())))
        fits = {index: fit_of(one) for index, one in zip(requests, scored, strict=True)}

    def make() -> Mapping[str, Any]:
        return {
            "filled": bool(before),
            "unranked": asked.unranked,
            "passage": {"text": asked.passage, "fit": fits.get(PRESENT)},
            "variants": [
                {
                    "index": branch.index, "text": Rewrite.of(branch).text, "ids": Rewrite.of(branch).ids,
                    "reason": str(branch.finish_reason), "fit": fits.get(branch.index),
                }
                for branch in written.branches
            ],
            "prompt_tokens": len(written.prompt_ids),
            "cached_tokens": written.cached_tokens,
            "completion_tokens": sum(len(branch.ids) for branch in written.branches),
        }  # fmt: skip

    return await context.answer(0.0, make)


def _read(fields: Fields, services: Services) -> _Asked:
    """Return what a body asks for. Raises ApiError (400)."""
    engine, settings = services.engine, services.settings
    before, passage, after = fields.text("before"), fields.need_text("passage"), fields.text("after")
    if not passage.strip():
        raise bad("passage", "Field 'passage': it has no words")
    check_range("passage", len(passage), 1, MOST_CHARS)
    check_prompt("before", len(before) + len(after))
    n = read_n(fields, min(settings.n, services.max_n), services.max_n)
    sampling = branch_samplings(read_sampling(fields, settings.sampling, engine), n)
    wished = with_wish(before, fields, passage, after[:WISH_CHARS])
    request = variants_request(engine, wished, passage, n, sampling)
    request = replace(
        request, priority=Priority.NORMAL, stop=read_stop(fields, cast("Stop", request.stop)),
        **read_options(fields, settings.context_shift, engine),
    )  # fmt: skip
    gap, ids = gap_prompt(engine, before, after), tuple(engine.tokenize(before, add_bos=True))
    if gap is None or not ids or wished != before:
        gap, ids = [], ()
    return _Asked(services.put_system_before(request), passage, after, ids, gap, why_unranked(engine, after))
