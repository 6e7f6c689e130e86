"""How fast a story of novel size is: ``python -m benchmarks.story [--nodes N] [--words W]``.

Builds a story in a temporary folder, opens it in a fresh process, and prints the cost of opening, picking,
editing, typing, searching and reading, beside the limits. Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from srbwriter.story import ROOT, Edit, Story
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import Span
from srbwriter.story.node import Node
from srbwriter.story.search import search_tree

SIBLINGS = 5
LEVELS_AT_ONCE = 4000
_VOCABULARY = 20_000


_LETTERS = "abcdefghijklmnoprstuvwy"


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table; ``most`` is the promise, in ``unit``."""

    what: str
    value: float
    unit: str
    most: float | None = None

    @property
    def kept(self) -> bool:
        return self.most is None or self.value <= self.most


def lexicon(rng: random.Random) -> list[str]:
    """Words, the commonest first."""
    return ["".join(rng.choices(_LETTERS, k=rng.randint(2, 9))) for _ in range(_VOCABULARY)]


def draft(nodes: int, words: int, seed: int = 1) -> StoryDraft:
    """A story of takes: at every step five branches with tokens, one of them picked."""
    rng = random.Random(seed)
    known = lexicon(rng)
    weights = [1 / (rank + 1) for rank in range(_VOCABULARY)]  # Zipf, as in a language
    each = max(1, words // nodes)
    made = StoryDraft(title="Bench")
    parent = ROOT
    while len(made.nodes) < nodes:
        first = len(made.nodes) + 1
        for order in range(min(SIBLINGS, nodes - len(made.nodes))):
            text = " " + " ".join(rng.choices(known, weights, k=each - 1)) + ".\n"
            ids = [rng.randrange(32_000) for _ in range(each * 4 // 3)]
            node = Node(first + order, parent, order, author="model", model="bench", seed=order)
            node.spans = (Span(text, "model", tuple(ids), "bench", (-0.5,) * len(ids)),)
            made.nodes[node.id] = node
        made.current, parent = parent, first
        if len(made.nodes) // SIBLINGS % LEVELS_AT_ONCE == 0:
            parent = ROOT  # another beginning
    return made


def measure(path: Path) -> list[Line]:
    """Everything that is promised for the story at ``path``."""
    lines: list[Line] = []
    began = time.perf_counter()
    story = Story.open(path)
    lines.append(Line("open", time.perf_counter() - began, "s", 2.5))
    try:
        lines.append(Line("memory, at most, when open", _most_memory(), "MB", 250.0))
        lines += _verbs(story) + _reading(story)
    finally:
        story.close()
    lines.append(Line("memory, at most, after searches", _most_memory(), "MB"))
    lines.append(Line("file", path.stat().st_size / 2**20, "MB"))
    return lines


def _most_memory() -> float:
    """The largest resident set of this process, MB; not that of the process it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    )


def _verbs(story: Story) -> list[Line]:
    rng = random.Random(2)
    models = [node for node in rng.sample(range(2, len(story)), 400) if story.is_living(node)]
    some = iter(models)

    def edited() -> None:
        story.visit(node := next(some))
        end = story.chars(node)
        story.replace(Edit(end - len(story.node(node).text) // 2, end, "Another text."))

    def typed() -> None:
        story.visit(next(some))
        story.append("x")
        story.append(" and then some")

    return [
        _median("pick", lambda: story.pick(next(some)), 10.0),
        _median("pick a part", lambda: story.pick(next(some), 20), 10.0),
        _median("edit (a fork)", edited, 10.0),
        _median("two strokes of typing", typed, 20.0),
        _median("undo", story.undo, 10.0),
    ]


def _reading(story: Story) -> list[Line]:
    end = max(story.reading_order())
    text = story.text(end)[-200_000:]
    counts = Counter(text.split())
    common = [word for word, _ in counts.most_common(10)]
    rare = cycle(word for word in sorted(counts) if len(word) > 4)
    usual = cycle(common)
    return [
        _median("search, two words", lambda: search_tree(story, f"{next(rare)} {next(rare)}"), 100.0),
        _median("search, one word", lambda: search_tree(story, next(rare)), 100.0),
        _median("search, the commonest words", lambda: search_tree(story, next(usual)), 100.0),
        _median("search, the beginning of a word", lambda: search_tree(story, next(rare)[:3]), 100.0),
        _median("text of the path", lambda: story.text(end), None),
        _median("words on the path", lambda: story.words(end), None),
        _median("nodes in reading order", lambda: list(story.reading_order(ROOT)), None, times=3),
    ]


def _median(what: str, call: Callable[[], object], most: float | None, times: int = 25) -> Line:
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return Line(what, statistics.median(taken), "ms", most)


def keys(folder: Path) -> list[Line]:
    """What a key costs, and a word that is replaced everywhere."""
    lines = [_key(folder, 500, 5.0), _key(folder, 500_000, 10.0)]
    with Story.create(folder / "replace.srbw") as story:
        story.append(_PROSE * (5_000_000 // len(_PROSE)))
        story.end_typing()
        places = range(_PROSE.index("nobody"), story.chars(story.current), len(_PROSE))
        began = time.process_time()
        story.replace(*[Edit(at, at + len("nobody"), "somebody") for at in places])
        spent = time.process_time() - began
        lines.append(Line(f"replace a word in {len(places)} places of 5 MB, processor time", spent, "s", 1.0))
        began = time.process_time()
        story.undo()
        lines.append(Line("undo of that, processor time", time.process_time() - began, "s", 0.5))
    return lines


_PROSE = (
    "The tide came in and nobody said a word about it. " + 9 * "The rain went on; no one was awake then. "
)


def _key(folder: Path, chars: int, most: float, times: int = 50) -> Line:
    """A key in the middle of a paragraph, and what is written behind all of them."""
    with Story.create(folder / f"{chars}.srbw") as story:
        story.append((_PROSE * (chars // len(_PROSE) + 1))[:chars])
        story.end_typing()
        story.flush()
        began = time.process_time()
        for number in range(times):
            story.replace(Edit(chars // 2 + number, chars // 2 + number, "x"))
        story.flush()
        spent = (time.process_time() - began) / times * 1000
    return Line(f"a key in a paragraph of {chars} letters, processor time", spent, "ms", most)


def table(lines: list[Line]) -> str:
    """The lines as text."""
    rows = [("", "median", "promise", "")]
    for line in lines:
        promise = "" if line.most is None else f"≤ {line.most:g} {line.unit}"
        rows.append((line.what, f"{line.value:.2f} {line.unit}", promise, "" if line.kept else "BROKEN"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.story", description="How fast a story of novel size is."
    )
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where to build the story (default: a temporary folder)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)  # the fresh process
    given = parser.parse_args()
    if given.measure:
        print(json.dumps([[v.what, v.value, v.unit, v.most] for v in measure(given.measure)]))
        return 0
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "bench.srbw"
        began = time.perf_counter()
        Story.from_draft(path, draft(given.nodes, given.words)).close()
        built = Line("build and import", time.perf_counter() - began, "s")
        command = [sys.executable, "-m", "benchmarks.story", "--measure", str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lines = [built, *(Line(*row) for row in json.loads(done.stdout)), *keys(Path(folder))]
    print(f"{given.nodes} nodes, {given.words} words")
    print(table(lines))
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
