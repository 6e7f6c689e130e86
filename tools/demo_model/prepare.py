"""Step 1: read a folder of stories, sort them into registers, keep a few aside, write one file per register.

Input: every `*.txt` and `*.txt.xz` of the folder that is not called `heldout_*`; UTF-8, documents
separated by a line `<|endoftext|>`. This module knows text, never tokens.

    python -m tools.demo_model.prepare --corpus DIR --out WORK
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.demo_model.names import name_counts, renamed

SEPARATOR = "<|endoftext|>"
#: One document in this many goes to the development set, chosen by its hash, so that runs agree.
DEV_ONE_IN = 300


@dataclass(frozen=True)
class Register:
    """A kind of writing: which documents belong to it and how often training draws from it.

    A document belongs to the first register whose `file` starts its file's name and whose `limit`
    (UTF-8 bytes) it does not exceed.
    """

    name: str
    file: str
    limit: int
    weight: float
    #: So many further versions of every document have other first names; training takes one at random.
    renamed: int = 0


#: Simple stories, short tales (fairy tales, fables, picture books) and long books, in order of matching.
REGISTERS = (
    Register("simple", "tinystories", 1 << 40, 0.68, renamed=5),
    Register("tales", "", 40_000, 0.22),
    Register("books", "", 1 << 40, 0.10),
)


def corpus_files(corpus: Path) -> list[Path]:
    """Training files of a corpus folder, sorted by name; raises FileNotFoundError where there is none."""
    files = sorted(
        path
        for path in corpus.iterdir()
        if path.name.endswith((".txt", ".txt.xz")) and not path.name.startswith("heldout_")
    )
    if not files:
        raise FileNotFoundError(f"no .txt or .txt.xz in {corpus}: give --corpus a folder of stories")
    return files


def read_text(path: Path) -> str:
    """The text of a plain or xz-compressed UTF-8 file."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            return stream.read()
    return path.read_text(encoding="utf-8")


def documents(path: Path) -> list[str]:
    """The non-empty documents of a file, without the blank lines around them."""
    parts = (part.strip("\n") for part in read_text(path).split(SEPARATOR))
    return [part for part in parts if part.strip()]


def register_of(file: str, document: str) -> Register:
    size = len(document.encode())
    return next(r for r in REGISTERS if file.startswith(r.file) and size <= r.limit)


def is_dev(document: str) -> bool:
    digest = hashlib.sha256(document.encode()).digest()
    return int.from_bytes(digest[:8], "big") % DEV_ONE_IN == 0


def sort_documents(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield (set name, document); a set is a register's name, or that and `-dev`."""
    for path in files:
        for document in documents(path):
            register = register_of(path.name, document)
            # Whole books are too few to give one away.
            dev = register.name != "books" and is_dev(document)
            yield register.name + ("-dev" if dev else ""), document


def version_path(folder: Path, name: str, version: int) -> Path:
    """The file of a set's documents as they were found (version 0), or with other names."""
    return folder / (f"{name}~{version}.txt" if version else f"{name}.txt")


def write_documents(path: Path, texts: Iterable[str]) -> None:
    path.write_text(f"\n{SEPARATOR}\n".join(texts) + "\n", encoding="utf-8")


def write_renamed(folder: Path, register: Register, texts: list[str]) -> None:
    """Write the versions of a register's documents with other names."""
    counts, rng = name_counts(texts), random.Random(register.name)
    for version in range(1, register.renamed + 1):
        write_documents(
            version_path(folder, register.name, version), (renamed(t, counts, rng) for t in texts)
        )


def prepare(corpus: Path, out: Path) -> dict[str, int]:
    """Write `out/text/SET.txt` for every set; return the number of documents of each."""
    sets: dict[str, list[str]] = {}
    for name, document in sort_documents(corpus_files(corpus)):
        sets.setdefault(name, []).append(document)
    folder = out / "text"
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in sets.items():
        write_documents(version_path(folder, name, 0), texts)
    for register in REGISTERS:
        write_renamed(folder, register, sets.get(register.name, []))
    return {name: len(texts) for name, texts in sorted(sets.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description="Sort a folder of stories into registers.")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .txt and .txt.xz files")
    parser.add_argument("--out", type=Path, required=True, help="working folder")
    args = parser.parse_args()
    for name, count in prepare(args.corpus, args.out).items():
        print(f"{name:12} {count:6} documents")


if __name__ == "__main__":
    main()
