"""Banned phrases: whether any is left, and what going back costs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop
from srbwriter.engine.types import PhraseBanned
from srbwriter.prose import sentence_ends

PHRASES, SENTENCES, AT_ONCE, TOKENS = 100, 10_000, 16, 120
DRAWN = 2400  # first tokens
OPENINGS = (
    "Once upon a time, there was a little fox who lived in the wood.",
    "One day, a girl named Lily went to the park with her mother.",
    "Tom and Ben were best friends, and they liked to build things.",
    "It was raining, and the old man looked out of the window.",
)
_LENGTH = Stop(max_tokens=TOKENS, ignore_eog=True)
_OPTIONS = EngineOptions(n_ctx=4096, gpu_layers=0, seed=1, threads=1, max_branches=AT_ONCE)
"""One thread: with several, each step of a single branch waits for all of them where others use the cores."""


def run(model: Path) -> list[str]:
    with Engine.load(model, _OPTIONS) as engine:
        phrases = _frequent(engine)
        free, banned = _by_turns(engine, phrases)
    words = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    found = re.compile(rf"(?<![^\W_])(?:{words})", re.IGNORECASE)
    before, after = (sum(len(found.findall(text)) for text in one.texts) for one in (free, banned))
    speed = banned.speed / free.speed
    rewound = 1000 * banned.taken_back / banned.tokens
    return [
        f"{PHRASES} phrases that the model often writes, {SENTENCES} sentences",
        "",
        "| | without | with |", "|---|---|---|",
        f"| sentences | {free.sentences} | {banned.sentences} |",
        f"| phrases in them | {before} | {after} |",
        f"| tokens taken back, of 1000 | – | {rewound:.1f} |",
        f"| times gone back, of 1000 tokens | – | {1000 * banned.hits / banned.tokens:.1f} |",
        f"| let be | – | {banned.let_be} |",
        f"| tokens a second | {free.speed:.0f} | {banned.speed:.0f} |",
        "",
        f"bans: {after} phrases left in {banned.sentences} sentences ({before} in {free.sentences} without); "
        f"{rewound:.1f} tokens of 1000 taken back; tokens a second {speed:.2f} of without",
    ]  # fmt: skip


class Written:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.sentences = self.tokens = self.hits = self.taken_back = self.let_be = 0
        self.seconds = 0.0

    @property
    def speed(self) -> float:
        """Tokens a second that stay."""
        return self.tokens / self.seconds


def _by_turns(engine: Engine, phrases: Sequence[str]) -> tuple[Written, Written]:
    """Yield texts without and with the ban; one in five without, so that other work slows both alike."""
    free, banned, seed = Written(), Written(), 0
    while banned.sentences < SENTENCES:
        seed += 1
        _write(engine, phrases, seed, banned)
        if seed % 5 == 1:
            _write(engine, (), seed, free)
    return free, banned


def _write(engine: Engine, banned: Sequence[str], seed: int, done: Written) -> None:
    """A round of texts more."""
    sampling = Sampling(seed=seed, banned_phrases=tuple(banned))
    begun = time.perf_counter()
    request = Request(OPENINGS[seed % len(OPENINGS)], n=AT_ONCE, sampling=sampling, stop=_LENGTH)
    generation = engine.submit(request).wait()
    done.seconds += time.perf_counter() - begun
    done.texts += [branch.text for branch in generation.branches]
    done.sentences += sum(len(sentence_ends(branch.text)) for branch in generation.branches)
    done.tokens += sum(len(branch.ids) for branch in generation.branches)
    for event in generation.log:
        if isinstance(event, PhraseBanned):
            done.hits += 1
            done.taken_back += event.tokens
            done.let_be += not event.tokens


def _frequent(engine: Engine) -> list[str]:
    """Runs of three words that the model writes most often."""
    counts: Counter[str] = Counter()
    sample = Written()
    while sample.sentences < SENTENCES // 8:
        _write(engine, (), 10_000 + len(sample.texts), sample)
    for text in sample.texts:
        for sentence in re.split(r"[^\w' ]+", text.lower()):
            words = sentence.split()
            counts.update(" ".join(words[k : k + 3]) for k in range(len(words) - 2))
    return [phrase for phrase, _ in counts.most_common(PHRASES)]
