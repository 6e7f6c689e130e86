"""Step 5: measure a model through llama.cpp. Needs srbwriter's own dependencies only.

- Bits per byte of each `heldout_*.txt`: every document between two end tokens, in windows of 512 that move
  on by 256, so that a token sees at least 256 before it where there are that many. The closing end token
  counts in bits and not in bytes.
- Bits per byte by position, of the documents that are long enough: with all the text before, and with 256
  to 512 tokens of it. As long as the first is lower, the model makes use of a long context.
- Eight branches of each of eight openings, up to 200 tokens, as the sampling says, with fixed seeds.

    python -m tools.demo_model.evaluate MODEL.gguf --corpus CORPUS [--sampling '{"dry_multiplier": 0.8}']
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import Llama
from numpy.typing import NDArray

from srbwriter.engine import Engine, EngineOptions, FinishReason, Request, Sampling, Stop
from srbwriter.paths import asset_dir
from tools.demo_model import metrics
from tools.demo_model.runtime import open_model
from tools.demo_model.texts import read_documents

WINDOW, STRIDE = 512, 256
EDGES = (0, 256, 512, 1024, 2048, 3072, 4096)
BRANCHES, LENGTH = 8, 200
SAMPLE_PROMPTS = ("the-lamp-in-the-well", "the-harbour-light")


def read_sample_prompt(name: str) -> str:
    """Return the text of an opening that the program offers."""
    text = (asset_dir("sample_prompts") / f"{name}.txt").read_text(encoding="utf-8")
    return text.split("+++\n", 2)[2].strip("\n")


#: Two of tales, four of modern fiction, three of which name somebody, and two that the program offers.
OPENINGS = (
    "Once upon a time,",
    "There was once a king who had three sons, and",
    "Detective Mara Quinn had been awake for thirty hours when the phone rang. She let it",
    "The rain had not stopped for three days. On the fourth morning, Elias walked down to the harbour and",
    '"You shouldn\'t have come here," said Anna. She did not look up from the letter.',
    "It was the summer my father stopped talking. He would sit on the porch until dark, and",
    *map(read_sample_prompt, SAMPLE_PROMPTS),
)


def windows(length: int, window: int = WINDOW, stride: int = STRIDE) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, first, end): tokens `first` to `end` are to be scored after those from `begin` on.

    Every token but the first of the document is scored once.
    """
    done = 1
    for begin in range(0, length, stride):
        end = min(begin + window, length)
        if end > done:
            yield begin, done, end
            done = end
        if end == length:
            return


def score_tokens(model: Llama, ids: list[int], window: int) -> NDArray[np.float64]:
    """Return −log₂ p of each token but the first."""
    scores = list[NDArray[np.float64]]()
    for begin, first, end in windows(len(ids), window, max(1, window // 2)):
        model.reset()
        model.eval(ids[begin : end - 1])
        rows = model.scores[first - 1 - begin : end - 1 - begin].astype(np.float64)
        top = rows.max(axis=1)
        total = np.log(np.exp(rows - top[:, None]).sum(axis=1)) + top
        scores.append((total - rows[np.arange(end - first), ids[first:end]]) / math.log(2))
    return np.concatenate(scores)


def encode(model: Llama, text: str) -> list[int]:
    """Return the ids of a document between two end tokens."""
    ids = model.tokenize(text.encode(), add_bos=False, special=False)
    return [model.token_bos(), *ids, model.token_eos()]


def bits_per_byte(path: Path, held_out: Path, limit: int = 1 << 40) -> float:
    """Return the bits per byte of the documents of a file, until more than `limit` bytes are read."""
    model = open_model(path, n_ctx=WINDOW, n_batch=WINDOW, logits_all=True)
    bits, size = 0.0, 0
    for text in read_documents(held_out):
        if size > limit:
            break
        bits += score_tokens(model, encode(model, text), WINDOW).sum()
        size += len(text.encode())
    model.close()
    return bits / size


def bits_by_position(
    path: Path, held_out: list[Path], edges: tuple[int, ...] = EDGES
) -> dict[str, list[float]]:
    """Return the bits per byte between the edges, of the documents that reach the last of them."""
    result: dict[str, list[float]] = {}
    for name, window in (("whole", edges[-1]), ("short", WINDOW)):
        model = open_model(path, n_ctx=window, n_batch=WINDOW, logits_all=True)
        bits, sizes = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
        for text in (text for file in held_out for text in read_documents(file)):
            ids = encode(model, text)[: edges[-1]]
            if len(ids) < edges[-1]:
                continue
            lengths = np.array([len(model.detokenize([i])) for i in ids[1:]])
            scores = score_tokens(model, ids, window)
            for i, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
                bits[i] += scores[low:high].sum()
                sizes[i] += lengths[low:high].sum()
        model.close()
        result[name] = [float(value) for value in bits / sizes]
    return result


@dataclass(frozen=True)
class Sample:
    """A branch of an opening; `ended` where the model came to an end by itself."""

    opening: str
    text: str
    ended: bool

    @property
    def whole_words(self) -> str:
        """The text without the last word, which the limit of tokens may have cut."""
        return self.text if self.ended else self.text.rpartition(" ")[0]


def write_samples(path: Path, sampling: dict[str, Any], length: int = LENGTH) -> list[list[Sample]]:
    """Return the branches of each opening."""
    with Engine.load(path, EngineOptions(n_ctx=4096, max_branches=BRANCHES)) as engine:
        rounds = list[list[Sample]]()
        for number, opening in enumerate(OPENINGS):
            request = Request(
                opening, BRANCHES, Sampling(seed=100 * number + 1, **sampling), Stop(max_tokens=length)
            )
            generation = engine.submit(request)
            generation.wait()
            rounds.append(
                [
                    Sample(opening, branch.text, branch.finish_reason is FinishReason.EOG)
                    for branch in generation.branches
                ]
            )
            engine.reset()
        return rounds


def judge(rounds: list[list[Sample]]) -> dict[str, float]:
    """Return the figures that are made from samples: shares, and numbers of names."""
    known = metrics.read_word_list()
    texts = [[sample.whole_words for sample in samples] for samples in rounds]
    samples = [sample for samples in rounds for sample in samples]
    return {
        "repeated": sum(metrics.loops(text) for texts_ in texts for text in texts_) / len(samples),
        "distinct_4": sum(map(metrics.distinct, texts)) / len(texts),
        "ended": sum(sample.ended for sample in samples) / len(samples),
        "bent_names": sum(len(metrics.bent_names(s.opening, s.whole_words, known)) for s in samples),
        "names_used": sum(metrics.count_names(s.opening, s.whole_words) for s in samples),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a story model through llama.cpp.")
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with heldout_*.txt")
    parser.add_argument("--sampling", type=json.loads, default={}, help="JSON, over llama.cpp's defaults")
    parser.add_argument("--positions", action="store_true", help="bits per byte by position, too")
    args = parser.parse_args()
    held_out = sorted(args.corpus.glob("heldout_*.txt"))
    for file in held_out:
        print(f"{file.stem:24} {bits_per_byte(args.model, file):.4f} bits per byte")
    if args.positions:
        for name, bits in bits_by_position(args.model, held_out).items():
            print(f"by position, {name:12}", *(f"{value:.4f}" for value in bits))
    for name, value in judge(write_samples(args.model, args.sampling)).items():
        print(f"{name:24} {value:.4f}")


if __name__ == "__main__":
    main()
