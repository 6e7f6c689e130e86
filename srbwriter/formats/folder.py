"""Folders and several files as one story: chapters in the order of their project, or of their names.

Read are any files (``--as-one``), vaults of Obsidian with projects of Longform, and projects of Scrivener.
Projects of novelWriter and Manuskript are refused in words: their own export knows what belongs to the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from xml.etree.ElementTree import Element

from srbwriter.formats.blocks import plain_title
from srbwriter.formats.documents import first, name_of, named, text_in
from srbwriter.formats.draft import Grower
from srbwriter.formats.markdown import split_front_matter
from srbwriter.formats.opening import FormatError, NotForUs, parse_xml, unix_lines
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import JsonObject, StoryError, as_list, as_object
from srbwriter.story.outline import heading_line

MOST_FILES = 20_000
"""Most files of one story; a folder with more is refused as a mistake."""

_DIGITS = re.compile(r"\d+")
_NUMBERED = re.compile(r"(?:0\d*|\d+(?=\s*[-._)]))[\s\-._)]+(?=\S)")
_BLANK_LINE = "\n\n"
_CURE = "name a folder with .md, .txt, .docx, .odt, .rtf or .html files"

ReadFile = Callable[[str], StoryDraft]


class Folder(NamedTuple):
    """Files that become one story. ``name`` is for messages; ``files`` are paths by what they are called.

    Those of a folder are called by their place in it, with ``/``, in the order in which people number them.
    """

    name: str
    title: str
    files: dict[str, Path]
    is_vault: bool = False


def open_files(paths: Sequence[Path]) -> Folder:
    """Return a folder, or several files and folders in their order. Raises StoryError for too many files."""
    top = paths[0]
    if len(paths) == 1 and top.is_dir():
        title = top.absolute().name.removesuffix(".scriv")
        return Folder(
            str(top), title, {name: top / name for name in _names_in(top)}, (top / ".obsidian").is_dir()
        )
    found = [path / name for path in paths for name in (_names_in(path) if path.is_dir() else [""])]
    return Folder("these files", "", {str(path): path for path in found})


def _names_in(top: Path) -> list[str]:
    found: list[str] = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        found += [(Path(folder).relative_to(top) / name).as_posix() for name in names if not _is_hidden(name)]
        if len(found) > MOST_FILES:
            raise StoryError(f"{top}: has more than {MOST_FILES} files — name a folder with one story in it")
    return sorted(found, key=lambda name: _DIGITS.sub(lambda n: n[0].zfill(20), name.casefold()).split("/"))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.casefold() == "desktop.ini"


def title_of(path: str) -> str:
    """Return a chapter's title from the name of its file, without the number that puts it in its place."""
    stem = PurePosixPath(path).stem.replace("_", " ").strip()
    return _NUMBERED.sub("", stem, count=1).strip() if _NUMBERED.match(stem) else stem


class ChapterFile(NamedTuple):
    """A file that becomes a chapter, called ``title`` where its text says nothing else.

    Without a ``path`` it has no words. ``level`` is that of the heading which it gets where its text begins
    with none; 0 is a scene. ``notes`` are files, too.
    """

    path: str
    title: str
    level: int = 1
    notes: Sequence[str] = ()


def _bind(
    folder: Folder, parts: Iterable[ChapterFile], read_file: ReadFile, clean: Callable[[str], str] = str
) -> StoryDraft:
    """Return one story of all parts; a notice names each file that is empty or cannot be read.

    Args:
        folder: where they are.
        parts: in their order.
        read_file: reads one, by its path.
        clean: changes the text of each.
    """
    grower, whole = Grower(), StoryDraft()
    end, ending = grower.root, ""  # the last characters of the text so far
    for path, title, level, asides in parts:
        part = StoryDraft()
        try:
            if path and not folder.files[path].read_bytes().strip():
                whole.notices.append(f"{path} is empty, and was left out")
                continue
            part = read_file(path) if path else part
            notes = [read_file(aside).text.strip() for aside in asides]
        except (FormatError, OSError) as error:
            whole.notices.append(f"left out: {error}")
            continue
        whole.notices += [f"{path}: {words}" for words in part.notices]
        whole.byline, whole.language = whole.byline or part.byline, whole.language or part.language
        text = clean(part.text)
        own = heading_line(text.lstrip("\n"))
        title = plain_title(own[1]) if own else part.title or title
        if level and own is None:
            text = f"{'#' * min(level, 6)} {title}{_BLANK_LINE}{text}"
        if ending and text:  # a blank line between the chapters
            end.text += _BLANK_LINE[len(ending) - len(ending.rstrip("\n")) :]
        note = _BLANK_LINE.join(filter(None, [*notes, *(node.note for node in part.path)]))
        end, ending = grower.add(end, text, title=title, note=note), (ending + text)[-2:]
    if end is grower.root:
        raise NotForUs(folder.name, "holds nothing that can be read", _CURE)
    whole.nodes, whole.current, whole.title = grower.nodes, end.id, folder.title
    return whole


# -- any files ----------------------------------------------------------------------------------------


