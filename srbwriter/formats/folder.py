"""Folders and several files as one story: chapters in the order of their project, or of their names.

Read are any files (``--as-one``), vaults of Obsidian with projects of Longform, and projects of Scrivener.
Projects of novelWriter and Manuskript are refused in words: their own export knows what belongs to the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import plain_title
from srbwriter.formats.documents import below, first, name_of, text_in
from srbwriter.formats.draft import Grower
from srbwriter.formats.markdown import NotYaml, split_front_matter
from srbwriter.formats.opening import FormatError, NotForUs, parse_xml, unix_lines
from srbwriter.story.draft import StoryDraft
from srbwriter.story.headings import heading_line
from srbwriter.story.model import JsonObject, StoryError, as_list, as_object

MOST_FILES = 20_000
"""Most files of one story; a folder with more is refused as a mistake."""

_SYSTEM = frozenset(("__macosx", "thumbs.db", "desktop.ini"))
_NUMBERED = re.compile(r"(?:0\d*|\d+(?=\s*[-._)]))[\s\-._)]+(?=\S)")
_BLANK_LINE = "\n\n"
_TEXTS = frozenset(
    ".md .markdown .txt .text .fountain .docx .odt .rtf .html .htm .xhtml .epub .story .jsonl".split()
)
"""Endings of files that are meant to be read: one that cannot be read is an error."""

ReadFile = Callable[[str], StoryDraft]


@dataclass(frozen=True, slots=True)
class Folder:
    """Files that become one story. Each is read on request, which may raise OSError.

    ``name`` is for messages. ``files`` are paths with ``/`` between parts, as people number them; hidden ones
    are not among them. ``hidden`` are the names of hidden folders at the top; ``named`` files that the writer
    named one by one.
    """

    name: str
    title: str
    files: tuple[str, ...]
    read_bytes: Callable[[str], bytes]
    hidden: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()


def open_folder(folder: Path) -> Folder:
    """Return the files in ``folder`` and below it. Raises StoryError for too many, and OSError."""
    files = tuple(_files_in(folder))
    hidden = frozenset(path.name for path in folder.iterdir() if _is_hidden(path.name) and path.is_dir())
    absolute = folder.absolute()
    title = absolute.stem if absolute.suffix.lower() == ".scriv" else absolute.name
    return Folder(str(folder), title, files, lambda path: (folder / path).read_bytes(), hidden)


def open_files(paths: Sequence[Path]) -> Folder:
    """Return files in the order given, and those in folders among them. Raises StoryError for too many."""
    files: list[str] = []
    for path in paths:
        files += (str(path / file) for file in _files_in(path)) if path.is_dir() else [str(path)]
    named = frozenset(map(str, paths))
    return Folder("", "", tuple(files), lambda path: Path(path).read_bytes(), named=named)


def _files_in(top: Path) -> list[str]:
    """Return the paths below ``top`` as people number them: ``2`` before ``10``, without regard to case."""
    found: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        found += [(Path(folder).relative_to(top) / name).as_posix() for name in names if not _is_hidden(name)]
        if len(found) > MOST_FILES:
            raise StoryError(f"{top}: has more than {MOST_FILES} files — name a folder with one story in it")

    def key(path: str) -> list[list[tuple[bool, int, str]]]:
        parts = (re.findall(r"\d+|\D+", part) for part in path.casefold().split("/"))
        return [[(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in part] for part in parts]

    return sorted(found, key=key)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.casefold() in _SYSTEM


def title_of(path: str) -> str:
    """Return a chapter's title from the name of its file, without the number that puts it in its place."""
    stem = PurePosixPath(path).stem.replace("_", " ").strip()
    return _NUMBERED.sub("", stem, count=1).strip() if _NUMBERED.match(stem) else stem


class Binder:
    """Binds the texts of stories into one, in their order: a node for each."""

    def __init__(self) -> None:
        self._grower = Grower()
        self._end = self._grower.root
        self._ending: str = ""  # the last characters of the text so far
        self.notices: list[str] = []
        self.byline = self.language = ""

    def draft(self, title: str) -> StoryDraft:
        draft = self._grower.draft(self._end, title)
        draft.byline, draft.language, draft.notices = self.byline, self.language, self.notices
        return draft

    @property
    def empty(self) -> bool:
        return len(self._grower.nodes) == 1

    def add(
        self, part: StoryDraft, name: str, title: str, *, level: int = 1, note: str = "",
        tags: tuple[str, ...] = (), beside: bool = False,
    ) -> None:  # fmt: skip
        """Add a chapter.

        Args:
            part: the story in a file.
            name: the file's name, for notices.
            title: its title, where it has none of its own.
            level: of the heading that it gets where its text does not begin with one; 0 is a scene without.
            note: a note for it.
            tags: its tags.
            beside: whether what follows leaves it out.
        """
        self.notices += [f"{name}: {words}" for words in part.notices]
        self.byline, self.language = self.byline or part.byline, self.language or part.language
        text = part.text
        own = heading_line(text.lstrip("\n"))
        own_title = plain_title(own[1]) if own else part.title or title
        if level and own is None:
            text = f"{'#' * min(level, 6)} {own_title}{_BLANK_LINE}{text}"
        notes = [note, *(node.note for node in part.path)]
        if self._ending and text:  # a blank line between the chapters
            self._end.text += _BLANK_LINE[len(self._ending) - len(self._ending.rstrip("\n")) :]
            self._ending = _BLANK_LINE
        note = _BLANK_LINE.join(filter(None, notes))
        node = self._grower.add(self._end, text, title=own_title, note=note, labels="\n".join(tags))
        if not beside:
            self._end, self._ending = node, (self._ending + text)[-2:]


