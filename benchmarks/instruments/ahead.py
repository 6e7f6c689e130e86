"""Prefetch: the share of picks with prefetched text, unused tokens, and the cost for others.

The session below, where the writer looked and what they picked, was made by hand; every round is read for
five real seconds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from srbwriter.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, Stop
from srbwriter.prose import sentence_ends
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from srbwriter.session import Session
from srbwriter.session.ahead import Budget, Mode
from srbwriter.story import Story

READING = 5.0
N, TOKENS = 8, 64
SHOWN = 8  # tokens of every pane that make a text to read
OPENING = "Once upon a time there was a girl who lived by a deep, dark wood."


class Turn(NamedTuple):
    """One round: panes that were looked at in turn, the one that was picked, and how many sentences of it."""

    looked: tuple[int, ...]
    picked: int
    sentences: int = 0  # 0 is all of it


PLAYED = (
    Turn((0, 1, 2), 2), Turn((0, 3), 3), Turn((0, 1), 1, 1), Turn((0,), 0), Turn((0, 2, 4), 4),
    Turn((0, 1, 2, 3), 1), Turn((0, 5), 5), Turn((0, 1), 1), Turn((0, 4), 4, 1), Turn((0, 2), 6),
    Turn((0, 1, 3), 3), Turn((0,), 0), Turn((0, 2), 2), Turn((0, 1, 5), 5, 2), Turn((0, 7), 7),
    Turn((0, 1), 0), Turn((0, 3, 1), 1), Turn((0, 2), 2), Turn((0, 4), 4), Turn((0, 1), 1),
)  # fmt: skip
"""Most picks are of the pane looked at last; three are of another, by its number; three take a part."""


class Played(NamedTuple):
    mode: Mode
    at_once: float  # share of picks after which every pane has text
    whole: float  # and of those after which every pane is written out
    wait: float  # milliseconds until every pane has text, median of the others
    wasted: float  # tokens a pick
    used: float


def run(model: Path) -> list[str]:
    played = [play(model, "focused", 2048), play(model, "all", 16384)]
    clients = [Beside(model, 0.0).measured(), Beside(model, 0.4).measured()]
    best = max(turn.at_once for turn in played)
    return [
        f"{len(PLAYED)} rounds of {N} x {TOKENS} tokens, read for {READING:g} s each, "
        f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f}",
        "",
        "| panes | text at once (aim >= 0.9) | written out | others wait, ms | used tokens | wasted tokens |",
        "|---|---|---|---|---|---|",
        *(
            f"| {p.mode} | {p.at_once:.2f} | {p.whole:.2f} | {p.wait:.0f} | {p.used:.0f} | {p.wasted:.0f} |"
            for p in played
        ),
        "",
        "Tokens are those of one pick. A client's speed with all panes written ahead, in terms of without:",
        "",
        "| its requests | by the clock (aim >= 0.98) | lowest | highest | in processor time |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {median(c.clock):.3f} | {min(c.clock):.3f} | {max(c.clock):.3f} "
            f"| {median(c.busy):.3f} |"
            for name, c in zip(("one after the other", "0.4 s apart"), clients, strict=True)
        ),
        "",
        f"look-ahead: {best:.2f} of picks at once, {played[0].at_once:.2f} by default; client "
        f"{min(median(c.clock) for c in clients):.3f} by the clock, "
        f"{min(median(c.busy) for c in clients):.3f} in processor time",
    ]


# ---- a session


def play(model: Path, mode: Mode, tokens: int) -> Played:
    """Read and pick as it was played."""
    with session(model) as writer:
        writer.look_ahead.budget = Budget(mode, tokens)
        writer.set_text(OPENING)
        current = writer.generate()
        at_once, whole, waits = 0, 0, list[float]()
        for turn in PLAYED:
            assert current.generation is not None
            current.generation.wait(600)
            upto = _read(writer, turn)
            writer.pick(turn.picked, upto)
            current = writer.generate()
            assert current.generation is not None
            texts = [len(branch.ids) for branch in current.branches]
            if min(texts) >= SHOWN or current.generation.done:
                at_once += 1
                whole += current.generation.done
            else:
                waits.append(_until_text(current.branches))
        looked = writer.look_ahead
        looked.budget = Budget()
        writer.keep()
        count = len(PLAYED)
        wasted = (looked.written - looked.taken) / count
        return Played(
            mode, at_once / count, whole / count, 1000 * median(waits or [0.0]), wasted, looked.taken / count
        )


def _read(writer: Session, turn: Turn) -> int | None:
    """Five seconds: look at some panes, and move the taking cursor, if a part is taken; where that ends."""
    began = time.monotonic()
    for number, pane in enumerate(turn.looked):
        _sleep_until(began + 0.7 * READING * number / len(turn.looked))
        writer.look_ahead.focus(pane)
    upto = None
    if turn.sentences:
        assert writer.round is not None
        ends = sentence_ends(writer.round.branches[turn.picked].text)
        upto = ends[min(turn.sentences, len(ends)) - 1] if ends else None
        _sleep_until(began + 0.75 * READING)
        writer.look_ahead.focus(turn.picked, upto)
    _sleep_until(began + READING)
    return upto


def _until_text(branches: object) -> float:
    began = time.monotonic()
    while any(branch.live and len(branch.ids) < SHOWN for branch in branches):  # type: ignore[attr-defined]
        time.sleep(0.001)
    return time.monotonic() - began


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


@contextmanager
def session(model: Path) -> Generator[Session]:
    """A story of its own, before this model."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story.create(Path(folder) / "story.srbw")
        options = EngineOptions(seed=1)
        opened = Session(
            story, EngineLoader(model, options), n=N, stop=Stop(max_tokens=TOKENS, ignore_eog=True)
        )
        opened.loader.wait()
        while opened.context().total == 0:  # the session hears of its model on a thread of its own
            time.sleep(0.01)
        yield opened
        opened.close()