def read_files(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The files of a folder in their order, each a chapter."""
    return _bind(folder, [ChapterFile(path, title_of(path)) for path in folder.files], read_file)


def refuse_projects(folder: Folder) -> None:
    """Raise NotForUs for projects whose file names say nothing of their order."""
    for mark, program, cure in (
        ("nwProject.nwx", "novelWriter", "build the manuscript there as Open Document or Markdown"),
        ("MANUSKRIPT", "Manuskript", "compile it there as Markdown or HTML"),
    ):
        if mark in folder.files:
            raise NotForUs(folder.name, f"is a project of {program}", f"{cure}, and import that")


# -- Obsidian -----------------------------------------------------------------------------------------

_NOTE = (".md", ".markdown")
_LINK = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`"  # code, in which brackets are no links
    r"|(?P<embed>!?)\[\[(?P<target>[^\[\]\n|\\]+)(?:\\?\|(?P<words>[^\[\]\n]*))?\]\]",
    re.DOTALL,
)


def is_vault(folder: Folder) -> bool:
    return folder.is_vault or _longform(folder) is not None


def read_vault(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The notes of a vault, each a chapter; links become words, embedded notes and pictures their names.

    With Longform it is the project: its scenes in the order of the index note, and nothing else.
    """
    project, notices = _longform(folder), list[str]()
    parts = [ChapterFile(path, title_of(path)) for path in folder.files if path.lower().endswith(_NOTE)]
    if project is not None:
        parts = list(_scenes(folder, *project, notices))
    draft = _bind(folder, parts, read_file, lambda text: _LINK.sub(_shown, text))
    if project is not None:
        draft.title = str(project[1].get("title") or "") or draft.title
    draft.notices = notices + draft.notices
    return draft


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
        data = folder.files[path].read_bytes() if path.lower().endswith(_NOTE) else b""
        if data.startswith(b"---") and b"longform:" in data:
            front, _ = split_front_matter(unix_lines(data.decode("utf-8", "replace")))
            said = as_object(front.get("longform"))
            if said.get("scenes") is not None:
                return path, said
    return None


def _scenes(folder: Folder, index: str, said: JsonObject, notices: list[str]) -> Iterator[ChapterFile]:
    """Yield the scenes of a project in its order; a notice names the omitted files."""
    at = PurePosixPath(index).parent / str(said.get("sceneFolder") or "").strip("/")
    taken = {index}
    stack = [(entry, 1) for entry in reversed(as_list(said["scenes"]))]
    while stack:
        entry, level = stack.pop()
        path = (at / f"{entry}.md").as_posix()
        if isinstance(entry, list):
            stack += [(inner, level + 1) for inner in reversed(as_list(entry))]
        elif path in folder.files:
            taken.add(path)
            yield ChapterFile(path, title_of(path), min(level, 6))
        else:
            notices.append(f"{entry} was left out; the index note names it, and there is no such note")
    notes = [path for path in folder.files if path.lower().endswith(_NOTE) and path not in taken]
    if notes:
        notices.append(f"left out, since they are no scenes of {index}: {', '.join(notes)}")


# -- Scrivener ----------------------------------------------------------------------------------------

_STYLE_MARKS = re.compile(r"<!?\$Scr_[A-Za-z]+::\d+>")
_MEND = "open it in Scrivener, let it mend the project, and close it; or compile it as .docx, and import that"


def is_scrivener(folder: Folder) -> bool:
    return bool(_binder(folder))


def _binder(folder: Folder) -> str:
    return next((path for path in folder.files if path.endswith(".scrivx") and "/" not in path), "")


def read_scrivener(folder: Folder, read_file: ReadFile) -> StoryDraft:
    """The Draft folder of a project (Scrivener 1 to 3), in the order of its binder.

    Folders, and texts directly in the Draft, are chapters; texts in folders are scenes. A notice names what
    is not compiled, and left out. Raises NotForUs for a binder that is not sound.
    """
    if not (binder := _binder(folder)):
        raise NotForUs(folder.name, "has no .scrivx file", "name the folder NAME.scriv of a project")
    name = f"{folder.name}/{binder}"
    root = parse_xml(folder.files[binder].read_bytes(), name, _MEND)
    top = next((item for item in root.iter() if item.get("Type") == "DraftFolder"), None)
    if top is None:
        raise NotForUs(name, "has no Draft folder", _MEND)
    files, notices = {path.casefold(): path for path in folder.files}, list[str]()

    def file_of(item: Element, kind: str, suffix: str = "") -> str:
        """Return the path of a text of an entry, below its UUID or, in older projects, with its number."""
        for stem in (f"files/data/{item.get('UUID')}/{kind}", f"files/docs/{item.get('ID')}{suffix}"):
            for end in ("rtf", "txt", "md", "fountain", "html"):
                path = files.get(f"{stem}.{end}".casefold(), "")
                if path and folder.files[path].read_bytes().strip():
                    return path
        return ""

    def parts() -> Iterator[ChapterFile]:
        says = any(map(_is_compiled, top.iter()))  # some versions have no field for texts not compiled
        stack = [(child, 1) for child in reversed(list(next(named(top, "Children"), ())))]
        while stack:
            item, depth = stack.pop()
            if name_of(item) != "BinderItem":
                continue
            stack += [(child, depth + 1) for child in reversed(list(next(named(item, "Children"), ())))]
            title, kind = text_in(first(item, "Title")), item.get("Type", "")
            if kind not in ("Folder", "Text") or (says and not _is_compiled(item)):
                notices.append(f"{title or kind} was left out; it is no text, or not compiled")
                continue
            notes = [path for aside in ("synopsis", "notes") if (path := file_of(item, aside, f"_{aside}"))]
            path, chapter = file_of(item, "content"), kind == "Folder" or depth == 1
            if path or chapter or notes:
                level = depth if chapter and title else 0
                yield ChapterFile(path, title or kind, level, notes)

    draft = _bind(folder, parts(), read_file, lambda text: _STYLE_MARKS.sub("", text))
    draft.notices += notices
    draft.title = text_in(first(root, "ProjectProperties", "ProjectTitle")) or draft.title
    draft.byline = text_in(first(root, "ProjectProperties", "FullName"))
    return draft


def _is_compiled(item: Element) -> bool:
    return text_in(first(item, "MetaData", "IncludeInCompile")) == "Yes"
