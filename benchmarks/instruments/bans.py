"""Banned phrases: whether any is left, what going back costs, and whether anything else is another for it."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
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
        p = _law_of_the_rest(engine)
    same, kept, begun = _same_until_a_hit(model, phrases[-10:])
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
        f"Single branches, each on a new engine, the last 10 of these banned: of {kept} that never went back "
        f"{same} are the same; the others are up to their first phrase, {begun}.",
        f"Where the likeliest first word is banned, {DRAWN} first tokens against the law of the others "
        f"(chi-square): p = {p:.2f}.",
        "",
        f"bans: {after} phrases left in {banned.sentences} sentences ({before} in {free.sentences} without); "
        f"{rewound:.1f} tokens of 1000 taken back; tokens a second {speed:.2f} of without; "
        f"elsewhere {same}/{kept} the same, p = {p:.2f}",
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


def _same_until_a_hit(model: Path, phrases: Sequence[str]) -> tuple[int, int, str]:
    """Texts without a phrase that come out the same, of how many; and the others up to their first."""
    pairs = [
        (one, other)
        for opening in OPENINGS[:2]
        for one, other in zip(
            *(_alone(model, opening, listed) for listed in ((), tuple(phrases))), strict=True
        )
    ]
    whole = [(one, other) for (one, _), (other, bans) in pairs if not bans]
    cut = [(one, other) for (one, _), (other, bans) in pairs if bans]
    begun = [len(next(_common(one, other), "")) for one, other in cut]
    shortest = f"{sum(begun) / max(len(begun), 1):.0f} characters on average"
    return sum(one == other for one, other in whole), len(whole), shortest


def _alone(model: Path, opening: str, banned: tuple[str, ...]) -> list[tuple[str, int]]:
    """Eight texts and how often each went back, each written by an engine that does nothing else."""
    texts: list[tuple[str, int]] = []
    for seed in range(8):
        sampling = Sampling(seed=seed, banned_phrases=banned)
        request = Request(opening, sampling=sampling, stop=Stop(max_tokens=24, ignore_eog=True))
        with Engine.load(model, _OPTIONS) as engine:
            [branch] = engine.submit(request).wait().branches
        texts.append((branch.text, branch.bans))
    return texts


def _common(one: str, other: str) -> Iterator[str]:
    """What both begin with."""
    yield one[: next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))]


def _law_of_the_rest(engine: Engine) -> float:
    """How likely first tokens at least as far from the law are by chance, with the likeliest word banned."""
    one, plain = (
        Stop(max_tokens=1, ignore_eog=True),
        {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    )
    opening = OPENINGS[0]
    best = engine.submit(Request(opening, stop=Stop(max_tokens=0), next_logprobs=100)).wait().next_logprobs
    word = engine.detokenize([best[0][0]]).strip()
    gone = {
        t
        for t in range(engine.info.n_vocab)
        if engine.detokenize([t]).strip().lower().startswith(word.lower())
    }
    every: dict[int, float] = {}
    for begin in range(0, engine.info.n_vocab, 4096):
        ids = tuple(range(begin, min(begin + 4096, engine.info.n_vocab)))
        request = Request(opening, stop=Stop(max_tokens=0), next_ids=ids)
        every |= dict(engine.submit(request).wait().next_logprobs)
    left = 1 - sum(math.exp(every[t]) for t in gone)
    drawn: Counter[int] = Counter()
    for seed in range(1, DRAWN // AT_ONCE + 1):
        sampling = Sampling(**plain, seed=seed * 1000, banned_phrases=(word,))
        request = Request(opening, n=AT_ONCE, sampling=sampling, stop=one)
        drawn.update(branch.ids[0] for branch in engine.submit(request).wait().branches)
    total = sum(drawn.values())
    expected = {t: total * math.exp(lp) / left for t, lp in every.items() if t not in gone}
    cells = [(drawn[t], n) for t, n in expected.items() if n >= 10]
    rest = total - sum(n for _, n in cells), total - sum(found for found, _ in cells)
    cells.append((rest[1], rest[0]))
    chi, k = sum((found - n) ** 2 / n for found, n in cells), len(cells) - 1
    z = ((chi / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))  # Wilson and Hilferty (1931)
    return 0.5 * math.erfc(z / math.sqrt(2))
