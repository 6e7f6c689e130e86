"""One request to the server, and what comes of it: a task that writes branches.

A branch has at most one answer. Where that breaks off, each of its branches continues in another one from the
text that is shown, so that no text is lost or written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..parameters import notation
from ..types import BranchState, EngineError, FinishReason, RemoteError, StateChanged
from ..window import fit
from .branch import RemoteBranch, RemoteRequest
from .transport import misnumbered
from .vocabulary import decode

if TYPE_CHECKING:
    from .engine import RemoteEngine

log = logging.getLogger(__name__)


async def write_branches(
    engine: RemoteEngine, request: RemoteRequest, branches: Sequence[RemoteBranch]
) -> None:  # fmt: skip
    """Write equal branches; where the answer breaks off, hand those back that are not at their end."""
    task = asyncio.current_task()
    for each in branches:
        if each.answer is task and each.left == 0:
            each.finish(FinishReason.LENGTH)
    # Numbered as the server numbers them; one that has left or ended has this answer no more.
    branches = [each for each in branches if each.answer is task]
    try:
        if branches:
            await _stream(engine, request, branches)
        if any(each.answer is task for each in branches):
            raise RemoteError(engine.dialect.where, "the answer ended before its time")
    except RemoteError as error:
        live = [each for each in branches if each.answer is task]
        await _break_off(engine, request, live, error, any(each.came for each in branches))
    except Exception as error:  # a defect of ours, or an answer that nobody expected
        log.exception("a request elsewhere failed")
        for each in branches:
            if each.answer is task:
                each.fail(EngineError(f"{engine.profile.server}: {error!r}"))
    engine.write(request)
    request.publish()


async def _stream(engine: RemoteEngine, request: RemoteRequest, branches: Sequence[RemoteBranch]) -> None:
    """Ask once, and read the answer. Raises RemoteError."""
    first, asked, dialect, task = branches[0], request.asked, engine.dialect, asyncio.current_task()
    path_ids = [*first.base, *first.branch.buffer.ids]
    if len(path_ids) >= engine.n_ctx:
        if asked.overflow != "shift":
            for each in branches:
                each.finish(FinishReason.CONTEXT)
            return
        path_ids, request.generation.truncated = fit(path_ids, asked, engine.n_ctx), True
    engine.prompt_tokens += len(path_ids)
    least, most, lacks = max(first.min_tokens - first.tokens, 0), first.left, engine.profile.lacks
    # So many without an end first, and another request for the rest.
    short = least > 0 and "min_tokens" in lacks and "ignore_eog" not in lacks
    if short:
        most = min(least, most or least)
    least = least if most is None else min(least, most)
    ignore_eog = first.branch.stop_rule.ignore_eog or short
    path, body = dialect.encode(decode(path_ids), branches, least, most, ignore_eog)
    ended = 0
    async with dialect.transport.events(path, body) as batches:
        for each in branches:
            each.set_state(BranchState.PROMPT)
        request.publish()
        async for batch in batches:
            for event in (event for data in batch for event in dialect.parse(data)):
                if not 0 <= event.branch < len(branches):
                    numbers = f"0 to {len(branches) - 1}" if len(branches) > 1 else "0 alone"
                    problem = f"it sends words for branch {event.branch}, and {numbers} was asked for"
                    raise misnumbered(dialect.where, problem)
                branch = branches[event.branch]
                if branch.answer is not task:
                    continue
                if event.back_to is not None:
                    branch.go_back(*event.back_to)
                if event.text or event.logprobs:
                    engine.generated += 1
                    engine.notices.clear()
                    request.note_prompt()
                    branch.receive(event)
                if event.finish is None or branch.answer is not task:
                    continue
                ended, branch.answer = ended + 1, None
                match event.finish:
                    case FinishReason.LENGTH if short and branch.left != 0:
                        branch.ask_again()
                        engine.write(request)
                    case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                        problem = event.problem or "it ended this branch"
                        branch.fail(RemoteError(dialect.where, problem, again=False))
                    case reason:
                        branch.finish(reason)
            request.publish()
            if ended < len(branches) and not any(each.answer is task for each in branches):
                break  # which closes the connection, and ends there what nobody wants any more


async def _break_off(
    engine: RemoteEngine, request: RemoteRequest, branches: Sequence[RemoteBranch], error: RemoteError,
    progressed: bool,
) -> None:  # fmt: skip
    """Hand each branch back after a while, to continue from what it has; or let it fail."""
    where, options, wait = engine.dialect.where, engine.options, error.wait
    log.warning("request %d: %s", request.generation.number, error)
    for each in branches:
        each.failures += 1
        problem, again = error.problem, error.again and each.failures <= options.retries
        if notation(each.branch.sampling) and each.branch.buffer.ids:
            problem, again = f"{problem}; a constraint cannot go on in the middle", False
        if again:
            each.branch.error = RemoteError(where, f"{problem}; trying again")
            each.branch.state = BranchState.WAITING  # the event comes also where it waited before
            request.events.append(StateChanged(each.branch.index, BranchState.WAITING))
        else:
            problem += f" ({each.failures} attempts)" if each.failures > 1 else ""
            status, field = error.status, error.field
            each.fail(RemoteError(where, problem, again=False, status=status, field=field))
    request.publish()
    live = [each for each in branches if each.branch.live]
    if live:
        attempt = max(each.failures for each in live)
        if not progressed:
            wait = max(wait, min(options.first_wait * 2 ** (attempt - 1), options.longest_wait))
        if (notice := f"{error.problem} {attempt}") not in engine.notices:
            engine.notices.add(notice)  # once for all branches that it befalls
            engine.dialect.transport.notify(error, wait, attempt, options.retries)
        await asyncio.sleep(wait)
    for each in branches:
        if each.answer is asyncio.current_task():
            each.answer = None
