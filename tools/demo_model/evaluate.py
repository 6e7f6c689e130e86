"""Step 6: measure a GGUF model through llama.cpp. Needs srbwriter's own dependencies only.

Bits per byte: every held-out document is between two `<|endoftext|>`; windows of 512 tokens
move on by 256, so a token sees at least 256 before it where there are that many; the closing mark is
counted in bits and not in bytes. Samples: eight branches of each of eight fixed prompts, up to 200
tokens, with the sampling defaults of llama.cpp and fixed seeds.

    python -m tools.demo_model.evaluate MODEL.gguf --corpus DIR [--json FILE] [--show 10]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import Llama
from numpy.typing import NDArray
from rich.progress import track

from tools.demo_model import metrics
from tools.demo_model.prepare import corpus_files, documents
from tools.demo_model.runtime import open_model

WINDOW, STRIDE = 512, 256
BRANCHES, LENGTH = 8, 200
#: Four openings of simple stories and four of tales.
PROMPTS = (
    "Once upon a time,",
    "One day, a little girl named Lily found a",
    "Tom and his dog were playing in the park when",
    "The rabbit was very sad because",
    "There was once a king who had three sons, and",
    "The old woman opened the door of the cottage and",
    "Long ago, in a village at the foot of the mountain, there lived",
    'The princess looked at the frog. "If you bring me my golden ball,"',
)
#: llama.cpp's own defaults, written out so that a new version of it changes nothing here.
SAMPLING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0}


def windows(length: int, window: int = WINDOW, stride: int = STRIDE) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, first, end): tokens `first`..`end` are to be scored after those from `begin` on.

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


def nats(logits: NDArray[np.float32], wanted: NDArray[np.int64]) -> float:
    """Return the sum of −ln p of the target ids, one row of logits each."""
    rows = logits.astype(np.float64)
    top = rows.max(axis=1)
    total = np.log(np.exp(rows - top[:, None]).sum(axis=1)) + top
    return float((total - rows[np.arange(len(wanted)), wanted]).sum())


def document_nats(model: Llama, ids: list[int]) -> float:
    """Sum of −ln p over a document, its marks included in `ids`."""
    total = 0.0
    for begin, first, end in windows(len(ids)):
        model.reset()
        model.eval(ids[begin : end - 1])
        rows = model.scores[first - 1 - begin : end - 1 - begin]
        total += nats(rows, np.array(ids[first:end]))
    return total


def bits_per_byte(path: Path, held_out: Path) -> float:
    """Bits per byte of the documents of a file under the model in `path`."""
    model = open_model(path, n_ctx=WINDOW, n_batch=WINDOW, logits_all=True)
    total, size = 0.0, 0
    for text in track(documents(held_out), held_out.stem, transient=True):
        ids = model.tokenize(text.encode(), add_bos=False, special=False)
        total += document_nats(model, [model.token_bos(), *ids, model.token_eos()])
        size += len(text.encode())
    model.close()
    return total / math.log(2) / size


def sample(path: Path) -> list[list[dict[str, Any]]]:
    """For each prompt its branches: `text`, number of `tokens`, and why it ended (`stop` or `length`)."""
    model = open_model(path, n_ctx=WINDOW)
    result: list[list[dict[str, Any]]] = []
    for number, prompt in enumerate(track(PROMPTS, "samples", transient=True)):
        branches: list[dict[str, Any]] = []
        for branch in range(BRANCHES):
            seed = number * BRANCHES + branch + 1
            answer: Any = model.create_completion(prompt, max_tokens=LENGTH, seed=seed, **SAMPLING)
            choice = answer["choices"][0]
            branches.append(
                {
                    "text": choice["text"],
                    "tokens": answer["usage"]["completion_tokens"],
                    "end": choice["finish_reason"],
                }
            )
        result.append(branches)
    model.close()
    return result


def whole_words(branch: dict[str, Any]) -> str:
    """The text of a branch without the last word, which the length limit may have cut."""
    return branch["text"].rpartition(" ")[0] if branch["end"] == "length" else branch["text"]


def judge(samples: list[list[dict[str, Any]]], known: frozenset[str]) -> dict[str, float]:
    """The figures that are made from samples."""
    texts = [[whole_words(branch) for branch in branches] for branches in samples]
    flat = [text for branches in texts for text in branches]
    tokens = [branch["tokens"] for branches in samples for branch in branches]
    return {
        "word_share": metrics.known_share(flat, known),
        "loop_share": sum(map(metrics.loops, flat)) / len(flat),
        "distinct_4": sum(map(metrics.distinct, texts)) / len(texts),
        "overlap_4": sum(map(metrics.overlap, texts)) / len(texts),
        "mean_tokens": sum(tokens) / len(tokens),
        "ended_share": sum(b["end"] == "stop" for bs in samples for b in bs) / len(flat),
    }


def evaluate(path: Path, corpus: Path) -> dict[str, Any]:
    """All figures of a model; `samples` holds the texts they come from."""
    figures: dict[str, Any] = {"file": path.name, "bytes": path.stat().st_size}
    for held_out in sorted(corpus.glob("heldout_*.txt")):
        figures[held_out.stem] = bits_per_byte(path, held_out)
    samples = sample(path)
    known = metrics.word_list(text for file in corpus_files(corpus) for text in documents(file))
    figures.update(judge(samples, known))
    figures["samples"] = [
        {"prompt": prompt, "branches": [branch["text"] for branch in branches]}
        for prompt, branches in zip(PROMPTS, samples, strict=True)
    ]
    return figures


def show(figures: dict[str, Any], count: int) -> None:
    """Print the figures and the first `count` samples, going round the prompts."""
    for key, value in figures.items():
        if key != "samples":
            print(f"{key:20} {value:.4f}" if isinstance(value, float) else f"{key:20} {value}")
    for number in range(count):
        prompt = figures["samples"][number % len(PROMPTS)]
        print(f"\n--- {number + 1}\n{prompt['prompt']}|{prompt['branches'][number // len(PROMPTS)]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a story model through llama.cpp.")
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("--corpus", type=Path, required=True, help="training text and heldout_* files")
    parser.add_argument("--json", type=Path, help="write everything, samples too, to this file")
    parser.add_argument("--show", type=int, default=0, help="print so many samples")
    args = parser.parse_args()
    figures = evaluate(args.model, args.corpus)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    show(figures, args.show)


if __name__ == "__main__":
    main()
