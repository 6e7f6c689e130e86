r"""Rich Text Format, in: headings, paragraphs, italic and bold, as Word, TextEdit and Scrivener write them.

Follows the Rich Text Format Specification 1.9.1. A file is control words (``\i``), groups in braces, and
words in the code page of their font. Of groups that show nothing (tables of fonts, pictures, headers) no word
is taken. Footnotes are written as Markdown has them, comments become notes, tracked deletions are not text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from srbwriter.formats.blocks import Block, block_of, read_blocks
from srbwriter.formats.documents import HIDDEN, PICTURES, TABLES, Reader
from srbwriter.formats.inline import Inline, join_inlines
from srbwriter.formats.opening import Document, FormatError
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

_GROUPS = (
    frozenset("fonttbl stylesheet info title author atnauthor fldrslt field".split()) | _SILENT | {*_TAKEN}
)
"""Groups that are known, also where a star says that others pass over them."""

_NO_TEXT = ("fonttbl", "silent", "info", "stylesheet")
_FORM = {"i": "emphasis", "b": "strong", "v": "hidden", "deleted": "hidden"}
_HEADING = re.compile(r"heading ([1-9])$")
_BODY_LEVEL = 9  # the outline level that is none


def is_rtf(document: Document) -> bool:
    return document.kind == "rtf"


def read_rtf(document: Document) -> StoryDraft:
    if document.kind != "rtf":
        raise FormatError(document.name, "byte 0", "RTF, which begins with {\\rtf")
    reader = _Rtf(document)
    draft = read_blocks(reader.blocks(document.data))
    title = " ".join(reader.named["title"].split())
    draft.title, draft.byline = draft.title or title, reader.named["author"].strip()
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
    style: int = 0  # the paragraph's, and what it says
    level: int = _BODY_LEVEL
    in_table: bool = False


@dataclass(slots=True)
class _Style:
    """A paragraph's style: its name, and the outline level that it gives."""

    name: str = ""
    level: int = _BODY_LEVEL


@dataclass(slots=True)
class _Text:
    """Words that are gathered: of the story, of a note, of a comment or of a text box."""

    parts: list[Inline] = field(default_factory=list[Inline])
    depth: int = 0  # of the group that they are in


class _Rtf(Reader):
    """Follows the control words; ``_texts[-1]`` is what words go to."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.named = {"title": "", "author": "", "atnauthor": ""}
        self._state = _State()
        self._stack: list[_State] = []
        self._texts = [_Text()]
        self._bytes = bytearray()  # in the font's code page, not yet decoded
        self._skip = 0  # characters that say again what a \u has said
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._styles: dict[int, _Style] = {}
        self._item = self._starred = self._opened = False
        self._rows: list[Inline] = []

    def blocks(self, data: bytes) -> Iterator[Block]:
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
        yield from self._end_table()

    # -- groups ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._stack.append(replace(self._state))
        self._starred, self._skip, self._opened = False, 0, True

    def _close(self) -> None:
        if not self._stack:
            return
        to = self._state.to
        if to in _TAKEN and self._texts[-1].depth == len(self._stack):
            parts = self._texts.pop().parts
            while parts and not parts[-1].text.strip():
                parts.pop()
            parts = _whole_characters(parts)
            words = "".join(part.text for part in parts).strip()
            if to == "footnote":
                self._texts[-1].parts.append(Inline(self.note(parts)))
            elif to == "annotation":
                self.comment(self.named["atnauthor"].strip(), words)
                self.named["atnauthor"] = ""
            elif words:
                self.box(block_of("paragraph", parts))
        self._state, self._starred, self._skip, self._opened = self._stack.pop(), False, 0, False

    def _begin_group(self, name: str) -> None:
        """The group's first word says what it is."""
        silent = self._state.to == "silent"
        if name in _TAKEN and (not silent or name == "shptxt"):
            self._texts.append(_Text(depth=len(self._stack)))
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
            case "\n" | "\r" | "par" | "sect" | "page":
                yield from self._end_paragraph()
            case _ if word in _GROUPS:
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
                state.level, state.in_table, state.style, self._item = _BODY_LEVEL, False, 0, False
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
                self._set_code_page(number)
            case "s":
                state.style = number or 0
                if state.to == "stylesheet":
                    self._styles[state.style] = _Style()
                else:
                    state.level = self._styles.get(state.style, _Style()).level
            case "outlinelevel":
                level = number if number is not None and 0 <= number < _BODY_LEVEL else _BODY_LEVEL
                if state.to == "stylesheet":
                    self._styles.setdefault(state.style, _Style()).level = level
                else:
                    state.level = level
            case "intbl":
                state.in_table = True
            case "cell" | "nestcell":
                text = self._texts[-1]
                self._rows += [*_whole_characters(text.parts), Inline(" | ")]
                text.parts = []
            case "row" | "nestrow":
                if self._rows and self._rows[-1].text == " | ":
                    self._rows[-1] = Inline("\n")
                state.in_table = word == "nestrow"
            case _:
                pass

    def _set_code_page(self, number: int | None) -> None:
        name = {65001: "utf-8", 10000: "mac_roman"}.get(number or 0, f"cp{number}")
        try:
            self._code_page = codecs.lookup(name).name
        except LookupError:
            self.document.tell(
                f"the code page {number} is not known; letters in it were read as Western ones"
            )

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
            style = self._styles.setdefault(state.style, _Style())
            style.name += text.rstrip(";").casefold()
            if (heading := _HEADING.match(style.name.strip())) is not None:
                style.level = int(heading[1]) - 1
        elif state.to in self.named:
            self.named[state.to] += text
        elif state.to in _NO_TEXT:
            return
        elif state.hidden:
            self.document.tell(HIDDEN)
        else:
            self._texts[-1].parts.append(Inline(text, state.emphasis, state.strong))

    # -- paragraphs --------------------------------------------------------------------------------

    def _end_paragraph(self) -> Iterator[Block]:
        state, text = self._state, self._texts[-1]
        if state.to in _NO_TEXT:
            return
        if len(self._texts) > 1 or state.in_table:
            text.parts.append(Inline(" " if len(self._texts) == 1 else "\n"))
            return
        yield from self._end_table()
        parts, text.parts = _whole_characters(text.parts), []
        title = self._styles.get(state.style, _Style()).name.strip() == "title"
        level = 0 if title or state.level == _BODY_LEVEL else state.level + 1
        if level:  # without the look that all of it has
            seen = [part for part in parts if part.text.strip()]
            emphasis, strong = all(part.emphasis for part in seen), all(part.strong for part in seen)
            parts = [Inline(p.text, p.emphasis and not emphasis, p.strong and not strong) for p in parts]
        yield from self.paragraph(parts, title=title, level=level, item=self._item)
        self._item = False

    def _end_table(self) -> Iterator[Block]:
        if self._rows:
            self.document.tell(TABLES)
            rows, self._rows = self._rows[:-1], []
            yield from block_of("paragraph", rows)


def _whole_characters(parts: list[Inline]) -> list[Inline]:
    r"""Return the parts with the halves of characters that ``\u`` gives one by one put together."""
    return [
        part._replace(text=part.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        for part in join_inlines(parts)
    ]
