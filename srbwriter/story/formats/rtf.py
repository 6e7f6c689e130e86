r"""Rich Text Format, in: headings, paragraphs, italic and bold, as Word, TextEdit and Scrivener write them.

Follows the Rich Text Format Specification 1.9.1. A file is control words (``\i``), groups in braces, and
words in the code page of their font. Of groups that show nothing (tables of fonts, pictures, headers) no word
is taken. Footnotes are written as Markdown has them, comments become notes, tracked deletions are not text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.inline import Inline, join_inlines
from srbwriter.story.formats.manuscript import Manuscript
from srbwriter.story.model import StoryDraft

NAME = "rtf"

_TOKEN = re.compile(
    r"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))|([{}])|([^\\{}\r\n]+)|[\r\n]+|\\"
)
_CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "\u2014", "endash": "\u2013", "lquote": "\u2018",
    "rquote": "\u2019", "ldblquote": "\u201c", "rdblquote": "\u201d", "bullet": "\u2022", "emspace": "\u2003",
    "enspace": "\u2002", "qmspace": "\u2005", "zwj": "\u200d", "zwnj": "\u200c", "ltrmark": "\u200e",
    "rtlmark": "\u200f",
}  # fmt: skip
_SYMBOLS = {"~": "\u00a0", "_": "\u2011", "-": "\u00ad", "\\": "\\", "{": "{", "}": "}", "\t": "\t"}
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
    "creatim revtim printim buptim private pn pntxta pntxtb template".split()
)
"""Groups of which nothing is shown."""

_SHOWN = frozenset("shpinst shptxt annotation".split())
"""Groups that others pass over, because of the star before them, and that hold words."""

_HEADING = re.compile(r"heading ([1-9])$")
_BODY_LEVEL = 9  # the outline level that is none


def matches(document: Document) -> bool:
    return document.kind == "rtf"


def read(document: Document) -> StoryDraft:
    if document.kind != "rtf":
        raise FormatError(document.name, "byte 0", "RTF, which begins with {\\rtf")
    reader = _Reader()
    reader.take(document.data)
    return reader.draft()


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


class _Reader:
    """Follows the control words; ``_texts[-1]`` is what words go to."""

    def __init__(self) -> None:
        self._manuscript = Manuscript()
        self._state = _State()
        self._stack: list[_State] = []
        self._texts = [_Text()]
        self._bytes = bytearray()  # in the font's code page, not yet decoded
        self._skip = 0  # characters that say again what a \u has said
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._styles: dict[int, _Style] = {}
        self._title = self._author = self._remarked_by = ""
        self._item = self._starred = False
        self._rows: list[Inline] = []
        self._notes: list[tuple[str, list[Inline]]] = []
        self._boxes: list[list[Inline]] = []
        self._count = 0
        self._words: dict[str, Callable[[int | None], None]] = {
            "par": lambda _: self._end_paragraph(),
            "sect": lambda _: self._end_paragraph(),
            "page": lambda _: self._end_paragraph(),
            "pard": lambda _: self._reset_paragraph(),
            "plain": lambda _: self._set(emphasis=False, strong=False, hidden=False),
            "i": lambda number: self._set(emphasis=number != 0),
            "b": lambda number: self._set(strong=number != 0),
            "v": lambda number: self._set(hidden=number != 0),
            "deleted": lambda number: self._set(hidden=number != 0),
            "uc": lambda number: self._set(fallbacks=max(0, number or 0)),
            "f": self._set_font,
            "fcharset": self._set_charset,
            "ansicpg": self._set_code_page,
            "s": self._set_style,
            "outlinelevel": self._set_level,
            "intbl": lambda _: self._set(in_table=True),
            "cell": lambda _: self._end_cell(),
            "row": lambda _: self._end_row(),
            "u": self._unicode,
        }

    def draft(self) -> StoryDraft:
        """What was read."""
        draft = self._manuscript.draft()
        draft.title, draft.byline = self._title, self._author
        return draft

    def take(self, data: bytes) -> None:
        """Read a file."""
        text, at = data.decode("latin-1"), 0
        while (found := _TOKEN.match(text, at)) is not None:
            at = found.end()
            word, number, code, symbol, brace, words = found.groups()
            if word == "bin":
                at += max(0, int(number or 0))
            elif code is not None:
                self._add_byte(bytes.fromhex(code))
            elif words is not None:
                self._add_words(words)
            elif brace is not None:
                self._flush()
                self._open() if brace == "{" else self._close()
            elif word is not None or symbol is not None:
                self._flush()
                if not self._skipped():
                    self._follow(word or symbol, None if number is None else int(number))
        self._flush()
        if len(self._stack) > 0:
            self._manuscript.add_notice("the file ends in the middle; what there is of it was read")
        while self._stack:
            self._close()
        self._end_paragraph()
        self._end_table()

    # -- groups ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._stack.append(replace(self._state))
        self._starred, self._skip = False, 0

    def _close(self) -> None:
        if not self._stack:
            return
        to = self._state.to
        if to in ("footnote", "annotation", "shptxt") and self._texts[-1].depth == len(self._stack):
            self._end_text(to, self._texts.pop().parts)
        self._state, self._starred, self._skip = self._stack.pop(), False, 0

    def _end_text(self, to: str, parts: list[Inline]) -> None:
        words = "".join(part.text for part in parts).strip()
        if to == "footnote":
            self._count += 1
            self._notes.append((str(self._count), parts))
            self._texts[-1].parts.append(Inline(f"[^{self._count}]"))
        elif to == "annotation" and words:
            author, self._remarked_by = self._remarked_by.strip(), ""
            self._manuscript.remark(f"{author}: {words}" if author else words)
            self._manuscript.add_notice("comments became notes on their chapters")
        elif words:
            while not parts[-1].text.strip():
                parts.pop()
            self._boxes.append(parts)

    def _begin_group(self, name: str) -> None:
        """The group's first word says what it is."""
        silent = self._state.to == "silent"
        if name in ("footnote", "annotation", "shptxt") and (not silent or name == "shptxt"):
            self._texts.append(_Text(depth=len(self._stack)))
            self._state.to = name
        elif name == "pict":
            self._manuscript.add_notice("pictures were left out")
            self._state.to = "silent"
        elif name in ("listtext", "pntext"):
            self._item, self._state.to = True, "silent"
        elif name == "shpinst" or name in _SILENT:
            self._state.to = "silent"
        elif not silent or name in ("title", "author"):
            self._state.to = name

    # -- control words -----------------------------------------------------------------------------

    def _follow(self, word: str, number: int | None) -> None:
        starred, self._starred = self._starred, False
        if word == "*":
            self._starred = True
        elif word in ("\n", "\r"):  # a backslash at the end of a line
            self._end_paragraph()
        elif word in _SYMBOLS:
            self._add_text(_SYMBOLS[word])
        elif word in _SILENT or word in _SHOWN or word in _GROUPS:
            self._begin_group(word)
        elif starred:
            self._state.to = "silent"
        elif word in _CHARACTERS:
            self._add_text(_CHARACTERS[word])
        elif (act := self._words.get(word)) is not None:
            act(number)

    def _set(self, **values: bool | int) -> None:
        for name, value in values.items():
            setattr(self._state, name, value)

    def _set_font(self, number: int | None) -> None:
        self._state.font = number or 0

    def _set_charset(self, number: int | None) -> None:
        if self._state.to == "fonttbl" and number in _CHARSETS:
            self._fonts[self._state.font] = _CHARSETS[number]

    def _set_code_page(self, number: int | None) -> None:
        name = {65001: "utf-8", 10000: "mac_roman"}.get(number or 0, f"cp{number}")
        try:
            self._code_page = codecs.lookup(name).name
        except LookupError:
            self._manuscript.add_notice(
                f"the code page {number} is not known; letters in it were read as Western ones"
            )

    def _set_style(self, number: int | None) -> None:
        self._state.style = number or 0
        if self._state.to == "stylesheet":
            self._styles[self._state.style] = _Style()
        else:
            self._state.level = self._styles.get(self._state.style, _Style()).level

    def _set_level(self, number: int | None) -> None:
        level = number if number is not None and 0 <= number < _BODY_LEVEL else _BODY_LEVEL
        if self._state.to == "stylesheet":
            self._styles.setdefault(self._state.style, _Style()).level = level
        else:
            self._state.level = level

    def _unicode(self, number: int | None) -> None:
        self._add_text(chr((number or 0) & 0xFFFF))
        self._skip = self._state.fallbacks

    # -- words -------------------------------------------------------------------------------------

    def _skipped(self) -> bool:
        """Whether the next character only says again what a \\u has said."""
        if self._skip:
            self._skip -= 1
            return True
        return False

    def _add_byte(self, byte: bytes) -> None:
        if not self._skipped():
            self._bytes += byte

    def _add_words(self, words: str) -> None:
        words, self._skip = words[self._skip :], max(0, self._skip - len(words))
        self._bytes += words.encode("latin-1")

    def _flush(self) -> None:
        """Decode the bytes that were gathered."""
        if self._bytes:
            code_page = self._fonts.get(self._state.font, self._code_page)
            text = self._bytes.decode(code_page, "replace")
            self._bytes.clear()
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        state = self._state
        match state.to:
            case "fonttbl" | "silent" | "info":
                return
            case "stylesheet":
                self._name_style(text)
            case "title":
                self._title += text
            case "author":
                self._author += text
            case "atnauthor":
                self._remarked_by += text
            case _ if not state.hidden:
                self._texts[-1].parts.append(Inline(text, state.emphasis, state.strong))
            case _:
                self._manuscript.add_notice("hidden or deleted words were left out")

    def _name_style(self, text: str) -> None:
        style = self._styles.setdefault(self._state.style, _Style())
        style.name += text.rstrip(";").casefold()
        if (heading := _HEADING.match(style.name.strip())) is not None:
            style.level = int(heading[1]) - 1

    # -- paragraphs --------------------------------------------------------------------------------

    def _reset_paragraph(self) -> None:
        self._set(level=_BODY_LEVEL, in_table=False, style=0)
        self._item = False

    def _end_paragraph(self) -> None:
        if self._state.to in ("fonttbl", "silent", "info", "stylesheet"):
            return
        text = self._texts[-1]
        if len(self._texts) > 1:
            text.parts.append(Inline("\n"))
            return
        if self._state.in_table:
            text.parts.append(Inline(" "))
            return
        self._end_table()
        parts, text.parts = _whole_characters(text.parts), []
        words = "".join(part.text for part in parts)
        if self._styles.get(self._state.style, _Style()).name.strip() == "title" and self._manuscript.empty:
            self._title = " ".join(words.split()) or self._title
        elif self._state.level < _BODY_LEVEL:
            self._manuscript.heading(self._state.level + 1, _plainer(parts))
        elif self._item and words.strip():
            self._manuscript.add_notice("items of lists begin with a dash in place of bullet or number")
            self._manuscript.paragraph([Inline("- "), *parts])
        else:
            self._manuscript.paragraph(parts)
        self._item = False
        self._hang_on()

    def _hang_on(self) -> None:
        """Notes and text boxes of the paragraph that was read last."""
        notes, self._notes = self._notes, []
        boxes, self._boxes = self._boxes, []
        for label, parts in notes:
            self._manuscript.footnote(label, _whole_characters(parts))
        for parts in boxes:
            self._manuscript.add_notice("words in text boxes stand below the paragraph that they hang on")
            self._manuscript.paragraph(_whole_characters(parts))

    def _end_cell(self) -> None:
        text = self._texts[-1]
        self._rows += [*_whole_characters(text.parts), Inline(" | ")]
        text.parts = []

    def _end_row(self) -> None:
        if self._rows and self._rows[-1].text == " | ":
            self._rows[-1] = Inline("\n")
        self._state.in_table = False

    def _end_table(self) -> None:
        if self._rows:
            self._manuscript.add_notice("tables became lines, with | between the cells")
            self._manuscript.paragraph(self._rows[:-1])
            self._rows = []


_GROUPS = frozenset(
    "fonttbl stylesheet info title author atnauthor footnote listtext pntext fldrslt field".split()
)
"""Groups that are looked into, or shown."""


def _plainer(parts: list[Inline]) -> list[Inline]:
    """The parts of a heading without the look that all of them have."""
    seen = [part for part in parts if part.text.strip()]
    emphasis, strong = all(part.emphasis for part in seen), all(part.strong for part in seen)
    return [Inline(p.text, p.emphasis and not emphasis, p.strong and not strong) for p in parts]


def _whole_characters(parts: list[Inline]) -> list[Inline]:
    r"""The parts with the halves of characters that ``\u`` gives one by one put together."""
    return [
        Inline(part.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), *part.look)
        for part in join_inlines(parts)
    ]


FORMAT = Format(NAME, "Rich Text Format", ".rtf", matches, read)
