"""Turns prepared documents into blocks of token ids, the same for the same seed. Knows no model.

Best-fit packing (Ding et al. 2024, arXiv:2404.10830) keeps every document whole that fits into a
block; longer ones are cut only where a block ends. A small share of documents is shown in other
dress: with a hole to fill (prefix, suffix, then middle; Bavarian et al. 2022, arXiv:2207.14255), or
after a plain request for the story, which is all that the chat template amounts to.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tools.demo_model.prepare import REGISTERS, Register, documents, version_path
from tools.demo_model.tokenizer import FIM

Ids = NDArray[np.uint16]
IGNORED = -100
FIM_SHARE = 0.06
REQUEST_SHARE = 0.03
#: Openings of a request; what follows is a title or three words of the story.
REQUESTS = (
    "Tell me a story about {}.",
    "Write a story about {}.",
    "Tell me about {}.",
    "Please write a short story with {}.",
)
_WORD = re.compile(r"\b[a-z]{4,}\b")


@dataclass(frozen=True)
class Documents:
    """Encoded documents of one register, and for each the encoded request one could make for it."""

    texts: list[Ids]
    requests: list[Ids]


def document_counts(plain: list[str]) -> Counter[str]:
    """In how many of the documents each word occurs."""
    return Counter(word for document in plain for word in set(_WORD.findall(document)))


def request_for(document: str, index: int, spread: Counter[str], total: int) -> str:
    """A plain request that `document` answers: its title, or its three most telling words (tf-idf)."""
    first, _, rest = document.partition("\n\n")
    if rest and len(first) < 80 and first[-1:] not in '.,;:"!?':
        subject = first
    else:
        counts = Counter(_WORD.findall(document))
        telling = sorted(counts, key=lambda word: (-counts[word] * math.log(total / spread[word]), word))
        subject = ", ".join(telling[:3]) or "anything"
    return REQUESTS[index % len(REQUESTS)].format(subject) + "\n\n"


def encode_register(path: Path, tokenizer: Tokenizer) -> Documents:
    """Encode a file of documents; the result is kept beside it and reused while the tokenizer is the same."""
    cache, key = path.with_suffix(".npz"), np.frombuffer(tokenizer.to_str().encode(), np.uint8)
    if cache.exists() and cache.stat().st_mtime >= path.stat().st_mtime:
        with np.load(cache) as kept:
            if np.array_equal(kept["key"], key):
                return Documents(
                    np.split(kept["texts"], kept["text_ends"][:-1]),
                    np.split(kept["requests"], kept["request_ends"][:-1]),
                )
    plain = documents(path)
    texts = [np.array(e.ids, np.uint16) for e in tokenizer.encode_batch(plain)]
    spread = document_counts(plain)
    encoded = tokenizer.encode_batch([request_for(d, i, spread, len(plain)) for i, d in enumerate(plain)])
    requests = [np.array(e.ids, np.uint16) for e in encoded]
    np.savez(
        cache,
        key=key,
        texts=np.concatenate(texts),
        text_ends=np.cumsum([len(t) for t in texts]),
        requests=np.concatenate(requests),
        request_ends=np.cumsum([len(r) for r in requests]),
    )
    return Documents(texts, requests)


def encode_versions(text: Path, register: Register, tokenizer: Tokenizer) -> list[Documents]:
    """A register's documents as they were found, then with other names."""
    paths = [version_path(text, register.name, v) for v in range(register.renamed + 1)]
    return [encode_register(path, tokenizer) for path in paths]


