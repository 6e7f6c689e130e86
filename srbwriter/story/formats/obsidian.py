"""An Obsidian vault as one story: each note is a chapter, and links become their words.

An embedded note is placed where it is embedded, and is no separate chapter if it is embedded as a whole.
Front matter is read like that of Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from srbwriter.story.formats.base import Folder, FolderFormat, NotForUs, ReadFile
from srbwriter.story.formats.binding import Binder, title_of
from srbwriter.story.formats.prose import heading_at, heading_starts, path_text
from srbwriter.story.model import StoryDraft, path_to

NAME = "obsidian"

_SETTINGS = ".obsidian"
_NOTE = (".md", ".markdown")
_LINK = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`"  # code, in which brackets are no links
    r"|(?P<embed>!?)\[\[(?P<target>[^\[\]\n|\\]+)(?:\\?\|(?P<words>[^\[\]\n]*))?\]\]",
    re.DOTALL,
)


def matches(folder: Folder) -> bool:
    return _SETTINGS in folder.hidden


def read(folder: Folder, read_file: ReadFile) -> StoryDraft:
    vault = _Vault(folder, read_file)
    binder = Binder()
    for path in vault.in_order():
        draft = vault.notes[path]
        vault.used.add(path)
        first = next((node for node in path_to(draft, draft.current_id) if node.text), draft.root)
        if first.text and not first.spans and heading_at(first.text.lstrip("\n")) is None:
            # Before embedded notes are laid in, whose headings are not its own.
            first.text = f"# {title_of(path)}\n\n{first.text}"
        for node in draft.nodes:
            if not node.spans:
                node.text = vault.plain(node.text, (path,))
        binder.add(draft, path, title_of(path))
    if binder.empty:
        raise NotForUs(folder.name, "has no notes with words in them", "name a folder with .md files")
    if vault.missing:
        binder.add_notice(f"not embedded, their names stand in the text: {', '.join(vault.missing)}")
    return binder.draft(folder.title)


class _Vault:
    """The notes of a vault by their paths, and what links in them point to."""

    def __init__(self, folder: Folder, read_file: ReadFile) -> None:
        paths = [path for path in folder.files if path.lower().endswith(_NOTE)]
        self.notes = {path: read_file(path) for path in paths if folder.read_bytes(path).strip()}
        self._texts = {path: path_text(draft) for path, draft in self.notes.items()}
        self._by_name: dict[str, str] = {}
        for path in reversed(self.notes):
            pure = PurePosixPath(path)
            for at in range(len(pure.parts)):  # a link gives as much of the path as is needed
                name = "/".join((*pure.parts[at:-1], pure.stem))
                self._by_name[name.casefold()] = path
        self.used = set[str]()
        self.missing: dict[str, None] = {}

    def in_order(self) -> Iterator[str]:
        """The notes that are chapters: those that none embeds, then what embeds itself in a circle."""
        inside = {path for text in self._texts.values() for path in self._embedded(text)}
        yield from (path for path in self.notes if path not in inside)
        for path in self.notes:
            if path not in self.used:
                yield path

    def _embedded(self, text: str) -> Iterator[str]:
        """The notes that a text embeds as a whole."""
        for link in _LINK.finditer(text):
            if link["embed"] and "#" not in link["target"] and (path := self._find(link["target"])):
                yield path

    def _find(self, target: str) -> str | None:
        name = target.partition("#")[0].strip().strip("/").casefold()
        return self._by_name.get(name.removesuffix(".md"))

    def plain(self, text: str, within: tuple[str, ...]) -> str:
        """The text without links; ``within`` are the notes that embed one another down to this one."""

        def shown(link: re.Match[str]) -> str:
            target = link["target"]
            if target is None:
                return link[0]
            if link["embed"]:
                return self._inlined(target.strip(), within)
            return (link["words"] or "").strip() or _words_of(target)

        return _LINK.sub(shown, text)

    def _inlined(self, target: str, within: tuple[str, ...]) -> str:
        path = self._find(target)
        part = target.partition("#")[2]
        text = None
        if path is not None and path not in within:
            text = _section(self._texts[path], part) if part else self._texts[path]
        if path is None or text is None:
            self.missing[target] = None
            return f"[{PurePosixPath(target).name}]"
        if not part:
            self.used.add(path)
        return self.plain(text.strip("\n"), (*within, path))


def _words_of(target: str) -> str:
    """What a link without words of its own shows."""
    name, _, part = target.partition("#")
    shown = [PurePosixPath(name.strip()).name.removesuffix(".md")]
    shown += [heading.strip() for heading in part.split("#") if heading and not heading.startswith("^")]
    return " > ".join(filter(None, shown)) or target


def _section(text: str, part: str) -> str | None:
    """The part of a note below a heading, with it, or the paragraph that is called ``^part``."""
    if part.startswith("^"):
        mark = re.compile(rf"[ \t]*\^{re.escape(part[1:])}[ \t]*$", re.MULTILINE)
        paragraphs = (mark.sub("", each) for each in re.split(r"\n{2,}", text) if mark.search(each))
        return next(paragraphs, None)
    wanted = part.split("#")[-1].strip().casefold()
    starts = heading_starts(text)
    for place, start in enumerate(starts):
        heading = heading_at(text, start)
        if heading is None or heading[0].title.strip().casefold() != wanted:
            continue
        for end in starts[place + 1 :]:
            after = heading_at(text, end)
            if after is not None and after[0].level <= heading[0].level:
                return text[start:end]
        return text[start:]
    return None


FORMAT = FolderFormat(NAME, "Obsidian vault, each note a chapter", "(folder)", matches, read)
