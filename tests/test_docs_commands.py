"""Commands in the pages are run as they stand there, and what the pages print is what the program prints."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from glob import glob
from itertools import chain
from pathlib import Path

import pytest

from srbwriter import cli
from srbwriter.cli import commands, doctor, flags
from srbwriter.cli.table import every_key
from srbwriter.demo import bundled_model
from srbwriter.engine.types import FinishReason
from tests.formats.files import FIXTURES

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md", "docs/better-model.md", "docs/cli.md", "docs/configuration.md", "docs/files.md",
    "docs/first-story.md", "docs/formats.md", "docs/models.md", "docs/remote.md",
    "docs/sillytavern.md",
)  # fmt: skip
ELSEWHERE = ("pull", "COPY", "--model-url", "--connect", "ssh", "MODEL=", "pip install", "curl")
"""What needs the network, another machine, or minutes."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_REMARK = re.compile(r"\s{3,}.*|\s+#.*")


def blocks(page: str, *languages: str) -> list[str]:
    """The blocks of a page in these languages."""
    text = (ROOT / page).read_text("utf-8")
    return [block for language, block in _BLOCK.findall(text) if language in languages]


def lines(text: str) -> list[str]:
    """The lines that call the program in the text of a page, without the remarks beside them."""
    found = [
        line for name, block in _BLOCK.findall(text) if name in ("", "sh") for line in block.splitlines()
    ]
    called = re.compile(r"^srbwriter( |$)|[|&] srbwriter ")
    return [_REMARK.sub("", line) for line in found if called.search(line) and "[options]" not in line]


def words(line: str) -> list[str]:
    """What the last call of the program in a line is given."""
    return shlex.split(line.split("srbwriter", 1)[1].split("|")[0])


def is_run(line: str) -> bool:
    """Whether a line can be run here: it opens no app and no port, and needs no network."""
    given = words(line)
    named = given[0] if given else ""
    return named in commands.COMMANDS and named != "open" and not any(word in line for word in ELSEWHERE)


@pytest.mark.parametrize("page", PAGES)
def test_flags_in_the_pages_are_taken(page: str) -> None:
    called = lines((ROOT / page).read_text("utf-8"))
    assert called or page == "docs/configuration.md"
    for line in called:
        given = words(line)
        command = commands.COMMANDS.get(given[0] if given else "", commands.DEFAULT)
        parser = flags.Parser(f"srbwriter {command.name}".rstrip())
        command.configure(parser, every_key())
        parser.parse_args(given[bool(command.name) :])


# ---- they are run


BINDER = """<ScrivenerProject Version="2.0"><Binder><BinderItem UUID="D" Type="DraftFolder"><Children>
<BinderItem UUID="A" Type="Text"><Title>One</Title></BinderItem></Children></BinderItem></Binder>
</ScrivenerProject>
"""


asked_once = cache(doctor.ask_llama)  # pyright: ignore[reportPrivateUsage]
"""What doctor asks llama.cpp in a process of its own, for all lines with doctor."""


