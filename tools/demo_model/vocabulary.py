"""Step 1: choose the entries of the base model's vocabulary that fiction needs.

The base has 49,152 entries, and its embedding is a fifth of its weights. What is kept is the largest set of
frequent entries that is closed under its own merges: each can still be made from two others that are kept,
down to single bytes. So any text can be written, and a word that is one token there is one token here or a
few.

    python -m tools.demo_model.vocabulary BASE.gguf --corpus CORPUS --out WORK [--size 14336]
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tools.demo_model.texts import SHARES, find_part, read_documents

END = "<|endoftext|>"  # id 0; begins and ends a document
#: Marks of a hole to fill, and the entries of the base whose rows of the embedding they take over.
FIM = {
    "<|fim_prefix|>": "<repo_name>",
    "<|fim_suffix|>": "<file_sep>",
    "<|fim_middle|>": "<filename>",
}
SPECIAL = (END, *FIM, "<|im_start|>", "<|im_end|>")
#: Characters of each part of the corpus that are counted.
SAMPLES = {"tinystories": 3_000_000, "tales": 9_000_000, "modern": 14_000_000}
FILE = "vocabulary.json"


@dataclass(frozen=True)
class Vocabulary:
    """Entries by id, their merges in order of rank, and for each entry its row in the base's embedding."""

    tokens: list[str]
    merges: list[str]
    rows: list[int]

    def save(self, out: Path) -> None:
        (out / FILE).write_text(json.dumps(asdict(self), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, out: Path) -> Vocabulary:
        return cls(**json.loads((out / FILE).read_text(encoding="utf-8")))

    def make_tokenizer(self) -> Tokenizer:
        """Return the tokenizer that llama.cpp calls `smollm`: digits one by one, then byte-level BPE."""
        return make_tokenizer(self.tokens, self.merges, SPECIAL)


def make_tokenizer(tokens: Sequence[str], merges: Iterable[str], special: Iterable[str]) -> Tokenizer:
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def read_field(reader: GGUFReader, key: str) -> Any:
    """Return the value of a metadata key; raises ValueError where the file lacks it."""
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"the GGUF file has no {key}")
    return field.contents()


def sample_documents(documents: list[str], characters: int, rng: random.Random) -> Iterator[str]:
    """Yield documents in random order, of long ones the beginning, until there are so many characters."""
    for document in rng.sample(documents, len(documents)):
        if characters <= 0:
            return
        yield document[:200_000]
        characters -= len(document[:200_000])


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[int]:
    """Count the ids of texts."""
    counts = Counter[int]()
    for text in texts:
        counts.update(tokenizer.encode(text, add_special_tokens=False).ids)
    return counts


def prune(
    tokens: list[str], merges: list[str], special: set[str], counts: Counter[int], size: int
) -> Vocabulary:
    """Return `size` entries: those of SPECIAL, all single bytes, and the most frequent that can be made.

    `special` are the base's own special tokens; a FIM mark takes the row that `FIM` names.
    """
    parents: dict[str, tuple[str, str]] = {}
    for left, right in (merge.split(" ") for merge in merges):
        parents.setdefault(left + right, (left, right))
    kept = {token for token in tokens if token not in parents and token not in special}
    room = size - len(SPECIAL)
    for index, _ in counts.most_common():
        wanted = _missing(tokens[index], parents, kept) if tokens[index] not in special else set()
        if len(kept) + len(wanted) <= room:
            kept |= wanted
    chosen = [*SPECIAL, *(token for token in tokens if token in kept)]
    places = {token: i for i, token in enumerate(tokens)}
    return Vocabulary(
        tokens=chosen,
        merges=[m for m in merges if {*m.split(" "), m.replace(" ", "")} <= kept],
        rows=[places[FIM.get(token, token)] for token in chosen],
    )


def _missing(token: str, parents: dict[str, tuple[str, str]], kept: set[str]) -> set[str]:
    """Return the token and what it is made of, as far as that is not kept yet."""
    if token in kept:
        return set()
    return {token}.union(*(_missing(part, parents, kept) for part in parents[token]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose the vocabulary.")
    parser.add_argument("base", type=Path, help="GGUF file of the base model")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of texts")
    parser.add_argument("--out", type=Path, required=True, help="working folder")
    parser.add_argument("--size", type=int, default=14_336, help="entries (default %(default)s)")
    args = parser.parse_args()
    reader = GGUFReader(args.base)
    tokens, merges = (read_field(reader, f"tokenizer.ggml.{key}") for key in ("tokens", "merges"))
    types = read_field(reader, "tokenizer.ggml.token_type")
    special = {token for token, kind in zip(tokens, types, strict=True) if kind != TokenType.NORMAL}
    rng, counts = random.Random(0), Counter[int]()
    whole = make_tokenizer(tokens, merges, sorted(special))
    for name in SHARES:
        documents = read_documents(find_part(args.corpus, name))
        counts.update(count_tokens(whole, sample_documents(documents, SAMPLES[name], rng)))
    args.out.mkdir(parents=True, exist_ok=True)
    vocabulary = prune(tokens, merges, special, counts, args.size)
    vocabulary.save(args.out)
    print(f"{args.out / FILE}: {len(vocabulary.tokens)} entries, {len(vocabulary.merges)} merges")


if __name__ == "__main__":
    main()
