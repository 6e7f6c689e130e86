"""Reading a corpus and sorting it into registers."""

from __future__ import annotations

import lzma
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from tools.demo_model.names import renamed
from tools.demo_model.prepare import REGISTERS, SEPARATOR, documents, prepare, version_path


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
    paths = (tmp_path / "work" / "text").glob("*.txt")
    texts = {p.stem: documents(p) for p in paths if "~" not in p.stem}
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


def test_renamed_versions_keep_the_documents_and_change_only_names(tmp_path: Path) -> None:
    story = "Lily and Tom saw Sue. Tom's dog liked Lily, and Timothy did not mind."
    corpus = write_corpus(tmp_path / "corpus", [story, "Mia met Ben.", "Amy met Max.", "A cat."], ["A tale."])
    prepare(corpus, tmp_path / "work")
    (simple,) = [r for r in REGISTERS if r.renamed]
    versions = [
        documents(version_path(tmp_path / "work" / "text", simple.name, v)) for v in range(simple.renamed + 1)
    ]
    changed = {version[0] for version in versions}
    assert len(changed) > 2
    for version in versions:
        assert len(version) == 4
        assert version[3] == "A cat."
        found = re.fullmatch(
            r"(\w+) and (\w+) saw (\w+)\. (\w+)'s dog liked (\w+), and Timothy did not mind\.", version[0]
        )
        assert found
        lily, tom, sue = found.group(1, 2, 3)
        assert {lily, sue} <= {"Lily", "Sue", "Mia", "Amy"}
        assert lily != sue
        assert tom in {"Tom", "Ben", "Max"}
        assert found.group(4, 5) == (tom, lily)


def test_names_keep_their_frequencies() -> None:
    counts = Counter({"Lily": 90, "Sue": 10})
    rng = random.Random(1)
    drawn = Counter(renamed("Mary sang.", counts, rng) for _ in range(500))
    assert set(drawn) == {"Lily sang.", "Sue sang."}
    assert 400 < drawn["Lily sang."] < 490