class Desk:
    """A home and a folder with every file that the pages name, for one section of a page."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.home, self.patch = folder / "desk", folder / "home", monkeypatch
        self.models = self.home / ".local/share/srbwriter/models"
        for name, source in {
            "chapter.txt": "story.txt", "chapters/one.md": "story.md", "novel.docx": "manuscript.docx",
            "tree.json": "loom.json", "chat.jsonl": "sillytavern.jsonl",
            "one.md": "story.md", "Novel.scriv/Files/Data/A/content.rtf": "manuscript.rtf",
            "conversations.json": "conversations.json",
            "Vault/One.md": "story.md", "Vault/Novel/Two.md": "story.md",
            "notes.org": "story.txt", "persona.txt": "story.txt",
        }.items():  # fmt: skip
            (self.folder / name).parent.mkdir(exist_ok=True, parents=True)
            shutil.copy(FIXTURES / source, self.folder / name)
        (self.folder / "Novel.scriv/Novel.scrivx").write_text(BINDER)
        (self.folder / "Vault/.obsidian").mkdir()
        (self.folder / "old.txt").write_bytes("Die Mühle stand still. Es war „früh“.\n".encode("cp1252"))
        for place in (self.home / "Downloads/novelist.gguf", self.models / "novelist-Q4_K_M.gguf"):
            place.parent.mkdir(parents=True)
            place.symlink_to(bundled_model())
        monkeypatch.setattr(doctor, "ask_llama", asked_once)
        monkeypatch.chdir(self.folder)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("SRBWRITER_GENERATION_MAX_TOKENS", "6")
        monkeypatch.setenv("SRBWRITER_MODEL_THREADS", "1")
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    def run(self, line: str) -> int:
        """Run a line and return its exit code: in a shell if it needs one, and in this process if not."""
        if piped := re.fullmatch(r"cat (\S+) \| srbwriter (write .*)", line):
            with Path(piped[1]).open("r", encoding="utf-8") as file, self.patch.context() as patch:
                patch.setattr(sys, "stdin", file)
                return cli.main(shlex.split(piped[2]))
        if re.search(r"[|$]", line):
            return subprocess.run(["bash", "-o", "pipefail", "-c", line], timeout=60).returncode
        named = (glob(word) if "*" in word else [os.path.expanduser(word)] for word in words(line))
        return cli.main([*chain.from_iterable(named)])


BEFORE = {
    "`srbwriter backup`": ["srbwriter backup make orchard"],
    "`srbwriter check`": ["srbwriter new Draft -o drafts/draft.srbw"],
    "Backups": ["srbwriter backup make orchard"],
    "The four faces": ["srbwriter backup make orchard"] * 2,
}
"""What has happened before the lines of a section, beside that there are two stories and a model."""


def sections(page: str) -> list[tuple[str, list[str]]]:
    """The headings of a page with the lines below them that can be run here."""
    parts = re.split(r"^## (.*)\n", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE)
    found = [
        (heading, [line for line in lines(text) if is_run(line)]) for heading, text in batched(["", *parts])
    ]
    return [(heading, called) for heading, called in found if called]


def batched(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("README.md", 8),
        ("docs/better-model.md", 3),
        ("docs/cli.md", 18),
        ("docs/files.md", 3),
        ("docs/first-story.md", 2),
        ("docs/formats.md", 8),
        ("docs/models.md", 3),
        ("docs/sillytavern.md", 2),
    ],
)
def test_commands_in_the_pages_do_what_they_say(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    done = 0
    for number, (heading, called) in enumerate(sections(page)):
        desk = Desk(tmp_path / str(number), monkeypatch)
        for line in ['srbwriter new "The Orchard"', 'srbwriter new "First story"', *BEFORE.get(heading, [])]:
            assert desk.run(line) == 0, line
        for line in called:
            done_right = (0, 1) if "doctor" in line else (0,)  # 1: something here needs care
            assert desk.run(line) in done_right, f"{heading}: {line}: {capfd.readouterr().err}"
            done += 1
    assert done >= least


# ---- what they print


def test_the_document_of_write_has_the_fields_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(json.loads(block) for block in blocks("docs/cli.md", "json"))
    line = ["write", shown["prompt"], "-n", "1", "--json", "--max-tokens", "4", "--threads", "1"]
    assert cli.main(line) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.keys() == shown.keys() and printed["model"] == shown["model"]
    assert printed["branches"][0].keys() == shown["branches"][0].keys()


def test_reasons_for_an_end_are_those_of_the_page() -> None:
    text = (ROOT / "docs/cli.md").read_text("utf-8")
    [sentence] = re.findall(r"`finish_reason` is (.*?\.) The", text, re.DOTALL)
    others = {FinishReason.STOPPED, FinishReason.KILLED, FinishReason.ERROR}  # which end a run in another way
    assert set(re.findall(r"`(\w+)`", sentence)) == {reason.value for reason in set(FinishReason) - others}
