"""Whether summaries help a model to go on: ``python -m benchmarks.so_far BOOK.txt … --model FILE``.

Cuts each book (plain text, chapters headed by a number) into chapters, lets the model summarize them as the
app does, and compares the log-probability per token of the first tokens of a chapter after four prompts: the
window alone, a window shorter by the room for summaries, and that with the summaries of this book or of
another one.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from srbwriter.config import keys
from srbwriter.engine import Engine, EngineOptions
from srbwriter.engine.types import Priority
from srbwriter.session.describing import whole_sentences
from srbwriter.session.scoring import scoring_request
from srbwriter.session.so_far import Summary, fit, summary_request

_HEADING = re.compile(r"^\s*(?:chapter\s+)?[IVXL]+\.?\s*$", re.MULTILINE | re.IGNORECASE)
_GUTENBERG_END = re.compile(r"\*\*\* ?END OF", re.IGNORECASE)
PROMPTS = ("window alone", "shorter window", "with its summaries", "with another book's")


def chapters(path: Path) -> list[str]:
    """Return the chapters of a book, each paragraph on a line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if end := _GUTENBERG_END.search(text):
        text = text[: end.start()]
    places = [*_HEADING.finditer(text)]
    ends = [*(place.start() for place in places[1:]), len(text)]
    bodies = [text[place.end() : end].strip() for place, end in zip(places, ends, strict=True)]
    return [
        "\n\n".join(" ".join(p.split()) for p in re.split(r"\n\s*\n", body))
        for body in bodies
        if len(body) > 2000
    ]


def score(engine: Engine, prompt: Sequence[int], following: Sequence[int]) -> float:
    """Return the mean log-probability of ``following`` after ``prompt``."""
    generation = engine.submit(scoring_request((*prompt, *following), len(prompt), Priority.NORMAL))
    generation.wait()
    known = [one.logprob for one in generation.prompt_logprobs if one.logprob > -math.inf]
    assert len(known) == len(following), (len(known), len(following))
    return statistics.fmean(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("books", nargs="+", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--instruct", action="store_true", help="ask for summaries instead of showing an example"
    )
    parser.add_argument("--window", type=int, default=2048, help="tokens before the chapter (%(default)s)")
    parser.add_argument("--tokens", type=int, default=300, help="tokens of the chapter (%(default)s)")
    parser.add_argument("--chapters", type=int, default=8, help="chapters of each book (%(default)s)")
    parser.add_argument("--show", action="store_true", help="print the summaries")
    given = parser.parse_args()
    engine = Engine.load(given.model, EngineOptions(n_ctx=4096))
    books = {path.stem: chapters(path) for path in given.books}
    told: dict[str, list[Summary]] = {}
    began, written = time.perf_counter(), 0
    for name, texts in books.items():
        told[name] = []
        for number, text in enumerate(texts[: given.chapters + 3], 1):
            generation = engine.submit(summary_request(engine, text, instruct=given.instruct))
            generation.wait()
            told[name].append(Summary(f"Chapter {number}", whole_sentences(generation.branches[0].text)))
            written += 1
            if given.show:
                print(
                    name, told[name][-1].title, len(text.split()), "words:", told[name][-1].text, flush=True
                )
    each = (time.perf_counter() - began) / written
    print(f"{given.model.name}: {written} summaries, {each:.1f} s each")
    room = int(keys.SO_FAR.default / 100 * given.window)
    names = list(books)
    found: dict[str, list[list[float]]] = {}
    for place, name in enumerate(names):
        other = names[(place + 1) % len(names)]
        done = 0
        for number, text in enumerate(books[name]):
            before = [engine.bos] if engine.add_bos and engine.bos is not None else []
            past = engine.tokenize("\n\n".join(books[name][:number]) + "\n\n", add_bos=False)
            if len(past) < given.window * 1.5 or number >= len(told[name]) or done == given.chapters:
                continue
            done += 1
            following = engine.tokenize(text, add_bos=False)[: given.tokens]
            own, others = (
                engine.tokenize(fit(told[which][: number - 1], engine, room), add_bos=False)
                for which in (name, other)
            )
            prompts = (
                [*before, *past[-given.window :]],
                [*before, *past[-(given.window - room) :]],
                [*before, *own, *past[-(given.window - room) :]],
                [*before, *others, *past[-(given.window - room) :]],
            )
            found.setdefault(name, []).append([score(engine, prompt, following) for prompt in prompts])
            print(name, number + 1, *(f"{value:.4f}" for value in found[name][-1]), flush=True)
    everything = [row for rows in found.values() for row in rows]
    print(f"\nwindow {given.window} tokens, {room} for summaries; nats per token of {given.tokens}\n")
    print("| book | chapters | " + " | ".join(PROMPTS) + " | summaries − window | summaries − another's |")
    print("|---" * (len(PROMPTS) + 4) + "|")
    for name, rows in (*found.items(), ("all", everything)):
        means = " | ".join(f"{statistics.fmean(column):.4f}" for column in zip(*rows, strict=True))
        gains = " | ".join(_gain([row[2] - row[against] for row in rows]) for against in (0, 3))
        print(f"| {name} | {len(rows)} | {means} | {gains} |")
    engine.close()


def _gain(differences: Sequence[float]) -> str:
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{statistics.fmean(differences):+.4f} ± {error:.4f}"


if __name__ == "__main__":
    main()
