"""Folders as stories: files that are chapters, Obsidian vaults and Scrivener projects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from srbwriter import formats
from srbwriter.formats import FormatError
from srbwriter.formats import folder as folders
from srbwriter.formats.folder import title_of
from srbwriter.formats.transfer import Import
from srbwriter.story import Story
from srbwriter.story.draft import StoryDraft
from tests.formats.documents import odt
from tests.formats.files import path_text


def laid_out(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def read(folder: Path, *, as_one: bool = False, format_name: str = "") -> StoryDraft:
    return formats.read_folder(folders.open_files([folder]), as_one=as_one, format_name=format_name)


def chapters(draft: StoryDraft) -> list[str]:
    return re.findall(r"^# (.+)", draft.text, re.MULTILINE)


def notice_text(draft: StoryDraft) -> str:
    return "\n".join(draft.notices)


# -- files that are chapters ---------------------------------------------------------------------------


def test_files_are_chapters_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = laid_out(
        tmp_path / "Orchard",
        {
            "10 - The end.txt": "Nobody came.",
            "2.md": "---\ntitle: Snow\nauthor: Ada\n---\nIt *snowed*.\n",
            "01_The_storm.txt": "It rained.\n",
            "part 3/b.odt": odt("<text:p>Second.</text:p>"),
            "part 3/a.md": "# Own heading\n\nFirst.",
            ".hidden/x.md": "no",
            ".DS_Store": b"\0\0",
        },
    )
    draft = read(folder, as_one=True)
    assert path_text(draft) == (
        "# The storm\n\nIt rained.\n\n# Snow\n\nIt *snowed*.\n\n# The end\n\nNobody came.\n\n"
        "# Own heading\n\nFirst.\n\n# b\n\nSecond."
    )
    assert chapters(draft) == ["The storm", "Snow", "The end", "Own heading", "b"]
    assert (draft.title, draft.byline) == ("Orchard", "Ada")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("01 The Storm.md", "The Storm"), ("2 - Rain.txt", "Rain"), ("3. Snow.txt", "Snow"),
        ("2 Brothers.md", "2 Brothers"), ("1984.md", "1984"), ("007.md", "007"), ("1-2.md", "2"),
        ("a/04_late_frost.md", "late frost"),
    ],
)  # fmt: skip
def test_a_chapter_is_called_as_its_file_without_its_number(name: str, title: str) -> None:
    assert title_of(name) == title


def test_what_cannot_be_read_is_left_out_and_told(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "1.txt": "One.", "2.txt": " \n", "3.docx": b"PK\x03\x04broken", "4.txt": "Four.",
        "map.jpg": b"\xff\xd8\xff",
    }  # fmt: skip
    folder = laid_out(tmp_path / "f", files)
    (folder / "5.txt").symlink_to("gone")
    landed = Import(folder, tmp_path / "library", as_one=True).run()
    with Story.open(landed.path, readonly=True) as story:
        assert story.text(story.current) == "# 1\n\nOne.\n\n# 4\n\nFour."
    said = "\n".join(landed.notices)
    assert "2.txt is empty" in said and "3.docx is a broken archive" in said
    assert "5.txt" in said and "map.jpg" in said and len(landed.notices) == 4


def test_a_folder_is_one_story_only_if_the_writer_says_so(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "f", {"1.txt": "One."})
    with pytest.raises(FormatError, match="is a folder — name a file in it; `srbwriter import --as-one`"):
        read(folder)
    assert path_text(read(folder, format_name="folder")) == "# 1\n\nOne."
    with pytest.raises(FormatError, match="holds nothing that can be read"):
        read(laid_out(tmp_path / "g", {"map.jpg": b"\xff\xd8\xff\xe0"}), as_one=True)


# -- Obsidian ------------------------------------------------------------------------------------------

VAULT = {
    ".obsidian/app.json": "{}",
    ".obsidian/plugins/x/README.md": "no chapter",
    ".trash/old.md": "gone",
    "Novel/1. Rain.md": (
        "---\ntags: [draft]\ndate: 2024-05-06\n---\nShe met [[Ada Lovell]] and [[Ben Pohl|Ben]] at "
        "[[Places/The Orchard#At night]].\n\n![[Letter]]\n\n![[map.png|300]] `[[code]]`\n"
    ),
    "Novel/2. Snow.md": "![[Notes on snow#Facts]]",
    "Novel/Letter.md": "Dear [[Ben Pohl]],\n\nCome.",
    "map.png": b"\x89PNG",
}


def test_an_obsidian_vault_is_a_story_of_its_notes(tmp_path: Path) -> None:
    draft = read(laid_out(tmp_path / "Vault", VAULT))
    assert path_text(draft) == (
        "# Rain\n\nShe met Ada Lovell and Ben at The Orchard > At night.\n\n[Letter]\n\n"
        "[map.png] `[[code]]`\n\n# Snow\n\n[Notes on snow > Facts]\n\n# Letter\n\nDear Ben Pohl,\n\nCome."
    )
    assert draft.title == "Vault"


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"format_name": "obsidian"}, "# a\n\nSee b.\n\n# b\n\nB."),
        ({"as_one": True}, "# a\n\nSee [[b]].\n\n# b\n\nB."),
    ],
)
def test_links_are_words_where_the_folder_is_a_vault(tmp_path: Path, how: dict[str, Any], text: str) -> None:
    assert path_text(read(laid_out(tmp_path / "v", {"a.md": "See [[b]].", "b.md": "B."}), **how)) == text


# -- Scrivener -----------------------------------------------------------------------------------------


def item(uuid: str, kind: str, title: str, *children: str, compiled: bool = True) -> str:
    meta = "<IncludeInCompile>Yes</IncludeInCompile>" if compiled else ""
    below = f"<Children>{''.join(children)}</Children>" if children else ""
    return (
        f'<BinderItem UUID="{uuid}" Type="{kind}" Created="2024-01-01 10:00:00 +0100"><Title>{title}</Title>'
        f"<MetaData>{meta}</MetaData>{below}</BinderItem>"
    )


def rtf(words: str) -> str:
    return f"{{\\rtf1\\ansi\\ansicpg1252{{\\fonttbl\\f0 Palatino;}}\\pard\\fi360 {words}\\par}}"


BINDER = item(
    "D", "DraftFolder", "Manuscript",
    item("F1", "Folder", "Part one", item("S1", "Text", "Gate"), item("S2", "Text", "Cut", compiled=False),
         item("S3", "Text", "Lane", item("S4", "Text", "Deeper"))),
    item("T1", "Text", "Coda"),
    item("P1", "Image", "Map"),
) + item("R", "ResearchFolder", "Research", item("X", "Text", "Notes"))  # fmt: skip

PROJECT = {
    "Orchard.scrivx": (
        '<?xml version="1.0" encoding="UTF-8"?><ScrivenerProject Version="2.0"><ProjectProperties>'
        "<ProjectTitle>The Orchard</ProjectTitle><FullName>Ada Lovell</FullName></ProjectProperties>"
        f"<Binder>{BINDER}</Binder></ScrivenerProject>"
    ),
    "Files/Data/S1/content.rtf": rtf(
        "<$Scr_Ps::0>It was {\\i late\\i0}.<!$Scr_Ps::0>\\par \\'93Go\\'94, she said."
    ),
    "Files/Data/S1/synopsis.txt": "She arrives.",
    "Files/Data/S1/notes.rtf": rtf("Check the date."),
    "Files/Data/S2/content.rtf": rtf("An old scene."),
    "Files/Data/S3/content.rtf": rtf("The lane."),
    "Files/Data/S4/content.rtf": rtf("Deeper in."),
    "Files/Data/T1/content.rtf": rtf("The end."),
    "Files/Data/X/content.rtf": rtf("Research."),
    "Settings/ui.plist": "<plist/>",
}


def test_a_scrivener_project_is_its_draft_in_the_order_of_the_binder(tmp_path: Path) -> None:
    draft = read(laid_out(tmp_path / "Orchard.scriv", PROJECT))
    assert path_text(draft) == (
        "# Part one\n\nIt was *late*.\n\n“Go”, she said.\n\nThe lane.\n\nDeeper in.\n\n# Coda\n\nThe end."
    )
    assert (draft.title, draft.byline, chapters(draft)) == ("The Orchard", "Ada Lovell", ["Part one", "Coda"])
    gate = next(node for node in draft.nodes.values() if node.title == "Gate")
    assert gate.note == "She arrives.\n\nCheck the date."
    assert "Research" not in "".join(node.text for node in draft.nodes.values())
    assert "Map was left out" in notice_text(draft) and "Cut was left out" in notice_text(draft)


@pytest.mark.parametrize(
    ("binder", "words"),
    [
        ("<ScrivenerProject>", "Old.scriv/p.scrivx is not sound (no element found"),
        ("<ScrivenerProject/>", "p.scrivx has no Draft folder — open it in Scrivener"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities, which are not expanded here"),
        ('<a><BinderItem Type="DraftFolder"/></a>', "holds nothing that can be read"),
    ],
)
def test_a_broken_project_says_what_is_wrong_and_what_to_do(tmp_path: Path, binder: str, words: str) -> None:
    with pytest.raises(FormatError) as raised:
        read(laid_out(tmp_path / "Old.scriv", {"p.scrivx": binder}))
    assert words in str(raised.value)
