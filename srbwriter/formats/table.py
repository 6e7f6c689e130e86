"""The table of formats, and reading and writing by it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from srbwriter.formats import book, documents, folder, foreign, html, lore, markdown, novelai, own, rtf
from srbwriter.formats.folder import Folder
from srbwriter.formats.opening import Document, FormatError, NotForUs, decode, open_document, refuse_unknown
from srbwriter.story.draft import StoryDraft

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a file, or of a folder. ``matches`` looks at the content; ``read`` raises FormatError.

    They get a :class:`Document`, or a :class:`Folder` and a function that reads a file in it. A path alone is
    written, but for trees.
    """

    name: str
    label: str
    extension: str
    matches: Callable[[Any], bool]
    read: Callable[..., StoryDraft]
    write: Callable[[StoryDraft], bytes] | None = None


FORMATS = (
    Format(
        own.NAME, "srbwriter JSON (all but the undo history)", ".json",
        own.is_own, own.read_own, own.write_own,
    ),
    Format("novelai", "NovelAI story", ".story", novelai.is_story, novelai.read_story),
    Format("novelai-lorebook", "NovelAI lorebook", ".lorebook", novelai.is_lorebook, novelai.read_lorebook),
    Format("kobold", "Kobold Lite save", ".json", foreign.is_kobold, foreign.read_kobold),
    Format("conversations", "ChatGPT, Claude", ".json", foreign.is_conversations, foreign.read_conversations),
    Format("card", "Character card (JSON, PNG)", ".json", lore.is_card, lore.read_card),
    Format("sillytavern", "SillyTavern chat", ".jsonl", foreign.is_tavern_chat, foreign.read_tavern_chat),
    Format("worldinfo", "World info, lorebook of a card", ".json", lore.is_world_info, lore.read_world_info),
    Format("mikupad", "mikupad session", ".json", foreign.is_mikupad, foreign.read_mikupad),
    Format("loom", "Loom tree", ".json", foreign.is_loom, foreign.read_loom),
    Format("docx", "Word document", ".docx", documents.is_docx, documents.read_docx, book.write_docx),
    Format("epub", "EPUB book", ".epub", html.is_epub, html.read_epub, book.write_epub),
    Format("odt", "OpenDocument text", ".odt", documents.is_odt, documents.read_odt),
    Format("rtf", "Rich Text Format", ".rtf", rtf.is_rtf, rtf.read_rtf),
    Format("html", "HTML page", ".html", html.is_html, html.read_html),
    Format(
        "markdown", "Markdown", ".md",
        markdown.is_markdown, markdown.read_markdown, markdown.write_markdown,
    ),
    Format("text", "Plain text", ".txt", markdown.is_text, markdown.read_text, markdown.write_text),
)  # fmt: skip
"""Every format of a file, those with the most telling content first: the first that matches is a file's."""

FOLDERS = (
    Format(
        "scrivener", "Scrivener project (its Draft)", ".scriv",
        folder.is_scrivener, folder.read_scrivener,
    ),
    Format(
        "obsidian", "Obsidian vault, each note a chapter; Longform", "(folder)",
        folder.is_vault, folder.read_vault,
    ),
    Format("folder", "Folder, each file a chapter", "(folder)", lambda it: bool(it.files), folder.read_files),
)  # fmt: skip
"""Every format of a folder. The last is for any folder, if the writer asks for one story of its files."""

_TEXTS = ("html", "markdown", "text")  # any text can be read as these
ALIASES = {"md": "markdown", "txt": "text", "json": own.NAME}
"""Other names of formats, which people try."""


def by_name(name: str) -> Format:
    """Return the format called ``name``. Raises KeyError, naming the formats there are."""
    for form in FORMATS:
        if form.name == ALIASES.get(name, name):
            return form
    raise KeyError(f"no format {name!r}; there are {', '.join(form.name for form in FORMATS)}")


def writable() -> tuple[Format, ...]:
    """Return the formats that a story can be exported to."""
    return tuple(form for form in FORMATS if form.write is not None)


def for_file(file: Path) -> Format | None:
    """Return the export format for a file name, by its extension."""
    return next((form for form in writable() if form.extension == file.suffix.lower()), None)


def no_extension(file: Path) -> str:
    """Return in words that the name of ``file`` ends like no format's, and how it could."""
    known = " ".join(dict.fromkeys(form.extension for form in writable()))
    return f"{file}: no format has the extension {file.suffix or '(none)'}; use one of {known}"


def read(data: bytes, name: str, *, encoding: str = "", format_name: str = "") -> StoryDraft:
    """Return the story in a file, with notices of what was left out or changed.

    Args:
        data: the file.
        name: its name in messages.
        encoding: the encoding of a text that is not in UTF, by a name that Python knows.
        format_name: the format to read it as, instead of the detected one.

    Raises FormatError, and KeyError for the name of no format.
    """
    form = by_name(format_name) if format_name else None
    as_text = form is not None and form.name in _TEXTS
    if as_text:
        document = Document(name, data, "text", decode(data, name, encoding))
    else:
        document = open_document(data, name, encoding)
    if form is not None and not as_text and not form.matches(document):
        raise FormatError(name, "the file", f"a file in the format {form.name}")
    form = form or next((form for form in FORMATS if form.matches(document)), None)
    if form is None:
        refuse_unknown(document)
    try:
        draft = form.read(document)
    except FormatError:
        raise
    except Exception as error:  # what no reader asks before it reads
        log.info("%s", name, exc_info=True)
        problem = "is nested too deeply" if isinstance(error, RecursionError) else f"is damaged ({error})"
        raise NotForUs(name, problem, "save it anew in the program that made it") from error
    draft.notices = [*document.notices, *draft.notices]
    return draft


def read_folder(
    opened: Folder, progress: Callable[[float], object] = lambda share: None, *, as_one: bool = False,
    encoding: str = "", format_name: str = "",
) -> StoryDraft:  # fmt: skip
    """Return the story in a folder.

    Args:
        opened: the folder.
        progress: called with the share that is read, from 0 to 1.
        as_one: whether any folder may become a story, each file a chapter.
        encoding: the encoding of texts that are not in UTF.
        format_name: the format of the folder, or that of each file in it.

    Raises FormatError for a folder that is no story, unless ``as_one`` is set.
    """
    folder.refuse_projects(opened)
    named = [form for form in FOLDERS if form.name == format_name]
    fits = named or [form for form in FOLDERS[: None if as_one else -1] if form.matches(opened)]
    done = count(1)

    def read_file(path: str) -> StoryDraft:
        progress(min(1, next(done) / len(opened.files)))
        file, form = opened.files[path], "" if named else format_name
        return read(file.read_bytes(), str(file), encoding=encoding, format_name=form)

    if not fits:
        cure = "name a file in it; `srbwriter import --as-one` makes one story of all of them"
        raise NotForUs(opened.name, "is a folder", cure)
    return fits[0].read(opened, read_file)


def write(draft: StoryDraft, format_name: str) -> bytes:
    """Return the story in a format that can be exported. Raises KeyError."""
    form = by_name(format_name)
    if form.write is None:
        names = ", ".join(other.name for other in writable())
        raise KeyError(f"{format_name!r} can only be imported; export to one of {names}")
    return form.write(draft)
