"""Archives of documents, and the XML in them, read safely from untrusted files.

At most a fixed size is unpacked. XML entities are refused, because a few lines of them can expand to
gigabytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from srbwriter.story.formats.base import Document, NotForUs
from srbwriter.story.formats.document import BROKEN_ZIP

MOST_UNPACKED = 1 << 28  # bytes of all parts that are read
_TEXT_ALONE = "export its text alone, as .txt"


class Archive:
    """The parts of an archive. ``what`` it is and the ``cure`` are for the message where it is not sound."""

    def __init__(self, document: Document, what: str, cure: str) -> None:
        self._document, self._what, self._cure = document, what, cure
        self._left = MOST_UNPACKED

    def __contains__(self, name: str) -> bool:
        return name in self._document.names

    def read(self, name: str) -> bytes:
        """The bytes of a part. Raises :class:`NotForUs` for one that is missing, damaged or too large."""
        if name not in self:
            raise self.unsound(f"{name} is missing")
        try:
            with zipfile.ZipFile(io.BytesIO(self._document.data)) as archive:
                self._left -= archive.getinfo(name).file_size
                if self._left < 0:
                    problem = f"unpacks to more than {MOST_UNPACKED >> 20} MiB"
                    raise NotForUs(self._document.name, problem, _TEXT_ALONE)
                return archive.read(name)  # never more than the size that it gives
        except BROKEN_ZIP as error:
            if isinstance(error, NotForUs):
                raise
            raise self.unsound(f"{name}: {error}") from error

    def xml(self, name: str) -> Element:
        """The root of a part in XML. Raises :class:`NotForUs`."""
        try:
            return parse_xml(self.read(name))
        except NotXml as error:
            raise self.unsound(f"{name}: {error}") from error

    def unsound(self, problem: str) -> NotForUs:
        """The error that says that something about the archive is not as it should be."""
        return NotForUs(self._document.name, f"is no sound {self._what} ({problem})", self._cure)


class NotXml(ValueError):
    """Bytes are no XML that is read here; says where and why."""


def parse_xml(data: bytes) -> Element:
    """The root of a document; names are ``{namespace}name``. Raises :class:`NotXml`."""
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        builder.start(_clark(name), {_clark(key): value for key, value in attributes.items()})

    def refuse(*_: object) -> None:
        raise NotXml("it declares entities, which are not expanded here")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: builder.end(_clark(name))
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, LookupError, ValueError, AssertionError) as error:
        raise error if isinstance(error, NotXml) else NotXml(str(error)) from error


def _clark(name: str) -> str:
    return "{" + name if "}" in name else name


def local_name(element: Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def text_in(element: Element | None) -> str:
    """All characters in an element, white space as one space each; empty for none."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def named(root: Element, name: str) -> Iterator[Element]:
    """The elements in ``root`` called ``name``, in any namespace, in their order."""
    return (element for element in root.iter() if local_name(element) == name)
