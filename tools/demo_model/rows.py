"""Step 2: turn the corpus into rows of token ids, in the order in which training reads them.

Documents follow one another, each behind an end token; a row is cut wherever it is full. Of the documents
that fit into a row, 6 in a hundred are shown with a hole (prefix, suffix, then the middle; Bavarian et al.
2022, arXiv:2207.14255), and 3 in a hundred follow a plain request for them, which is all that the chat
template is. Pieces of longer documents are shown with a hole as often.

    python -m tools.demo_model.rows --corpus CORPUS --out WORK [--rows 115000] [--length 1024]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tools.demo_model.texts import SHARES, find_part, read_documents
from tools.demo_model.vocabulary import FIM, Vocabulary

Ids = NDArray[np.uint16]
FILE = "rows.npy"
HOLES, REQUESTED = 0.06, 0.03
REQUESTS = (
    "Tell me a story about {}.",
    "Write a story about {}.",
    "Tell me about {}.",
    "Please write a short story with {}.",
)
_END = np.zeros(1, np.uint16)
_SHORT_HOLE = 150  # tokens; half the holes are no longer, as one asks for them


def make_request(document: str, rng: random.Random) -> str:
    """Return a request that the document answers: by its title, or by three of its words."""
    first, _, rest = document.partition("\n\n")
    if rest and len(first) < 80 and first[-1:] not in '.,;:"!?':
        subject = first
    else:
        words = sorted({w for w in document[:1500].split() if w.isalpha() and w.islower() and len(w) > 4})
        subject = ", ".join(rng.sample(words, min(3, len(words)))) or "anything"
    return rng.choice(REQUESTS).format(subject) + "\n\n"


class Reader:
    """Gives the ids of one part of the corpus again and again, each time in another order and other dress."""

    def __init__(self, path: Path, tokenizer: Tokenizer, length: int, seed: int) -> None:
        self.documents = read_documents(path)
        self.tokenizer, self.length = tokenizer, length
        self.rng, self.places = random.Random(seed), np.random.default_rng(seed)
        encoded = tokenizer.encode_batch_fast(self.documents, add_special_tokens=False)
        self.ids = [np.array(one.ids, np.uint16) for one in encoded]
        self.marks = [np.array([tokenizer.token_to_id(mark)], np.uint16) for mark in FIM]
        self.starts = np.array(
            [tokenizer.id_to_token(i)[0] in "ĠĊ" for i in range(tokenizer.get_vocab_size())]
        )  # tokens that begin a word or a line, where a hole may begin or end

    def read_once(self) -> Iterator[Ids]:
        """Yield the ids of all documents in pieces."""
        for index in self.rng.sample(range(len(self.ids)), len(self.ids)):
            ids = self.ids[index]
            yield _END
            if len(ids) <= self.length - 8:
                yield from self.dress(ids, self.documents[index])
            else:
                yield from self.dress_pieces(ids)

    def dress(self, ids: Ids, document: str) -> Iterator[Ids]:
        draw = self.rng.random()
        if draw < HOLES:
            ids = self.make_hole(ids)
        elif draw < HOLES + REQUESTED:
            request = self.tokenizer.encode(make_request(document, self.rng), add_special_tokens=False)
            yield np.array(request.ids, np.uint16)
        yield ids

    def dress_pieces(self, ids: Ids) -> Iterator[Ids]:
        size = max(self.length - 100, self.length // 2)
        for piece in np.split(ids, range(size, len(ids), size)):
            if self.rng.random() < HOLES and len(piece) > 60:
                yield from (_END, self.make_hole(piece), _END)
            else:
                yield piece

    def make_hole(self, ids: Ids) -> Ids:
        """Return prefix, suffix and middle; `ids` unchanged where there are not two places to cut."""
        places = np.flatnonzero(self.starts[ids])
        if len(places) < 2:
            return ids
        low, high = np.sort(self.places.choice(places, 2, replace=False))
        if self.rng.random() < 0.5:
            high = min(high, low + _SHORT_HOLE)
        prefix, suffix, middle = self.marks
        return np.concatenate((prefix, ids[:low], suffix, ids[high:], middle, ids[low:high]))

    def make_rows(self, count: int) -> Ids:
        """Return `count` rows of `length` + 1 ids, so that each id but the first is predicted once."""
        parts, found = list[Ids](), 0
        while found < count:
            ids = np.concatenate(list(self.read_once()))
            ids = ids[self.rng.randrange(self.length) :]  # another pass is cut in other places
            rows = (len(ids) - 1) // self.length
            if rows <= 0:
                raise ValueError("the corpus is shorter than a row")
            cut = np.lib.stride_tricks.sliding_window_view(ids, self.length + 1)[:: self.length]
            parts.append(cut[self.places.permutation(rows)])
            found += rows
        return np.concatenate(parts)[:count]


def mix(readers: dict[str, Reader], count: int, seed: int) -> Ids:
    """Return rows of all parts, drawn by their shares."""
    rng = np.random.default_rng(seed)
    picks = rng.choice(len(readers), count, p=[SHARES[name] for name in readers])
    length = next(iter(readers.values())).length
    rows = np.zeros((count, length + 1), np.uint16)
    for number, reader in enumerate(readers.values()):
        places = np.flatnonzero(picks == number)
        rows[places] = reader.make_rows(len(places))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the rows that training reads.")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of texts")
    parser.add_argument("--out", type=Path, required=True, help="working folder, with a vocabulary")
    parser.add_argument("--rows", type=int, default=115_000)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a row")
    args = parser.parse_args()
    tokenizer = Vocabulary.load(args.out).make_tokenizer()
    readers = {name: Reader(find_part(args.corpus, name), tokenizer, args.length, seed=5) for name in SHARES}
    rows = mix(readers, args.rows, seed=5)
    np.save(args.out / FILE, rows)
    print(f"{args.out / FILE}: {rows.shape[0]} rows of {rows.shape[1]} ids")


if __name__ == "__main__":
    main()
