"""Bytes to text: UTF-8, UTF-16 and UTF-32 by themselves, any other encoding by its name.

Other encodings are never guessed, because a wrong guess silently puts wrong letters into a story. The error
names the likely encoding and the option that sets it.
"""

from __future__ import annotations

import codecs

from srbwriter.story.formats.base import FormatError, NotForUs

TEXT_EXPECTED = "a text in UTF-8, JSON, or a PNG card"

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT = 1 << 16  # bytes that are examined for an encoding
_FOREIGN_SHARE = 0.3  # of the bytes: above it, most letters are no Latin ones
_WESTERN = ("cp1252", "mac_roman", "cp850")  # the likeliest first
_OF_ICONV = {"mac_roman": "MACINTOSH"}
_OTHERS = (
    "cp1251", "koi8_r", "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1253", "cp1255", "cp1256",
)  # fmt: skip
_TYPOGRAPHY = frozenset("“”„‘’—–…«»¿¡\u00a0§©°")
_TEXT_CONTROLS = frozenset(b"\t\n\x0c\r\x1a\x1b")


def decode(data: bytes, name: str, encoding: str = "") -> str:
    """The text in ``data``, without the mark that some encodings begin with.

    Raises :class:`FormatError` if it is not in ``encoding``, or in UTF where none is named.
    """
    if encoding:
        return _decode_as(data, name, encoding)
    known, start = next(((of, len(bom)) for bom, of in _BOMS if data.startswith(bom)), ("utf-8", 0))
    try:
        text = data[start:].decode(known)
    except UnicodeDecodeError as error:
        raise _other_encoding(data, name, start + error.start) from error
    if "\0" in text:
        raise _other_encoding(data, name, start + data[start:].index(b"\0"))
    return text


def _decode_as(data: bytes, name: str, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(name, f"byte {error.start}", f"a text in {encoding}, as you named it") from error
    except LookupError as error:
        cure = "name one that Python knows, such as cp1252, latin-1, utf-16, koi8-r, shift_jis or big5"
        raise NotForUs(name, f"was not read: {encoding} is no encoding of text", cure) from error
    if "\0" in text:
        raise FormatError(name, f"character {text.index(chr(0))}", f"a text in {encoding}, as you named it")
    return text.removeprefix("\ufeff")


def _other_encoding(data: bytes, name: str, at: int) -> FormatError:
    likely = _likely(data[:_LOOKED_AT])
    if not likely and data[at] == 0 and not _is_binary(data.replace(b"\0", b"")):
        problem = f"has zeros in it (the first is byte {at}), and no text has"
        return NotForUs(name, problem, "take them out: tr -d '\\0' < OLD > NEW", f"byte {at}")
    if not likely:
        return FormatError(name, f"byte {at}", TEXT_EXPECTED)
    names = [_OF_ICONV.get(encoding, encoding.upper()) for encoding in likely]
    problem = f"is not in UTF-8 (byte {at}) and reads like {' or '.join(names)}"
    cure = f"`srbwriter import --encoding {likely[0]}` reads it; `iconv -f {names[0]} -t UTF-8` converts it"
    return NotForUs(name, problem, cure, f"byte {at}")


def _likely(data: bytes) -> list[str]:
    """Return the possible encodings of ``data``, the likeliest first; none if it is no text."""
    if zeros := _likely_utf16(data):
        return [zeros]
    if _is_binary(data):
        return []
    high = sum(byte >= 128 for byte in data)
    if high <= len(data) * _FOREIGN_SHARE:
        return [max(_WESTERN, key=lambda encoding: _sense(data, encoding))]
    from charset_normalizer import from_bytes  # only needed for this message

    matches = from_bytes(data, cp_isolation=list(_OTHERS))
    return [match.encoding.replace("_", "-") for match in matches][:2] or ["cp1252"]


def _likely_utf16(data: bytes) -> str:
    """UTF-16 without its mark has a zero byte beside every Latin letter."""
    pairs = len(data) // 2
    for encoding, zeros in (("utf-16-le", data[1::2].count(0)), ("utf-16-be", data[0::2].count(0))):
        if zeros > pairs * 0.3 and not _is_binary(data.decode(encoding, "ignore").encode()):
            return encoding
    return ""


def _is_binary(data: bytes) -> bool:
    """Whether there are control characters that no text has."""
    return sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in data) > len(data) // 200


def _sense(data: bytes, encoding: str) -> int:
    """How many characters beyond ASCII are where a story has them, less the others.

    That is small letters, quotes and dashes anywhere, and capitals where a word begins.
    """
    text = data.decode(encoding, "replace")
    sense = 0
    for before, c in zip(" " + text, text, strict=False):
        if c >= "\x80":
            usual = c.islower() or c in _TYPOGRAPHY or (c.isalpha() and not before.isalpha())
            sense += 1 if usual else -1
    return sense


def unix_lines(text: str) -> str:
    """Line ends of other systems as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