# -- any files ----------------------------------------------------------------------------------------


def is_folder(folder: Folder) -> bool:
    return bool(folder.files)


def read_files(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The files of a folder in their order, each a chapter.

    Files that are no stories, such as pictures, are left out with a notice. Raises FormatError for an
    unreadable file that was named, or has the name of a text: no chapter goes missing in silence.
    """
    binder = Binder()
    for path in folder.files:
        if not folder.read_bytes(path).strip():
            binder.notices.append(f"{path} is empty, and was left out")
            continue
        try:
            part = read_file(path)
        except FormatError as error:
            if path in folder.named or PurePosixPath(path).suffix.lower() in _TEXTS:
                raise
            binder.notices.append(f"left out: {error}")
        else:
            binder.add(part, path, title_of(path))
    if binder.empty:
        cure = "name a folder with .md, .txt, .docx, .odt, .rtf or .html files"
        raise NotForUs(folder.name or "these files", "hold nothing that can be read", cure)
    return binder.draft(folder.title)


def refuse_projects(folder: Folder) -> None:
    """Raise NotForUs for projects whose file names say nothing of their order."""
    names = {path.partition("/")[0] for path in folder.files}
    if "nwProject.nwx" in names:
        cure = "build the manuscript there as Open Document or Markdown, and import that"
        raise NotForUs(folder.name, "is a project of novelWriter", cure)
    if {"MANUSKRIPT", "outline"} <= names:
        cure = "compile it there as Markdown or HTML, and import that"
        raise NotForUs(folder.name, "is a project of Manuskript", cure)


# -- Obsidian -----------------------------------------------------------------------------------------

_NOTE = (".md", ".markdown")
_LINK = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`"  # code, in which brackets are no links
    r"|(?P<embed>!?)\[\[(?P<target>[^\[\]\n|\\]+)(?:\\?\|(?P<words>[^\[\]\n]*))?\]\]",
    re.DOTALL,
)


def is_vault(folder: Folder) -> bool:
    return ".obsidian" in folder.hidden or _longform(folder) is not None


def read_vault(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The notes of a vault, each a chapter; links become words, embedded notes and pictures their names.

    With Longform it is the project: its scenes in the order of the index note, and nothing else.
    """
    binder = Binder()
    project = _longform(folder)
    notes = [(path, 1) for path in folder.files if path.lower().endswith(_NOTE)]
    for path, level in notes if project is None else _scenes(folder, *project, binder):
        if not folder.read_bytes(path).strip():
            binder.notices.append(f"{path} is empty, and was left out")
            continue
        draft = read_file(path)
        for node in draft.nodes.values():
            node.text = _LINK.sub(_shown, node.text)
        binder.add(draft, path, title_of(path), level=level)
    if binder.empty:
        raise NotForUs(folder.name, "has no notes with words in them", "name a folder with .md files")
    title = "" if project is None else str(project[1].get("title") or "")
    return binder.draft(title or folder.title)


def _shown(link: re.Match[str]) -> str:
    """Return what a link shows."""
    if link["target"] is None:
        return link[0]
    name, _, part = link["target"].partition("#")
    steps = [PurePosixPath(name.strip()).name.removesuffix(".md")]
    steps += [step.strip() for step in part.split("#") if step and not step.startswith("^")]
    words = " > ".join(filter(None, steps)) or link["target"]
    return f"[{words}]" if link["embed"] else (link["words"] or "").strip() or words


def _longform(folder: Folder) -> tuple[str, JsonObject] | None:
    """Return the first index note of a Longform project of scenes, and what it says of the project."""
    for path in folder.files:
        data = folder.read_bytes(path) if path.lower().endswith(_NOTE) else b""
        if data.startswith(b"---") and b"longform:" in data:
            try:
                front, _ = split_front_matter(unix_lines(data.decode("utf-8", "replace")))
            except NotYaml:
                continue
            said = as_object((front or {}).get("longform"))
            if said.get("scenes") is not None:
                return path, said
    return None


def _scenes(folder: Folder, index: str, said: JsonObject, binder: Binder) -> Iterator[tuple[str, int]]:
    """Yield the scenes of a project in its order, each with its level; a notice names what is left out."""
    at = PurePosixPath(index).parent / str(said.get("sceneFolder") or "").strip("/")
    taken = {index}

    def walk(entries: list[Any], level: int) -> Iterator[tuple[str, int]]:
        for entry in entries:
            path = (at / f"{entry}.md").as_posix()
            if isinstance(entry, list):
                yield from walk(as_list(entry), level + 1)
            elif path in folder.files:
                taken.add(path)
                yield path, min(level, 6)
            else:
                words = f"{entry} was left out; the index note names it, and there is no such note"
                binder.notices.append(words)

    yield from walk(as_list(said["scenes"]), 1)
    notes = [path for path in folder.files if path.lower().endswith(_NOTE) and path not in taken]
    if notes:
        binder.notices.append(f"left out, since they are no scenes of {index}: {', '.join(notes)}")


# -- Scrivener ----------------------------------------------------------------------------------------

_STYLE_MARKS = re.compile(r"<!?\$Scr_[A-Za-z]+::\d+>")
_CURE = "open it in Scrivener, let it mend the project, and close it; or compile it as .docx, and import that"


def is_scrivener(folder: Folder) -> bool:
    return any(path.endswith(".scrivx") and "/" not in path for path in folder.files)


def read_scrivener(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The Draft folder of a project (Scrivener 1 to 3), in the order of its binder.

    Folders, and texts directly in the Draft, are chapters; texts in folders are scenes. A text that is not
    compiled becomes a branch beside the text. Raises NotForUs for a binder that is not sound.
    """
    binder_path = next((p for p in folder.files if p.endswith(".scrivx") and "/" not in p), None)
    if binder_path is None:
        cure = "name the folder NAME.scriv of a Scrivener project"
        raise NotForUs(folder.name, "has no .scrivx file", cure)
    name = f"{folder.name}/{binder_path}"
    root = parse_xml(folder.read_bytes(binder_path), name, _CURE)
    top = next((item for item in root.iter() if item.get("Type") == "DraftFolder"), None)
    if top is None:
        raise NotForUs(name, "has no Draft folder", _CURE)
    paths = {path.casefold(): path for path in folder.files}

    def read(item: Element, kind: str, suffix: str) -> StoryDraft:
        """Return the text of an entry, below its UUID or, in older projects, with its number."""
        for stem in (f"files/data/{item.get('UUID')}/{kind}", f"files/docs/{item.get('ID')}{suffix}"):
            for end in ("rtf", "txt", "md", "fountain", "html"):
                path = paths.get(f"{stem}.{end}".casefold())
                if path is not None and folder.read_bytes(path).strip():
                    part = read_file(path)
                    for node in part.nodes.values():
                        node.text = _STYLE_MARKS.sub("", node.text)
                    return part
        return Grower().draft()

    binder = Binder()
    says = any(map(_is_compiled, top.iter()))  # some versions have no field for texts that are not compiled
    stack = [(child, 1) for child in reversed(list(below(top, "Children")))]
    while stack:
        item, depth = stack.pop()
        if name_of(item) != "BinderItem":
            continue
        stack += [(child, depth + 1) for child in reversed(list(below(item, "Children")))]
        title, kind = text_in(first(item, "Title")), item.get("Type", "")
        if kind not in ("Folder", "Text"):
            binder.notices.append(f"{title or kind} was left out; it is no text")
            continue
        part, chapter = read(item, "content", ""), kind == "Folder" or depth == 1
        notes = (read(item, name, f"_{name}").text.strip() for name in ("synopsis", "notes"))
        note, beside = _BLANK_LINE.join(filter(None, notes)), says and not _is_compiled(item)
        if part.text or chapter or note:
            level, tags = depth if chapter and title else 0, ("not compiled",) * beside
            binder.add(part, title or kind, title, level=level, note=note, tags=tags, beside=beside)
    if binder.empty:
        cure = "move the texts there in Scrivener; research and notes are not imported"
        raise NotForUs(folder.name, "has nothing in its Draft folder", cure)
    draft = binder.draft(text_in(first(root, "ProjectProperties", "ProjectTitle")) or folder.title)
    draft.byline = text_in(first(root, "ProjectProperties", "FullName"))
    return draft


def _is_compiled(item: Element) -> bool:
    return text_in(first(item, "MetaData", "IncludeInCompile")) == "Yes"
