"""Commands on stories, as they are typed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from srbwriter import paths
from srbwriter.cli.exits import Exit
from srbwriter.cli.stories import find_story
from srbwriter.story import Story

from .stories import damaged, library_files, make

# ---- new, list, info


def test_a_new_story_is_in_the_library(run: Any) -> None:
    code, out, _ = run("new", "The Orchard")
    path = Path(out.strip())
    assert code == Exit.OK and path == paths.library_dir() / "The-Orchard.srbw"
    with Story.open(path, readonly=True) as story:
        assert story.title == "The Orchard"
    assert run("new", "The Orchard")[1].strip().endswith("The-Orchard-2.srbw")


def test_the_list_has_the_library_and_what_was_opened_elsewhere(run: Any, tmp_path: Path) -> None:
    code, out, err = run("list")
    assert (code, out) == (Exit.OK, "") and "srbwriter new" in err, "an empty library says how to begin"
    make(text="One two three.")
    run("new", "Elsewhere", "-o", str(tmp_path / "e.srbw"))
    _, out, _ = run("list")
    head, *rows = out.splitlines()
    assert head.split() == ["title", "words", "changed", "file"]
    assert {row.split("  ")[0] for row in rows} == {"The Orchard", "Elsewhere"}
    assert out.count("  ~/.local/") == 1
    listed = {story["title"]: story for story in json.loads(run("list", "--json")[1])}
    assert listed["Elsewhere"]["path"] == str(tmp_path / "e.srbw")
    assert listed["The Orchard"]["words"] == 3
    make("red\x1b[31m" + "d" * 60)  # a title cannot talk to the terminal, nor fill its lines
    assert "\x1b" not in run("list")[1] + run("info", "red")[1] and "ddd…  " in run("list")[1]


def test_info_counts_what_is_there(run: Any) -> None:
    path = make(text="One two three.")
    facts = json.loads(run("info", "orchard", "--json")[1])
    assert facts["title"] == "The Orchard" and facts["file"] == str(path)
    assert (facts["nodes"], facts["ends"], facts["words"]) == (4, 2, 3)
    assert facts["words_of_all_branches"] == {"writer": 3, "model": 2}
    assert run("info", "orchard")[1].startswith("The Orchard\n")


# ---- names


def test_a_story_goes_by_path_file_title_and_word(tmp_path: Path) -> None:
    path = make()
    outside = make("Outside", path=tmp_path / "outside.srbw")
    for name in ("The-Orchard", "The Orchard", "the orchard", "orchard", "Orch", str(path)):
        assert find_story(name) == path
    assert find_story(str(outside)) == outside


def test_a_name_that_two_stories_have_is_asked_for(run: Any) -> None:
    first, second = make("Same"), make("Same")
    code, _, err = run("delete", "same")
    assert code == Exit.USAGE and str(first) in err and str(second) in err and "give the path" in err
    assert library_files() == {first.name, second.name}


ON_STORIES = ("info", "check", "export", "open", "backup make")


def test_a_name_that_is_none_is_said(run: Any, tmp_path: Path) -> None:
    """No name is not that of the only story either, and a folder is none."""
    path = make()
    for command in ON_STORIES:
        code, out, err = run(*command.split(), "The Orchart")
        assert (code, out) == (Exit.USAGE, "") and "no story is called The Orchart" in err
        for name in ("", " "):
            code, out, err = run(*command.split(), name)
            assert (code, out) == (Exit.USAGE, "")
            assert "which story? give its title, its file's name or its path" in err
        if command in ("info", "export", "check"):
            code, _, err = run(command, str(tmp_path))
            assert code == Exit.USAGE and f"{tmp_path}: is no file" in err
    assert library_files() == {path.name}
    code, _, err = run("info", str(tmp_path / "none.srbw"))
    assert code == Exit.USAGE and "none.srbw: there is no such file — `srbwriter list` shows" in err


# ---- another title


def test_another_title_moves_a_story_of_the_library(run: Any) -> None:
    make()
    code, out, _ = run("info", "orchard", "--title", "The Mill")
    assert code == Exit.OK and out.startswith("The Mill\n")
    assert library_files() == {"The-Mill.srbw"} and find_story("the mill").name == "The-Mill.srbw"
    run("info", "mill", "--title", "The Mill")
    assert library_files() == {"The-Mill.srbw"}, "a story keeps the name it has"
    make("Other")
    run("info", "other", "--title", "The Mill")
    assert library_files() == {"The-Mill.srbw", "The-Mill-2.srbw"}


# ---- check


def test_sound_stories_are_sound(run: Any, tmp_path: Path) -> None:
    code, out, err = run("check")
    assert (code, out) == (Exit.OK, "") and "holds no story" in err
    path = make()
    assert run("check") == (Exit.OK, f"{path}: sound, 4 nodes\n", "")
    with Story.create(tmp_path / "a.srbw"):
        pass
    code, out, _ = run("check", str(tmp_path / "a.srbw"), "orchard")
    assert code == Exit.OK and "sound, 1 node\n" in out


def test_damage_is_reported_exactly_and_changes_nothing(run: Any, tmp_path: Path) -> None:
    path, good = damaged(), make(path=tmp_path / "good.srbw")
    before = path.read_bytes()
    code, out, _ = run("check", str(path), str(good))
    assert code == Exit.DAMAGED == 4
    assert f"{path}: damaged" in out and "cannot be read" in out and "backup list" in out
    assert f"{good}: sound" in out, "what stands behind it is checked too"
    code, out, err = run("export", str(path), "-o", str(tmp_path / "o.txt"))  # not as if it were whole
    assert (code, out) == (Exit.DAMAGED, "") and "is damaged" in err
    assert not (tmp_path / "o.txt").exists()
    code, _, err = run("delete", str(path))
    assert code == Exit.DAMAGED and "is damaged, and was not deleted" in err
    assert path.read_bytes() == before


# ---- backup


def test_a_copy_is_made_listed_and_restored_as_another_story(run: Any) -> None:
    path = make()
    copy = Path(run("backup", "make", "orchard", "before the storm")[1].strip())
    assert copy.is_relative_to(paths.backup_dir())
    with Story.open(path) as story:
        story.append(" Then came the storm.")
    listed = json.loads(run("backup", "list", "orchard", "--json")[1])
    assert [(row["path"], row["name"]) for row in listed] == [(str(copy), "before the storm")]
    row = run("backup", "list", "orchard")[1].splitlines()[1]
    assert "The Orchard  before the storm" in row and row.endswith(f"'{copy}'")
    restored = Path(run("backup", "restore", str(copy))[1].strip())
    assert restored.parent == paths.library_dir() and restored != path
    with Story.open(restored, readonly=True) as old, Story.open(path, readonly=True) as new:
        assert "storm" not in old.text(old.current) and "storm" in new.text(new.current)
        assert old.title.startswith("The Orchard 2"), "two stories of one title could not be told apart"


# ---- names


def test_a_story_needs_a_title(run: Any) -> None:
    make()
    for title in ("", " \t "):
        for command in (("new", title), ("info", "orchard", "--title", title)):
            code, out, err = run(*command)
            assert (code, out) == (Exit.USAGE, "") and "a story needs a title" in err
    assert library_files() == {"The-Orchard.srbw"}


def test_author_and_language_are_shown_and_set(run: Any) -> None:
    path = make()
    code, out, _ = run("info", "orchard", "--author", "Ada", "--language", "pt_BR")
    assert code == Exit.OK and re.search(r"author\s+Ada\n\s+language\s+pt-BR\n", out)
    code, _, err = run("info", str(path), "--language", "Portuguese of Brazil")
    assert code == Exit.USAGE and "is no language tag; one is written en, de or pt-BR" in err
    assert run("info", str(path), "--author", "")[0] == Exit.OK
    facts = json.loads(run("info", str(path), "--json")[1])
    assert (facts["title"], facts["author"], facts["language"]) == ("The Orchard", "", "pt-BR")


# ---- names that are not as they should be


def test_a_deleted_story_is_a_copy_that_comes_back(run: Any) -> None:
    path = make(text="It was autumn.")
    with Story.open(path) as story:
        identity, text = story.properties["id"], story.text(story.current)
    other = make("The Mill")
    code, out, err = run("delete", "orchard")
    assert code == Exit.OK and f"srbwriter backup restore '{out.strip()}' brings it back" in err
    kept = Path(out.strip())
    assert kept.is_file() and os.listdir(other.parent) == [other.name]
    assert run("info", "orchard")[0] == Exit.USAGE
    assert str(kept) in run("backup", "list")[1]
    assert str(kept) in run("backup", "list", "the orchard")[1]
    code, _, err = run("backup", "restore", "the orchard")
    assert code == Exit.USAGE and "the orchard: there is no such copy — `srbwriter backup list`" in err
    code, out, _ = run("backup", "restore", str(kept))
    assert code == Exit.OK and Path(out.strip()) == path and not kept.exists()
    with Story.open(path) as story:
        assert (story.title, story.properties["id"]) == ("The Orchard", identity)
        assert story.text(story.current) == text


def test_a_story_that_is_open_is_neither_deleted_nor_renamed(run: Any) -> None:
    path = make()
    with Story.open(path) as story:
        code, _, err = run("delete", "orchard")
        assert code == Exit.ERROR and "close it there, and try again" in err and path.exists()
        code, _, err = run("info", "orchard", "--title", "The Mill")
        assert code == Exit.ERROR and "is open in another window" in err
        assert story.title == "The Orchard"
        assert run("backup", "make", "orchard")[0] == Exit.OK, "a copy can be made of it"
    assert library_files() == {"The-Orchard.srbw"}


# ---- what is no story


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the command is run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_is_no_story_and_no_folder_is_made(run: Any, here: Path) -> None:
    model = here / "typo" / "novelist.gguf"
    for command in ((), ("open",), ("info",), ("new", "Orchard", "-o")):
        code, _, err = run(*command, str(model))
        assert code == Exit.USAGE and f"srbwriter -m {model}" in err
    assert not list(here.iterdir()) and not library_files()


def test_only_a_free_path_of_a_story_is_a_new_story(run: Any, here: Path) -> None:
    for name, wanted, words in (
        ("drafst/novel.srbw", Exit.USAGE, "there is no folder drafst"),
        ("./novel.docx", Exit.USAGE, "a story ends in .srbw"),
        ("./novel.srbw", Exit.ERROR, "needs a terminal"),  # so far it gets
    ):
        code, _, err = run(name)
        assert code == wanted and words in err
    assert not list(here.iterdir())
