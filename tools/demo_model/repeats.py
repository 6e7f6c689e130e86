"""Between steps 4 and 5: collect repetitive text of a model, for unlikelihood training.

A small model is likelier to repeat a sentence the more often it has occurred, and training on other people's
text never shows the model its own. So it continues some thousands of openings; continuations that repeat a
run of eight words are kept, and training lowers the probability of the repeating tokens (unlikelihood on
sequences, Welleck et al. 2020, arXiv:1908.04319) while it continues on stories.

    python -m tools.demo_model.repeats MODEL.gguf --out WORK
    python -m tools.demo_model.train --out WORK … --repeats 0.5
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tqdm import tqdm

from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop
from tools.demo_model.data import IGNORED, best_fit
from tools.demo_model.evaluate import BRANCHES, LENGTH, SAMPLING
from tools.demo_model.metrics import loops
from tools.demo_model.prepare import documents

FILE = "repeats.jsonl"
#: Sets of documents whose openings are written on, and how many of ten from each.
OPENINGS = (("simple", 7), ("tales", 3))
OPENING_WORDS = (3, 25)
#: A token is unlearned where it ends a run of so many tokens that occurred in the sample before.
RUN = 6


@dataclass(frozen=True)
class Sample:
    """An opening and what a model made of it."""

    prompt: str
    text: str


def openings(text: Path, count: int, seed: int) -> list[str]:
    """Beginnings of documents of the working folder, a few words long; the same for the same seed."""
    rng, found = random.Random(seed), list[str]()
    for name, tenths in OPENINGS:
        file = text / f"{name}.txt"
        if file.exists():
            chosen = rng.choices(documents(file), k=count * tenths // 10)
            found += [opening(document, rng.randint(*OPENING_WORDS)) for document in chosen]
    rng.shuffle(found)
    return found


def opening(document: str, words: int) -> str:
    """Return the first words of a document, with their spacing unchanged."""
    end = 0
    for word in document.split()[:words]:
        end = document.index(word, end) + len(word)
    return document[:end]


def write_on(model: Path, prompts: list[str], seed: int) -> Iterator[Sample]:
    """Eight branches of each prompt, sampled as `evaluate` samples them.

    One prompt at a time: every row attends to the cells of all, so that more at once are slower.
    """
    sampling, stop = Sampling(**SAMPLING), Stop(max_tokens=LENGTH)
    with Engine.load(model, EngineOptions(n_ctx=4096, max_branches=BRANCHES, seed=seed)) as engine:
        for prompt in tqdm(prompts, unit="prompt"):
            for text in engine.submit(Request(prompt, BRANCHES, sampling, stop)).result():
                yield Sample(prompt, text)
            engine.reset()


def repeated(ids: list[int], first: int, run: int = RUN) -> list[bool]:
    """Return for each id from `first` on whether it ends a run of `run` ids that occurred before."""
    seen, marks = set[tuple[int, ...]](), list[bool]()
    for end in range(1, len(ids) + 1):
        gram = tuple(ids[max(0, end - run) : end])
        marks.append(len(gram) == run and end > first and gram in seen)
        seen.add(gram)
    return marks


class Repeats:
    """Return rows of repetitive samples, with the tokens to unlearn as targets."""

    def __init__(self, path: Path, tokenizer: Tokenizer, length: int, seed: int) -> None:
        self.length, self.seed = length, seed
        samples = [Sample(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        pieces = [self.piece(sample, tokenizer) for sample in samples]
        bins = best_fit([len(ids) for ids, _ in pieces], length + 1)
        shape = (len(bins), length + 1)
        self.ids, self.targets = np.zeros(shape, np.int64), np.full(shape, IGNORED, np.int64)
        for ids, targets, members in zip(self.ids, self.targets, bins, strict=True):
            end = 0
            for member in members:
                tokens, marks = pieces[member]
                place = slice(end, end := end + len(tokens))
                ids[place], targets[place] = tokens, np.where(marks, tokens, IGNORED)

    def piece(self, sample: Sample, tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
        prompt = [0, *tokenizer.encode(sample.prompt).ids]
        ids = [*prompt, *tokenizer.encode(sample.text).ids][: self.length + 1]
        return ids, repeated(ids, len(prompt))

    def batch(self, step: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets, `rows` × `length`; the draw depends on seed and step alone."""
        rng = np.random.default_rng([self.seed, step])
        rows = min(rows, len(self.ids))
        chosen = rng.choice(len(self.ids), rows, replace=False)
        return self.ids[chosen, :-1], self.targets[chosen, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(description="Collect samples in which a model repeats itself.")
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--out", type=Path, required=True, help="working folder with text/")
    parser.add_argument("--prompts", type=int, default=500, help="openings, each written on eight times")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    prompts = openings(args.out / "text", args.prompts, args.seed)
    samples = list(write_on(args.model, prompts, args.seed))
    kept = [sample for sample in samples if loops(sample.text)]
    lines = "".join(json.dumps(asdict(sample), ensure_ascii=False) + "\n" for sample in kept)
    (args.out / FILE).write_text(lines, encoding="utf-8")
    print(f"{args.out / FILE}: {len(kept)} of {len(samples)} samples repeat themselves")


if __name__ == "__main__":
    main()
