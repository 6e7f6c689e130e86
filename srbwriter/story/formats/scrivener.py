"""A Scrivener project: the Draft folder of its binder, in the binder's order.

Facts: projects of Scrivener 3 (``Files/Data/UUID/content.rtf``), and older ones (``Files/Docs/ID.rtf``). The
binder is the one ``.scrivx`` file. Folders and texts directly in the Draft are chapters; texts in folders
are scenes. A text that is not compiled becomes a branch beside the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from srbwriter.story.formats.archive import NotXml, local_name, parse_xml, text_in
from srbwriter.story.formats.base import Folder, FolderFormat, NotForUs, ReadFile
from srbwriter.story.formats.binding import Binder
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.prose import path_text
from srbwriter.story.model import Marks, StoryDraft

NAME = "scrivener"
NOT_COMPILED = "not compiled"
"""The tag of what the project leaves out when it is compiled."""

_BINDER = ".scrivx"
_TEXTS = ("rtf", "txt", "md", "fountain", "html")
_STYLE_MARKS = re.compile(r"<!?\$Scr_[A-Za-z]+::\d+>")
_CURE = "open it in Scrivener, let it mend the project, and close it; or compile it as .docx, and import that"


class _Item(NamedTuple):
    """An entry of the binder, and its depth below the Draft."""

    element: Element
    depth: int
    compiled: bool


def matches(folder: Folder) -> bool:
    return _binder_of(folder) is not None


def _binder_of(folder: Folder) -> str | None:
    return next((path for path in folder.files if path.endswith(_BINDER) and "/" not in path), None)


def read(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The story in a project. Raises :class:`NotForUs` for one whose binder cannot be read."""
    path = _binder_of(folder)
    if path is None:
        cure = "name the folder NAME.scriv of a Scrivener project"
        raise NotForUs(folder.name, "has no .scrivx file", cure)
    try:
        root = parse_xml(folder.read_bytes(path))
    except NotXml as error:
        problem = f"is no sound binder of Scrivener ({error})"
        raise NotForUs(f"{folder.name}/{path}", problem, _CURE) from error
    draft_folder = next((item for item in root.iter() if item.get("Type") == "DraftFolder"), None)
    if draft_folder is None:
        raise NotForUs(f"{folder.name}/{path}", "has no Draft folder", _CURE)
    project = _Project(folder, read_file)
    for item in _below(draft_folder):
        project.add(item)
    if project.binder.empty:
        cure = "move the texts there in Scrivener; research and notes are not imported"
        raise NotForUs(folder.name, "has nothing in its Draft folder", cure)
    about = _child(root, "ProjectProperties")
    draft = project.binder.draft(text_in(_child(about, "ProjectTitle")) or folder.title)
    draft.byline = text_in(_child(about, "FullName"))
    return draft


def _child(element: Element | None, name: str) -> Element | None:
    return None if element is None else next((each for each in element if local_name(each) == name), None)


def _compiled(item: Element) -> bool:
    return text_in(_child(_child(item, "MetaData"), "IncludeInCompile")) == "Yes"


def _below(folder: Element) -> Iterator[_Item]:
    """All entries below the Draft in the binder's order."""
    says = any(map(_compiled, folder.iter()))  # some versions have no field for texts that are not compiled
    stack = [_Item(folder, 0, True)]
    while stack:
        item = stack.pop()
        if item.depth:
            yield item
        children = _child(item.element, "Children")
        for child in reversed(children if children is not None else []):
            if local_name(child) == "BinderItem":
                stack.append(_Item(child, item.depth + 1, _compiled(child) or not says))


class _Project:
    """Binds the entries of a project."""

    def __init__(self, folder: Folder, read_file: ReadFile) -> None:
        self.binder = Binder()
        self._folder, self._read_file = folder, read_file
        self._paths = {path.casefold(): path for path in folder.files}

    def add(self, item: _Item) -> None:
        """Bind an entry: its text, its title, and its synopsis and notes as the note."""
        title = text_in(_child(item.element, "Title"))
        kind = item.element.get("Type", "")
        chapter = kind == "Folder" or item.depth == 1
        if kind not in ("Folder", "Text"):
            self.binder.add_notice(f"{title or kind} was left out; it is no text")
            return
        path = self._path(item.element, "content", "")
        part = self._text(path)
        note = "\n\n".join(filter(None, map(self._words, self._note_paths(item.element))))
        if not path_text(part) and not chapter and not note:
            return
        marks = Marks(note=note, tags=() if item.compiled else (NOT_COMPILED,))
        level = item.depth if chapter and title else 0
        name = path or f"{self._folder.name}: {title}"
        self.binder.add(part, name, title, level=level, marks=marks, beside=not item.compiled)

    def _text(self, path: str | None) -> StoryDraft:
        """The story in a file, without Scrivener's own marks; empty for none."""
        if path is None or not self._folder.read_bytes(path).strip():
            return Grower().draft()
        part = self._read_file(path)
        for node in part.nodes:
            node.text = _STYLE_MARKS.sub("", node.text)
        return part

    def _words(self, path: str) -> str:
        return path_text(self._text(path)).strip()

    def _note_paths(self, element: Element) -> Iterator[str]:
        for name in ("synopsis", "notes"):
            if (path := self._path(element, name, f"_{name}")) is not None:
                yield path

    def _path(self, element: Element, name: str, suffix: str) -> str | None:
        """The file of an entry: below its UUID, or with its number in older projects."""
        stems = [f"Files/Data/{element.get('UUID')}/{name}", f"Files/Docs/{element.get('ID')}{suffix}"]
        wanted = (f"{stem}.{ending}".casefold() for stem in stems for ending in _TEXTS)
        return next((self._paths[path] for path in wanted if path in self._paths), None)


FORMAT = FolderFormat(NAME, "Scrivener project (its Draft)", ".scriv", matches, read)