# ---- a client beside it

REQUESTS, ROUNDS = 12, 9


class Ratios(NamedTuple):
    """With look-ahead in terms of without, round by round: tokens a second, by the clock and of work."""

    clock: list[float]
    busy: list[float]


class Speed(NamedTuple):
    clock: float
    busy: float


class Beside:
    """A client whose requests begin ``gap`` seconds after the last one's end."""

    def __init__(self, model: Path, gap: float) -> None:
        self.model, self.gap = model, gap

    def measured(self) -> Ratios:
        """Alternating rounds, with look-ahead and without."""
        with session(self.model) as writer:
            writer.stop = Stop(max_tokens=400, ignore_eog=True)
            writer.set_text(OPENING)
            generation = writer.generate().generation
            assert generation is not None
            generation.wait(600)
            engine = writer.engine
            assert isinstance(engine, Engine)
            handle = start_in_thread(Loaded(engine), ServerSettings(port=0, access_log=False))
            found = Ratios([], [])
            with httpx.Client(base_url=handle.url, timeout=600) as http:
                self._speed(http)
                for number in range(ROUNDS):
                    speeds: dict[bool, Speed] = {}
                    for on in (True, False) if number % 2 else (False, True):
                        writer.look_ahead.budget = Budget("all", 10**9) if on else Budget()
                        while on and not writer.look_ahead.working:
                            time.sleep(0.01)
                        speeds[on] = self._speed(http)
                    found.clock.append(speeds[True].clock / speeds[False].clock)
                    found.busy.append(speeds[True].busy / speeds[False].busy)
            handle.stop(10)
            return found

    def _speed(self, http: httpx.Client) -> Speed:
        """Tokens a second while one of its requests is under way."""
        spent, busy, tokens = 0.0, 0.0, 0
        for number in range(REQUESTS):
            began, worked = time.monotonic(), time.process_time()
            body = {"prompt": OPENING, "max_tokens": 96, "seed": number, "ignore_eos": True}
            answer = http.post("/v1/completions", json={**body, "model": "m"}).json()
            spent += time.monotonic() - began
            busy += time.process_time() - worked
            tokens += answer["usage"]["completion_tokens"]
            time.sleep(self.gap)
        return Speed(tokens / spent, tokens / busy)
