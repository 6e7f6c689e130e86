"""The loop's side: which branches are asked for together, what becomes of answers, and of answers that break
off.

A *stretch* is one request to the other side, for branches that go on alike. Where it breaks off, each of its
branches goes on from the tokens it has, in a stretch of its own: nothing that was shown is written again or
lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from ..types import (
    BranchState,
    EngineError,
    FinishReason,
    Priority,
    PromptProgress,
    RemoteError,
    StateChanged,
)
from .dialects.base import Ask, Dialect, Named, News, Over, Piece, Placed, PromptRead, TakenBack
from .lanes import NO_LIMIT, Lane, Run, Spell, barring, plain
from .options import RemoteOptions
from .pool import Peer, Pool
from .problems import misnumbered, retry_notice
from .profile import Profile

log = logging.getLogger(__name__)

_FAR = 512  # tokens that a branch without a limit is taken to have before it
_DEARER = 4  # times that a token costs which is written, not read


class Stretch:
    """One request under way. ``lanes`` stand where the other side counts them; one that has left is None."""

    def __init__(self, service: Service, run: Run, lanes: Sequence[Lane]) -> None:
        self.service, self.run = service, run
        self.lanes: list[Lane | None] = list(lanes)
        self.task: asyncio.Task[None] | None = None
        self.dialect: Dialect | None = None
        self.id = ""  # what they call it, where its branches can be steered
        self.slot = -1  # where its first branch runs, if they tell
        self.stands: Sequence[int] = ()  # what that branch had when it left or ended
        self.progressed = False
        self.trouble = ""  # why it was left
        self.where = ""  # the address
        self.heard = 0.0  # when something came last, as time.monotonic() has it
        self.alive = 0.0  # when they showed last that they are there
        self.barring = False  # it writes one token only, which some may not be
        self.cut = False  # somebody left before the other side had come to an end
        self.wasted = 0  # branches that are written on over there and thrown away here
        self._steered: asyncio.Task[None] | None = None
        self.ahead = run.request.priority is Priority.AHEAD  # when it was asked for
        for lane in lanes:
            lane.stretch, lane.stood = self, len(lane.branch.text) - len(lane.unspelt)

    @property
    def live(self) -> list[Lane]:
        """Those that it is still to write."""
        return [lane for lane in self.lanes if lane is not None]

    def leave(self, lane: Lane, keep: bool, told: bool) -> None:
        """A branch is not to be written any further; with the last of them the connection goes.

        ``told``: somebody said so, it is no stop rule that ended it.
        """
        index = self.lanes.index(lane)
        if told or lane.branch.sampling.seed is None:  # else its neighbours' texts would hang on chance
            self.wasted += 1
        self._gone(index, lane)
        self.cut = True
        if not self.live:
            if self.task is not None and self.task is not asyncio.current_task():
                self.task.cancel()
        else:
            self._steer(index, "stop" if keep else "kill")

    def part(self, pressed: bool) -> None:
        """Let every branch go on by itself, if that costs less than what is thrown away.

        ``pressed``: another branch waits for a place there.
        """
        living, anew = self.live, self.service.profile.anew
        if not (self.wasted and self.progressed and living and anew) or self.run.constrained:
            return
        to_go = max(_FAR if lane.left is None else min(lane.left, _FAR) for lane in living)
        read = anew * len(living) if anew > 0 else sum(len(lane.path) for lane in living)
        if not pressed and to_go * self.wasted * _DEARER <= read:
            return
        for lane in living:
            self.ended(lane)
            lane.set_state(BranchState.WAITING)
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def ended(self, lane: Lane) -> None:
        """The other side has come to the branch's end."""
        self._gone(self.lanes.index(lane), lane)
        lane.stretch = None

    def _gone(self, index: int, lane: Lane) -> None:
        self.lanes[index] = None
        if index == 0:
            self.stands = lane.path

    def pause(self, lane: Lane) -> bool:
        """Let a branch rest over there; False where that is not possible."""
        return self._steer(self.lanes.index(lane), "pause")

    def resume(self, lane: Lane) -> None:
        self._steer(self.lanes.index(lane), "resume")

    def promote(self) -> None:
        """What was asked ahead is wanted now; where the other side has not answered yet, once it has."""
        self._tell("promote", lambda dialect: dialect.promote(self.id))

    def named(self, id: str) -> None:
        """The other side has begun."""
        self.id = id
        if self.ahead and self.run.request.priority is not Priority.AHEAD:
            self.promote()

    def _steer(self, index: int, verb: str) -> bool:
        return self._tell(f"{verb} of branch {index}", lambda dialect: dialect.steer(self.id, index, verb))

    def _tell(self, what: str, act: Callable[[Dialect], Coroutine[Any, Any, None]]) -> bool:
        if not self.id or self.dialect is None:
            return False
        before, dialect = self._steered, self.dialect

        async def tell() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await act(dialect)
            except RemoteError as error:
                log.info("%s: %s", what, error)

        self._steered = self.service.spawn(tell())
        return True


