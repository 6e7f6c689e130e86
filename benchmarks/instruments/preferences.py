"""What picks prefer: whether the intervals hold, by simulated writers, and the time for a long story."""

from __future__ import annotations

import math
import random
import tempfile
import threading
import time
from pathlib import Path

from srbwriter.session.preferences import find_preferences
from srbwriter.session.strengths import Choice, strengths
from srbwriter.story import ROOT, Story

WRITERS, PICKS, TASTE = 400, (10, 30, 100), (1.0, 0.0, -1.0)
OFFERED = (3, 3, 2)
LONG, N = 10_000, 4
"""Picks of a long story, and branches of each."""


def run(model: Path) -> list[str]:
    lines = [
        f"{WRITERS} simulated writers, who choose among {sum(OFFERED)} branches of {len(OFFERED)} settings",
        "", "| picks | intervals (95 %) that hold | their width |", "|--:|--:|--:|",
    ]  # fmt: skip
    shares: list[float] = []
    for picks in PICKS:
        held, width = coverage(picks)
        shares.append(held)
        lines.append(f"| {picks} | {100 * held:.1f} % | {100 * width:.0f} % |")
    seconds, longest = long_story()
    said = ", ".join(
        f"{100 * held:.1f} % of {picks} picks" for held, picks in zip(shares, PICKS, strict=True)
    )
    return [
        *lines, "",
        f"preferences: intervals of 95 % hold in {said}; a story of {LONG} picks takes {seconds:.1f} s, in "
        f"which the app waits {longest:.1f} ms for the story at most",
    ]  # fmt: skip


def coverage(picks: int) -> tuple[float, float]:
    """Return how many intervals hold, and how wide they are on average."""
    source, held, width = random.Random(picks), 0, 0.0
    branches = [value for value, n in enumerate(OFFERED) for _ in range(n)]
    for _ in range(WRITERS):
        drawn = source.choices(branches, [math.exp(TASTE[value]) for value in branches], k=picks)
        choices = [Choice(OFFERED, tuple(int(value == one) for value in range(len(TASTE)))) for one in drawn]
        for value, found in enumerate(strengths(choices)):
            others = [taste for at, taste in enumerate(TASTE) if at != value]
            share = 1 / (1 + math.exp(sum(others) / len(others) - TASTE[value]))
            held += found.low <= share <= found.high
            width += found.high - found.low
    return held / WRITERS / len(TASTE), width / WRITERS / len(TASTE)


def long_story() -> tuple[float, float]:
    """Return the seconds that a long story takes, and the milliseconds that the app waits for it at most."""
    with tempfile.TemporaryDirectory() as folder, Story.create(Path(folder) / "story.srbw") as story:
        with story.together():
            places = story.add(ROOT, ["It rained."] * LONG)
            for number, place in enumerate(places):
                sampling = [{"temperature": 0.5 + 0.25 * branch} for branch in range(N)]
                seeds = [N * number + branch for branch in range(N)]
                names = story.begin_branches(place, N, model="one", sampling=sampling, seeds=seeds)
                for name in names:
                    story.stream(name, " Then the fox ran into the wood, and nobody saw it again." * 4)
                    story.finish(name, "length")
                story.pick(names[number % N if number % 3 else N - 1])
        waits, ended = list[float](), threading.Event()
        reader = threading.Thread(target=lambda: _read_beside(story, ended, waits))
        reader.start()
        begun = time.perf_counter()
        found = find_preferences(story)
        seconds = time.perf_counter() - begun
        ended.set()
        reader.join()
        assert found.picks == LONG and found.factors[0].comparisons == LONG
        return seconds, 1000 * max(waits)


def _read_beside(story: Story, ended: threading.Event, waits: list[float]) -> None:
    """Read from the story as the app does meanwhile, and note how long that takes."""
    while not ended.wait(0.005):
        begun = time.perf_counter()
        story.words(story.current)
        waits.append(time.perf_counter() - begun)
