"""Reading a corpus and sorting it into registers."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tools.demo_model.prepare import REGISTERS, SEPARATOR, documents, prepare


def write_corpus(folder: Path, simple: list[str], tales: list[str]) -> Path:
    """A corpus folder with one plain file, one compressed file and one held-out file."""
    folder.mkdir()
    join = f"\n{SEPARATOR}\n".join
    (folder / "tinystories.txt").write_text(join(simple), encoding="utf-8")
    with lzma.open(folder / "tales.txt.xz", "wt", encoding="utf-8") as stream:
        stream.write(join(tales))
    (folder / "heldout_tales.txt").write_text("kept apart", encoding="utf-8")
    return folder


def test_every_document_lands_in_one_set_and_held_out_text_in_none(tmp_path: Path) -> None:
    simple = [f"Story {i}.\n\nThe end of Zoë's day." for i in range(900)]
    book, tale = "long " * 9000, "A Tale\n\nOnce."
    corpus = write_corpus(tmp_path / "corpus", simple, [tale, book])
    counts = prepare(corpus, tmp_path / "work")
    texts = {p.stem: documents(p) for p in (tmp_path / "work" / "text").glob("*.txt")}
    assert counts == {name: len(found) for name, found in texts.items()}
    assert sorted(texts["simple"] + texts["simple-dev"]) == sorted(simple)
    assert 0 < len(texts["simple-dev"]) < 30
    assert texts["tales"] == [tale]
    assert texts["books"] == [book]


def test_the_development_set_is_the_same_every_time(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", [f"Story {i}." for i in range(900)], ["A tale."])
    prepare(corpus, tmp_path / "one")
    prepare(corpus, tmp_path / "two")
    first, second = ((tmp_path / run / "text" / "simple-dev.txt").read_text() for run in ("one", "two"))
    assert first == second


def test_empty_documents_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(f"\nOne.\n{SEPARATOR}\n \n{SEPARATOR}\n\nTwo.\n\n", encoding="utf-8")
    assert documents(file) == ["One.", "Two."]


def test_a_folder_without_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        prepare(tmp_path, tmp_path / "work")


def test_the_weights_of_the_registers_are_shares() -> None:
    assert sum(register.weight for register in REGISTERS) == pytest.approx(1.0)