class Service:
    """Serves runs. To be made and used on the loop's thread."""

    def __init__(self, options: RemoteOptions, pool: Pool, profile: Profile, spell: Spell) -> None:
        self.options, self.pool, self.profile, self._spell = options, pool, profile, spell
        self.runs: set[Run] = set()
        self.generated = self.prompt_tokens = self.reused_tokens = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._notified: set[str] = set()  # since a token came last

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` beside everything else; it is kept until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End everything that is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- asking

    def begin(self, run: Run) -> None:
        """Ask for every branch that waits and that nobody writes."""
        for stretch in {lane.stretch: None for lane in run.lanes if lane.stretch is not None}:
            stretch.part(pressed=len(stretch.lanes) >= self.profile.requests > 0 and bool(_waiting(run)))
        waiting = _waiting(run)
        if not waiting:
            if not run.live:
                self.runs.discard(run)
            return
        self.runs.add(run)
        for lanes in self._groups(waiting):
            stretch = Stretch(self, run, lanes)
            stretch.task = self.spawn(self._serve(stretch))

    def _groups(self, lanes: Sequence[Lane]) -> list[list[Lane]]:
        """Branches that can be asked for in one request: alike but for their seeds, with nothing written."""
        found: list[list[Lane]] = []
        fresh = [lane for lane in lanes if not lane.buffer.ids and not lane.buffer.pieces]
        alike: dict[Any, list[Lane]] = {}
        for lane in fresh:
            rule = lane.branch.stop_rule
            asked = plain(lane.branch.sampling), lane.left, lane.min_tokens, lane.beyond, rule.ignore_eog
            key = (*asked, lane.unspelt, lane.branch.overlap, lane.barred)
            alike.setdefault(key, []).append(lane)
        for lanes_alike in alike.values():
            group: list[Lane] = []
            for lane in lanes_alike:
                seeded = self.profile.handles or bool(group) and lane.next_seed == group[-1].next_seed + 1
                if not group or not seeded or len(group) >= self.profile.many:
                    group = []
                    found.append(group)
                group.append(lane)
        return found + [[lane] for lane in lanes if lane not in fresh]

    def _ask(self, stretch: Stretch) -> Ask:
        lanes = stretch.live
        first, request = lanes[0], stretch.run.request
        native = "min_tokens" in self.profile.stops
        early = first.min_tokens - first.written if not native and first.beyond else 0
        most = first.left if first.left is None else max(first.left, 1)
        stretch.barring = bool(first.barred)
        if early > 0 or first.barred:  # then it goes on in another request
            short = 1 if first.barred else early
            most = min(short, most or short)
        sampling = self.profile.spelling(first.branch.sampling, first.unspelt)
        return Ask(
            ids=first.path,
            sampling=barring(sampling, first.barred) if first.barred else sampling,
            seeds=tuple(lane.next_seed for lane in lanes),
            max_tokens=most,
            min_tokens=min(max(first.min_tokens - first.written, 0), most or NO_LIMIT) if native else 0,
            ignore_eog=first.branch.stop_rule.ignore_eog or early > 0,
            request=request,
            scored=request.prompt_logprobs is not None and not stretch.run.read,
            whole=len(lanes) == len(stretch.run.lanes) and first.path == stretch.run.ids,
        )

    async def _serve(self, stretch: Stretch) -> None:
        run = stretch.run
        try:
            await self._write(stretch)
            if stretch.live:
                raise RemoteError(stretch.where or self.profile.server, "the answer ended before its time")
        except RemoteError as error:
            await self._broken(stretch, error)
        except Exception as error:  # a defect of ours, or an answer that nobody foresaw
            log.exception("a request elsewhere failed")
            for lane in stretch.live:
                lane.fail(EngineError(f"{self.profile.server}: {error!r}"))
        self.begin(run)
        run.publish()

    async def _broken(self, stretch: Stretch, error: RemoteError) -> None:
        """Let each branch go on from what it has, after a while; or say why it cannot."""
        run, now, stretch.id = stretch.run, time.monotonic(), ""
        log.warning("request %d: %s", run.generation.number, error)
        wait = 0.0
        for lane in stretch.live:
            if lane.branch.state is BranchState.PAUSED:
                lane.leave()
                continue
            lane.failures += 1
            lane.backlog.clear()
            # Who asks for a wait has said that it will be there afterwards.
            lane.sign_at = max(lane.sign_at, now + error.wait if error.status else stretch.alive)
            if not stretch.progressed:
                wait = max(
                    wait, min(self.options.first_wait * 2 ** (lane.failures - 1), self.options.longest_wait)
                )
            wait = max(wait, error.wait)
            if run.constrained and lane.buffer.ids:
                error = RemoteError(
                    error.where, f"{error.problem}; a constraint cannot go on in the middle", again=False
                )
            if not error.again or self._enough(lane, now + wait):
                tries = f" ({lane.failures} attempts)" if lane.failures > 1 else ""
                words, status, field = error.problem + tries, error.status, error.field
                lane.fail(RemoteError(error.where, words, again=False, status=status, field=field))
                continue
            lane.branch.error = RemoteError(error.where, f"{error.problem}; trying again")
            lane.branch.state = BranchState.WAITING
            run.events.append(
                StateChanged(lane.branch.index, BranchState.WAITING)
            )  # also where it waited before
        run.publish()
        if stretch.live:
            attempt = max(lane.failures for lane in stretch.live)
            self._notify(retry_notice(error, wait, attempt, self.options.retries))
            if wait:
                await asyncio.sleep(wait)
        for lane in stretch.live:
            stretch.ended(lane)

    def _enough(self, lane: Lane, next_attempt: float) -> bool:
        """Whether a branch has waited long enough for its next token to give up."""
        options = self.options
        return (
            lane.failures > options.retries
            or next_attempt - lane.sign_at > options.patience
            or next_attempt - lane.asked_at > 2 * options.silent_seconds
        )

    def _notify(self, line: str) -> None:
        """Say what goes wrong, once for all branches that it befalls."""
        if self.options.notify is not None and line not in self._notified:
            self._notified.add(line)
            self.options.notify(line)

    # ---- being answered

    async def _write(self, stretch: Stretch) -> None:
        """One attempt. Raises RemoteError."""
        run = stretch.run
        for lane in stretch.live:
            if lane.buffer.tail and not lane.unspelt:
                lane.settle(await self._words(lane, lane.buffer.tail))
            if len(lane.path) >= self.profile.info.n_ctx and not lane.forget_half(self.profile.info.n_ctx):
                lane.finish(FinishReason.CONTEXT)
        if not stretch.live:
            return
        path = stretch.live[0].path
        peer = self.pool.choose(path)
        peer.load += 1
        try:
            dialect, profile = await peer.known()
            if profile is not self.profile:
                Pool.check(peer, profile, self.profile)
            before = time.monotonic()
            async with peer.gate:
                for lane in stretch.live:
                    lane.set_waiting(held_up=time.monotonic() - before)
                await self._follow(stretch, peer, dialect)
            peer.answered()
        except RemoteError as error:
            if error.again and error.status in (0, 429, 500, 502, 503, 504):
                peer.failed(error)
            raise
        finally:
            peer.load -= 1
        if not run.live:
            self.runs.discard(run)

    async def _words(self, lane: Lane, text: str) -> list[int]:
        peer = self.pool.choose(lane.path)
        dialect, _ = await peer.known()
        return await continuation(dialect, text)

    async def _follow(self, stretch: Stretch, peer: Peer, dialect: Dialect) -> None:
        run = stretch.run
        stretch.dialect, stretch.id, stretch.where = dialect, "", peer.where
        stretch.lanes = list(stretch.live)  # as they are counted in this request
        if not stretch.lanes:
            return
        ask = self._ask(stretch)
        if ask.scored:
            await self._score(run, dialect, ask)
        if run.to_foretell:
            await self._foretell(run, dialect)
        if ask.scored or run.request.next_logprobs is not None or run.request.next_ids:
            for lane in [lane for lane in stretch.live if lane.left == 0]:
                lane.finish(FinishReason.LENGTH)
            if not stretch.live:
                return
        stretch.slot, stretch.stands = -1, ask.ids
        asked = await dialect.place(ask.ids, ask.n)
        try:
            await self._answer(stretch, peer, dialect, replace(ask, slot=asked))
        finally:
            dialect.left(asked, max(stretch.slot, asked), stretch.stands)

    async def _answer(self, stretch: Stretch, peer: Peer, dialect: Dialect, ask: Ask) -> None:
        self.prompt_tokens += len(ask.ids)
        watch: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as end:
                watch = self.spawn(self._watch(stretch, peer, end))
                await self._listen(stretch, peer, dialect, ask)
        except TimeoutError:
            raise RemoteError(peer.where, stretch.trouble) from None
        finally:
            if watch is not None:
                watch.cancel()

    async def _watch(self, stretch: Stretch, peer: Peer, end: asyncio.Timeout) -> None:
        """End an answer that is quiet for long, where they are ill, take nobody, or show no sign of life."""
        quiet, patience = self.options.quiet_seconds, self.options.patience
        stretch.heard = time.monotonic()
        stretch.alive = max((lane.sign_at for lane in stretch.live), default=stretch.heard)
        while True:
            now = time.monotonic()
            until = max(stretch.heard + quiet, now + quiet / 2)
            await asyncio.sleep(max(min(until, stretch.alive + patience) - now, 0.01))
            if time.monotonic() - stretch.heard < quiet:
                continue
            look = await peer.look_in()
            now = time.monotonic()
            if not look.trouble:
                stretch.alive = now
                most = f"Waiting for up to {self.options.silent_seconds:.0f} s"
                self._notify(f"{peer.where}: no words for {quiet:g} s, but it answers otherwise. {most}.")
                continue
            silent = now - stretch.alive
            if look.certain or silent >= patience:
                stretch.trouble = look.trouble if look.certain else f"no sign of life for {silent:.0f} s"
                end.reschedule(asyncio.get_running_loop().time())
                return
            left = f"Giving up in {patience - silent:.0f} s"
            self._notify(f"{peer.where}: no sign of life for {silent:.0f} s. {left}.")

    async def _listen(self, stretch: Stretch, peer: Peer, dialect: Dialect, ask: Ask) -> None:
        run = stretch.run
        path, body = dialect.request(ask)
        async with peer.transport.events(path, body) as batches:
            for lane in stretch.live:
                lane.set_state(BranchState.PROMPT)
            run.publish()
            async for batch in batches:
                stretch.heard = stretch.alive = time.monotonic()
                for data in batch:
                    for news in dialect.read(data):
                        self._hear(stretch, news)
                if run.again or stretch.wasted:
                    run.again = False
                    self.begin(run)
                run.publish()
                if stretch.cut and not stretch.live:
                    break  # leaving closes the connection, which ends there what nobody wants any more

    async def _score(self, run: Run, dialect: Dialect, ask: Ask) -> None:
        run.generation.prompt_logprobs = list(await dialect.score(ask.ids, run.request))
        self._read(run, 0)

    async def _foretell(self, run: Run, dialect: Dialect) -> None:
        told = await dialect.next(run.ids, run.request, run.generation.healed)
        run.generation.next_logprobs, run.to_foretell = tuple(told), False
        self._read(run, 0)

    def _hear(self, stretch: Stretch, news: News) -> None:
        match news:
            case Piece():
                if (lane := self._lane(stretch, news.lane)) is not None:
                    self._piece(stretch, lane, news)
            case TakenBack():
                if (lane := self._lane(stretch, news.lane)) is not None:
                    self._take_back(lane, news)
            case PromptRead():
                self._read(stretch.run, news.cached)
            case Named():
                stretch.named(news.id)
            case Placed():
                stretch.slot = news.slot
            case Over():
                pass

    @staticmethod
    def _lane(stretch: Stretch, index: int) -> Lane | None:
        """Return the branch that the other side gives a number; None if it has left. Raises RemoteError."""
        if 0 <= index < len(stretch.lanes):
            return stretch.lanes[index]
        number = len(stretch.lanes)
        there = f"branches 0 to {number - 1} were" if number > 1 else "only branch 0 was"
        raise misnumbered(stretch.where, f"it sends words for branch {index}, and {there} asked for")

    def _piece(self, stretch: Stretch, lane: Lane, piece: Piece) -> None:
        if lane.branch.state is BranchState.PAUSED:
            lane.backlog.append(piece)
            return
        if piece.text or piece.ids:
            if not stretch.run.read:
                self._read(stretch.run, 0)
            stretch.progressed = True
            self._notified.clear()
            self.generated += max(len(piece.ids), 1) if self.profile.ids else 1
            lane.write(piece, self._spell)
        if piece.finish is not None and lane.stretch is stretch:
            self._ended(stretch, lane, piece.finish, piece.problem)

    @staticmethod
    def _take_back(lane: Lane, news: TakenBack) -> None:
        if lane.branch.state is BranchState.PAUSED:
            lane.backlog.append(news)
        else:
            lane.take_back(news.chars)

    def speak(self, lane: Lane) -> None:
        """A branch that rested over there goes on: what came before it did is written first."""
        backlog, lane.backlog = lane.backlog, []
        for news in backlog:
            if isinstance(news, TakenBack):
                lane.take_back(news.chars)
            elif lane.stretch is not None:
                self._piece(lane.stretch, lane, news)

    def _read(self, run: Run, cached: int) -> None:
        """Their account of the prompt has come, or text that shows that it has been read."""
        generation, total = run.generation, len(run.ids)
        generation.cached_tokens = max(generation.cached_tokens, min(cached, total))
        self.reused_tokens += cached
        if not run.read:
            run.read = True
            generation.prompt_done = total
            run.events.append(PromptProgress(total, total, generation.cached_tokens))

    def _ended(self, stretch: Stretch, lane: Lane, reason: FinishReason, problem: str) -> None:
        """The other side has come to an end; ours may be elsewhere."""
        stretch.ended(lane)
        early = lane.written < lane.min_tokens and "ignore_eog" in self.profile.stops
        match reason:
            case FinishReason.EOG if early and not lane.beyond and "min_tokens" not in self.profile.stops:
                lane.beyond = True
                self._once_more(lane)
            case FinishReason.LENGTH if stretch.barring and lane.left != 0:
                self._once_more(lane)
            case FinishReason.LENGTH if lane.beyond and lane.left != 0:
                lane.beyond = False
                self._once_more(lane)
            case FinishReason.LENGTH | FinishReason.CONTEXT if lane.left != 0 and self.profile.ids:
                if not len(lane.path) + 1 >= self.profile.info.n_ctx:
                    lane.finish(FinishReason.LENGTH)  # a limit of theirs
                elif lane.forget_half(self.profile.info.n_ctx):
                    self._once_more(lane)
                else:
                    lane.finish(FinishReason.CONTEXT)
            case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                where = stretch.where or self.profile.server
                lane.fail(RemoteError(where, problem or "it ended this branch", again=False))
            case _:
                lane.finish(reason)

    @staticmethod
    def _once_more(lane: Lane) -> None:
        """It goes on, in another request."""
        lane.set_state(BranchState.WAITING)
        lane.run.again = True


def _waiting(run: Run) -> list[Lane]:
    """Branches that are to be written, and that nobody writes."""
    return [lane for lane in run.lanes if lane.branch.state is BranchState.WAITING and lane.stretch is None]


async def continuation(dialect: Dialect, text: str) -> list[int]:
    """Ids of ``text`` that follows other text.

    Some vocabularies put a space before whatever they tokenise; a line break in front takes it, and its
    tokens are cut off again. Raises RemoteError.
    """
    lead, ids = await dialect.tokenize("\n", False), await dialect.tokenize("\n" + text, False)
    return ids[len(lead) :] if ids[: len(lead)] == lead else await dialect.tokenize(text, False)