def word_starts(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """For every id whether the token begins a new word or line, where a hole may begin or end."""
    vocabulary = tokenizer.get_vocab()
    starts = np.zeros(len(vocabulary), bool)
    for token, number in vocabulary.items():
        starts[number] = token[0] in "ĠĊ"
    return starts


def with_hole(ids: Ids, starts: NDArray[np.bool_], fim: Ids, rng: np.random.Generator) -> Ids:
    """`ids` as prefix, suffix and middle; unchanged where there are not two places to cut."""
    places = np.flatnonzero(starts[ids])
    if len(places) < 2:
        return ids
    low, high = np.sort(rng.choice(places, 2, replace=False))
    return np.concatenate((fim[:1], ids[:low], fim[1:2], ids[high:], fim[2:], ids[low:high]))


def best_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    """Pack items of `lengths` ≤ `capacity` into bins, longest first, each into the fullest bin with room."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    bins: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for item in order:
        at = bisect.bisect_left(rooms, (lengths[item], -1))
        if at == len(rooms):
            room, where = capacity, len(bins)
            bins.append([])
        else:
            room, where = rooms.pop(at)
        bins[where].append(item)
        if room > lengths[item]:
            bisect.insort(rooms, (room - lengths[item], where))
    return bins


class Packer:
    """Blocks of `length` + 1 ids from one register, epoch after epoch; `state` is all that a resume needs."""

    def __init__(
        self, versions: list[Documents], tokenizer: Tokenizer, length: int, seed: int, plain: bool = False
    ) -> None:
        self.versions, self.length, self.seed, self.plain = versions, length, seed, plain
        self.starts = word_starts(tokenizer)
        self.fim = np.array([tokenizer.token_to_id(t) for t in FIM], np.uint16)
        self.epoch, self.next = 0, 0
        self.blocks = self.pack()

    @property
    def state(self) -> tuple[int, int]:
        return self.epoch, self.next

    def restore(self, state: tuple[int, int]) -> None:
        if state[0] != self.epoch:
            self.epoch = state[0]
            self.blocks = self.pack()
        self.next = state[1]

    def dress(self, index: int, rng: np.random.Generator) -> Ids:
        """Document `index` as it is shown this epoch, its opening mark before it."""
        docs = self.versions[int(rng.integers(len(self.versions)))]
        ids, draw = docs.texts[index], 1.0 if self.plain else rng.random()
        if draw < FIM_SHARE and len(ids) + 4 <= self.length:
            ids = with_hole(ids, self.starts, self.fim, rng)
        elif FIM_SHARE <= draw < FIM_SHARE + REQUEST_SHARE:
            ids = np.concatenate((docs.requests[index], ids))
        return np.concatenate((np.zeros(1, np.uint16), ids))

    def pack(self) -> NDArray[np.int32]:
        """All documents of this epoch as shuffled blocks; the rest of a block is `IGNORED`."""
        rng = np.random.default_rng([self.seed, self.epoch, self.length])
        capacity, pieces = self.length + 1, []
        for index in range(len(self.versions[0].texts)):
            ids = self.dress(index, rng)
            # A random first cut gives every epoch other borders inside long documents.
            first = int(rng.integers(capacity // 4, capacity + 1)) if len(ids) > capacity else capacity
            cuts = [0, *range(min(first, len(ids)), len(ids), capacity), len(ids)]
            pieces += [ids[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if b > a]
        bins = best_fit([len(p) for p in pieces], capacity)
        blocks = np.full((len(bins), capacity), IGNORED, np.int32)
        for row, members in zip(blocks, bins, strict=True):
            content = np.concatenate([pieces[i] for i in rng.permutation(members)])
            row[: len(content)] = content
            if len(content) < capacity:
                row[len(content)] = 0
        return blocks[rng.permutation(len(blocks))]

    def take(self) -> NDArray[np.int32]:
        if self.next == len(self.blocks):
            self.epoch, self.next = self.epoch + 1, 0
            self.blocks = self.pack()
        self.next += 1
        return self.blocks[self.next - 1]


class Mixture:
    """Draws batches from the registers by weight; the draw depends on seed and step alone."""

    def __init__(self, text: Path, tokenizer: Tokenizer, length: int, seed: int) -> None:
        self.seed, self.length = seed, length
        self.registers = [r for r in REGISTERS if (text / f"{r.name}.txt").exists()]
        self.packers = [
            Packer(encode_versions(text, r, tokenizer), tokenizer, length, seed) for r in self.registers
        ]
        weights = np.array([r.weight for r in self.registers])
        self.weights = weights / weights.sum()

    @property
    def state(self) -> dict[str, tuple[int, int]]:
        return {r.name: p.state for r, p in zip(self.registers, self.packers, strict=True)}

    def restore(self, state: dict[str, tuple[int, int]]) -> None:
        for register, packer in zip(self.registers, self.packers, strict=True):
            packer.restore(state[register.name])

    def batch(self, step: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets, `rows` × `length`; targets are `IGNORED` after a block's content."""
        rng = np.random.default_rng([self.seed, step, self.length])
        chosen = rng.choice(len(self.packers), rows, p=self.weights)
        blocks = np.stack([self.packers[i].take() for i in chosen]).astype(np.int64)
        inputs, targets = blocks[:, :-1].copy(), blocks[:, 1:]
        inputs[inputs == IGNORED] = 0
        return inputs, targets
