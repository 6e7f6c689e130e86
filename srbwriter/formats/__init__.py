"""Files of writers and of other programs: bytes to a draft of a story and back.

``table`` lists every format, and each is a function or two: ``foreign`` (trees, sessions and chats), ``lore``
(lorebooks and cards), ``novelai``, ``documents``, ``rtf`` and ``html`` (books, in), ``book`` (books, out),
``markdown``, ``folder`` and ``own``. What a file is follows from its content, never from its name. Only
``transfer`` knows a story that is open, or writes a file.
"""

from srbwriter.formats.opening import FormatError
from srbwriter.formats.table import (
    ALIASES,
    FOLDERS,
    FORMATS,
    by_name,
    for_file,
    no_extension,
    read,
    read_folder,
    writable,
    write,
)

__all__ = [
    "ALIASES", "FOLDERS", "FORMATS", "FormatError", "by_name",
    "for_file", "no_extension", "read", "read_folder", "writable", "write",
]  # fmt: skip
