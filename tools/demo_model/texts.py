"""Read a corpus: plain or xz-compressed UTF-8 files whose documents a line `<|endoftext|>` parts."""

from __future__ import annotations

import lzma
from pathlib import Path

SEPARATOR = "<|endoftext|>"
#: How often training draws from each part of the corpus (`NAME.txt` or `NAME.txt.xz`).
SHARES = {"tinystories": 0.12, "tales": 0.36, "modern": 0.52}


def find_part(corpus: Path, name: str) -> Path:
    """Return the file of a part; raises FileNotFoundError where there is none."""
    for path in (corpus / f"{name}.txt", corpus / f"{name}.txt.xz"):
        if path.exists():
            return path
    raise FileNotFoundError(f"no {name}.txt or {name}.txt.xz in {corpus}")


def read_documents(path: Path) -> list[str]:
    """Return the documents of a file that are not empty, without the blank lines around them."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            text = stream.read()
    else:
        text = path.read_text(encoding="utf-8")
    return [part.strip("\n") for part in text.split(SEPARATOR) if part.strip()]
