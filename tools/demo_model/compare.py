"""Write a file for readers: two models side by side, and what settings of DRY do to the second.

python -m tools.demo_model.compare OLD.gguf NEW.gguf --corpus CORPUS --samples WORK --out comparison.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from tools.demo_model.evaluate import OPENINGS, Sample, bits_per_byte, judge, write_samples
from tools.demo_model.metrics import bent_names, loops, read_word_list

DRY = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1}
STAR = DRY | {"dry_sequence_breakers": ("*",)}
#: Settings of the new model over llama.cpp's defaults. The texts of the first are shown.
VARIANTS: dict[str, dict[str, Any]] = {
    "DRY, breaker `*`, 3 tokens free": STAR | {"dry_allowed_length": 3},
    "DRY, breaker `*`, 2 tokens free": STAR,
    "DRY, usual breakers, 2 tokens free": DRY,
    "DRY, breakers `A` to `Z`, 2 tokens free": DRY | {"dry_sequence_breakers": tuple(ascii_uppercase)},
    "no DRY": {},
}
Rounds = list[list[Sample]]
HEAD = """# Two story models side by side

Eight branches of each of eight openings, up to 200 tokens, the same seeds for both. What is counted:
branches that repeat a run of eight words; different runs of four words among the eight branches of an
opening, per run (distinct-4); branches that come to an end by themselves; names that come back with one to
three letters changed; how often the names of the openings (Mara, Quinn, Elias, Anna, Ilse, Halloran,
Skarne) are used. Bits per byte are of texts that neither model was trained on; less is better.

Sampling is llama.cpp's default (temperature 0.8, top-k 40, top-p 0.95, min-p 0.05) and, where it says DRY, a
multiplier of 0.8 with base 1.75 over the whole context. The usual breakers are a line break, a colon, a
quotation mark and `*`. "Free" is the length of a repetition that DRY lets through. The texts are those of the
old model without DRY and of the new one with the first settings of its list.
"""


def sample_once(model: Path, sampling: dict[str, Any], kept: Path) -> Rounds:
    """Return the samples that an earlier run kept in a file, or write them now."""
    if kept.exists():
        return [[Sample(**sample) for sample in samples] for samples in json.loads(kept.read_text("utf-8"))]
    rounds = write_samples(model, sampling)
    text = json.dumps([[asdict(sample) for sample in samples] for samples in rounds], ensure_ascii=False)
    kept.write_text(text, "utf-8")
    return rounds


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, all columns but the first set right."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def figures_row(name: str, rounds: Rounds) -> list[str]:
    figures, count = judge(rounds), sum(map(len, rounds))
    shares = {key: f"{figures[key] * count:.0f} of {count}" for key in ("repeated", "ended")}
    return [
        name,
        shares["repeated"],
        f"{figures['distinct_4']:.3f}",
        shares["ended"],
        f"{figures['bent_names']:.0f}",
        f"{figures['names_used']:.0f}",
    ]


def quote(sample: Sample) -> str:
    """Return a branch as a quotation."""
    return "> " + "\n>\n> ".join(filter(None, map(str.strip, sample.text.split("\n")))) + "\n"


def side_by_side(old: Rounds, new: Rounds) -> Iterator[str]:
    """Yield all branches of both models, opening by opening."""
    known = read_word_list()
    for number, opening in enumerate(OPENINGS):
        yield f"## Opening {number + 1}\n"
        yield opening + "\n"
        for name, samples in (("Old", old[number]), ("New", new[number])):
            for branch, sample in enumerate(samples, 1):
                notes = ["ends"] * sample.ended + ["repeats itself"] * loops(sample.whole_words)
                notes += [f"{a} → {b}" for a, b in bent_names(opening, sample.whole_words, known)]
                yield f"**{name} {branch}**" + (f" ({', '.join(notes)})" if notes else "") + "\n"
                yield quote(sample)


def compare(old: Path, new: Path, corpus: Path, samples: Path, limit: int) -> Iterator[str]:
    """Yield the lines of the file."""
    held_out = sorted(corpus.glob("heldout_*.txt"))
    before = sample_once(old, {}, samples / "old.json")
    variants = {
        name: sample_once(new, sampling, samples / f"new-{number}.json")
        for number, (name, sampling) in enumerate(VARIANTS.items())
    }
    yield HEAD
    yield from table(
        ["bits per byte", *(file.stem.removeprefix("heldout_") for file in held_out)],
        [
            [name, *(f"{bits_per_byte(model, file, limit):.4f}" for file in held_out)]
            for name, model in (("old", old), ("new", new))
        ],
    )
    yield from table(
        ["model, sampling", "repeat eight words", "distinct-4", "end the story", "bent names", "names used"],
        [
            figures_row("old, no DRY", before),
            *(figures_row(f"new, {name}", rounds) for name, rounds in variants.items()),
        ],
    )
    yield from side_by_side(before, next(iter(variants.values())))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare two models for readers.")
    parser.add_argument("old", type=Path, help="GGUF file")
    parser.add_argument("new", type=Path, help="GGUF file")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with heldout_*.txt")
    parser.add_argument("--samples", type=Path, required=True, help="folder that keeps samples between runs")
    parser.add_argument("--bytes", type=int, default=1 << 40, help="of each held-out file, for a quick look")
    parser.add_argument("--out", type=Path, required=True, help="Markdown file to write")
    args = parser.parse_args()
    args.samples.mkdir(parents=True, exist_ok=True)
    lines = compare(args.old, args.new, args.corpus, args.samples, args.bytes)
    args.out.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
