r"""Rich Text Format, in: headings, paragraphs, italic and bold, as Word, TextEdit and Scrivener write them.

Follows the Rich Text Format Specification 1.9.1. A file is control words (``\i``), groups in braces, and
words in the code page of their font. Of groups that show nothing (tables of fonts, pictures, headers) no word
is taken. Footnotes are written as Markdown has them, comments become notes, tracked deletions are not text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from srbwriter.formats.blocks import Block, block_of, read_blocks
from srbwriter.formats.documents import HEADING, HIDDEN, PICTURES, Reader, Style, said
from srbwriter.formats.inline import Inline, join_inlines
from srbwriter.formats.opening import Document
from srbwriter.story.draft import StoryDraft

_TOKEN = re.compile(
    r"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\"
)
_CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018",
    "rquote": "\u2019", "ldblquote": "\u201c", "rdblquote": "\u201d", "bullet": "\u2022", "emspace": "\u2003",
    "enspace": "\u2002", "qmspace": "\u2005", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e",
    "rtlmark": "\u200f", "~": "\u00a0", "_": "\u2011", "-": "\u00ad", "\\": "\\", "{": "{", "}": "}",
    "\t": "\t",
}  # fmt: skip
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
"""Code pages of fonts, by ``\\fcharset``."""

_SILENT = frozenset(
    "colortbl pict objdata header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc "
    "ftncn aftnsep aftnsepc aftncn fldinst xe tc rxe themedata colorschememapping datastore filetbl revtbl "
    "listtable listoverridetable generator nonshppict bkmkstart bkmkend atnid atnref atrfstart atrfend "
    "atntime atndate atnparent subject operator manager company category keywords comment doccomm hlinkbase "
    "creatim revtim printim buptim private pn pntxta pntxtb template nesttableprops nonesttables shpinst "
    "listtext pntext".split()
)
"""Groups of which nothing is shown."""

_TAKEN = ("footnote", "annotation", "shptxt")
"""Groups whose words stand elsewhere than where they are written."""

_KEPT = frozenset("fonttbl stylesheet info title author atnauthor fldrslt field".split())
"""Groups that are known, also where a star says that others pass over them."""

_NO_TEXT = ("fonttbl", "silent", "info", "stylesheet")
_FORM = {"i": "emphasis", "b": "strong", "v": "hidden", "deleted": "hidden"}
_BODY_LEVEL = 9  # the outline level that is none


def is_rtf(document: Document) -> bool:
    return document.kind == "rtf"


def read_rtf(document: Document) -> StoryDraft:
    reader = _Rtf(document)
    draft = read_blocks(reader.read(document.data))
    draft.title = draft.title or " ".join(reader.named["title"].split())
    draft.byline = reader.named["author"].strip()
    return draft


@dataclass(slots=True)
class _State:
    """What holds inside a group: how words look, and where they go (``to``)."""

    emphasis: bool = False
    strong: bool = False
    hidden: bool = False
    font: int = 0
    fallbacks: int = 1  # characters after a \u for programs that do not know it
    to: str = ""
    style: str = ""  # the paragraph's, and the outline level that it or the paragraph gives
    level: int = _BODY_LEVEL


class _Rtf(Reader):
    """Follows the control words; ``_texts[-1]`` is what words go to."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.named = {"title": "", "author": "", "atnauthor": ""}
        self._state = _State()
        self._stack: list[_State] = []
        # Of the story, and of the note, comment or text box that is open: with the depth of its group.
        self._texts: list[tuple[list[Inline], int]] = [([], 0)]
        self._bytes = bytearray()  # in the font's code page, not yet decoded
        self._skip = 0  # characters that say again what a \u has said
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._names: dict[str, str] = {}  # of styles
        self._levels: dict[str, int] = {}
        self._item = self._starred = self._opened = False

    def read(self, data: bytes) -> Iterator[Block]:
        text, at = data.decode("latin-1"), 0
        while (found := _TOKEN.match(text, at)) is not None:
            at = found.end()
            word, number, code, symbol, brace, words = found.groups()
            if word == "bin":
                at += max(0, int(number or 0))
            elif code is not None:
                if not self._skipped():
                    self._bytes += bytes.fromhex(code)
            elif words is not None:
                self._opened = False
                words, self._skip = words[self._skip :], max(0, self._skip - len(words))
                self._bytes += words.encode("latin-1")
            elif brace is not None:
                self._flush()
                self._open() if brace == "{" else self._close()
            elif (word is not None or symbol is not None) and not (self._flush() or self._skipped()):
                yield from self._follow(word or symbol, None if number is None else int(number))
        self._flush()
        if self._stack:
            self.document.tell("the file ends in the middle; what there is of it was read")
        while self._stack:
            self._close()
        yield from self._end_paragraph()

    # -- groups ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._stack.append(replace(self._state))
        self._starred, self._skip, self._opened = False, 0, True

    def _close(self) -> None:
        if not self._stack:
            return
        to = self._state.to
        if to in _TAKEN and self._texts[-1][1] == len(self._stack):
            parts = self._texts.pop()[0]
            while parts and not parts[-1].text.strip():
                parts.pop()
            parts = _whole_characters(parts)
            if to == "footnote":
                self._texts[-1][0].append(Inline(self.note(parts)))
            elif to == "annotation":
                self.comment(self.named["atnauthor"].strip(), said(parts))
                self.named["atnauthor"] = ""
            elif parts:
                self.box(block_of("paragraph", parts))
        self._state, self._starred, self._skip, self._opened = self._stack.pop(), False, 0, False

    def _begin_group(self, name: str) -> None:
        """The group's first word says what it is."""
        silent = self._state.to == "silent"
        if name in _TAKEN and (not silent or name == "shptxt"):
            self._texts.append(([], len(self._stack)))
            self._state.to = name
        elif name in _SILENT:
            self._item = self._item or name in ("listtext", "pntext")
            self._state.to = "silent"
            if name == "pict":
                self.document.tell(PICTURES)
        elif not silent or name in ("title", "author"):
            self._state.to = name

    # -- control words -----------------------------------------------------------------------------

    def _follow(self, word: str, number: int | None) -> Iterator[Block]:
        starred, self._starred = self._starred, False
        opened, self._opened = self._opened, False
        state = self._state
        match word:
            case "*":  # it means the whole group, but only at its beginning
                self._starred, self._opened = opened, opened
            case "\n" | "\r" | "par" | "sect" | "page" | "cell" | "nestcell":
                yield from self._end_paragraph()
            case _ if word in _SILENT or word in _TAKEN or word in _KEPT:
                self._begin_group(word)
            case _ if starred:
                state.to = "silent"
            case _ if word in _CHARACTERS:
                self._add_text(_CHARACTERS[word])
            case _ if word in _FORM:
                setattr(state, _FORM[word], number != 0)
            case "plain":
                state.emphasis = state.strong = state.hidden = False
            case "pard":
                state.level, state.style, self._item = _BODY_LEVEL, "", False
            case "uc":
                state.fallbacks = max(0, number or 0)
            case "u":
                self._add_text(chr((number or 0) & 0xFFFF))
                self._skip = state.fallbacks
            case "f":
                state.font = number or 0
            case "fcharset" if state.to == "fonttbl" and number in _CHARSETS:
                self._fonts[state.font] = _CHARSETS[number]
            case "ansicpg":
                name = {65001: "utf-8", 10000: "mac_roman"}.get(number or 0, f"cp{number}")
                with suppress(LookupError):  # letters of an unknown one are read as Western ones
                    self._code_page = codecs.lookup(name).name
            case "s":
                state.style = str(number)
                state.level = self._levels.get(state.style, _BODY_LEVEL)
            case "outlinelevel":
                state.level = number if number is not None and number < _BODY_LEVEL else _BODY_LEVEL
                if state.to == "stylesheet":
                    self._levels[state.style] = state.level
            case _:
                pass

    # -- words -------------------------------------------------------------------------------------

    def _skipped(self) -> bool:
        """Whether the next character only says again what a \\u has said."""
        self._skip -= (skipped := self._skip > 0)
        return skipped

    def _flush(self) -> None:
        """Decode the bytes that were gathered."""
        if self._bytes:
            text = self._bytes.decode(self._fonts.get(self._state.font, self._code_page), "replace")
            self._bytes.clear()
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        state = self._state
        if state.to == "stylesheet":
            name = self._names[state.style] = self._names.get(state.style, "") + text.rstrip(";").casefold()
            if (heading := HEADING.match(name.strip())) is not None:
                self._levels[state.style] = int(heading[1]) - 1
        elif state.to in self.named:
            self.named[state.to] += text
        elif state.hidden and state.to not in _NO_TEXT:
            self.document.tell(HIDDEN)
        elif state.to not in _NO_TEXT:
            self._texts[-1][0].append(Inline(text, state.emphasis, state.strong))

    # -- paragraphs --------------------------------------------------------------------------------

    def _end_paragraph(self) -> Iterator[Block]:
        state, (text, _) = self._state, self._texts[-1]
        if state.to in _NO_TEXT:
            return
        if len(self._texts) > 1:
            text.append(Inline("\n"))
            return
        parts = _whole_characters(text)
        text.clear()
        style = Style("title" if self._names.get(state.style, "").strip() == "title" else None)
        if not style.kind and state.level < _BODY_LEVEL:  # a heading, without the look that all of it has
            style = style._replace(level=state.level + 1)
            seen = [part for part in parts if part.text.strip()]
            emphasis, strong = all(part.emphasis for part in seen), all(part.strong for part in seen)
            parts = [Inline(p.text, p.emphasis and not emphasis, p.strong and not strong) for p in parts]
        yield from self.paragraph(parts, style, self._item)
        self._item = False


def _whole_characters(parts: list[Inline]) -> list[Inline]:
    r"""Return the parts with the halves of characters that ``\u`` gives one by one put together."""
    return [
        part._replace(text=part.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        for part in join_inlines(parts)
    ]
