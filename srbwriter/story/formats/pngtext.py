"""The texts in a PNG picture: its ``tEXt``, ``zTXt`` and ``iTXt`` chunks (PNG specification, 11.3.3)."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Collection, Iterator

from srbwriter.story.formats.document import PNG_SIGNATURE, Document
from srbwriter.story.formats.errors import FormatError

MOST_TEXT_BYTES = 64 * 2**20
"""The longest text that is unpacked from a compressed chunk."""

_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def text_chunks(document: Document, wanted: Collection[str], notices: list[str]) -> dict[str, bytes]:
    """The texts with the wanted keywords, in small letters.

    Raises :class:`FormatError` when the file is cut off before the first of them; later damage is a notice.
    """
    found: dict[str, bytes] = {}
    try:
        for kind, body in _chunks(document):
            for keyword, text in _texts(kind, body):
                if keyword.lower() in wanted:
                    found[keyword.lower()] = text
    except FormatError as error:
        if not found:
            raise
        notices.append(f"The picture is damaged at {error.place}; the card in it could be read.")
    return found


def unwrapped(text: bytes, file: str, place: str) -> str:
    """The JSON in a chunk: base64, of either alphabet and with or without line breaks, or as it is."""
    packed = b"".join(text.split())
    try:
        if packed.startswith(b"{"):
            return text.decode("utf-8")
        padded = packed.translate(_URL_SAFE).rstrip(b"=")
        return base64.b64decode(padded + b"=" * (-len(padded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise FormatError(file, place, f"JSON in base64 ({error})") from error


def _chunks(document: Document) -> Iterator[tuple[bytes, bytes]]:
    data, offset = document.data, len(PNG_SIGNATURE)
    while offset < len(data):
        length, kind = int.from_bytes(data[offset : offset + 4]), data[offset + 4 : offset + 8]
        body = data[offset + 8 : offset + 8 + length]
        if len(kind) < 4 or len(body) < length:
            raise FormatError(document.name, f"byte {offset}", "a whole PNG chunk; the file is cut off")
        yield kind, body
        if kind == b"IEND":
            return
        offset += 12 + length  # length, kind, body, checksum


def _texts(kind: bytes, body: bytes) -> Iterator[tuple[str, bytes]]:
    """Keyword and text of a chunk; none for chunks of other kinds, and for texts that cannot be unpacked."""
    keyword, _, rest = body.partition(b"\0")
    text: bytes | None = None
    match kind:
        case b"tEXt":
            text = rest
        case b"zTXt" if rest.startswith(b"\0"):  # the one method of compression there is
            text = _inflated(rest[1:])
        case b"iTXt" if len(rest) > 2:
            # a flag for compression and its method, then language and translated keyword, each ended by zero
            _, _, after = rest[2:].partition(b"\0")
            _, _, after = after.partition(b"\0")
            text = _inflated(after) if rest[0] else after
        case _:
            pass
    if text is not None:
        yield keyword.decode("latin-1"), text


def _inflated(data: bytes) -> bytes | None:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MOST_TEXT_BYTES)
    except zlib.error:
        return None
    return text if unpacker.eof else None
