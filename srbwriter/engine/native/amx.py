"""Whether llama.cpp's AMX code may be used. Knows files and version numbers, no model.

Some GCC versions translate ``_tile_loadconfig`` so that most of the tile configuration never reaches memory
(GCC bug 114098, fixed in 11.5, 12.4, 13.3 and 14); ``ldtilecfg`` then faults on uninitialised memory. A
llama.cpp built by one of them for a processor with AMX dies at its first matrix product. AMX needs weights in
a layout of its own, so weights that keep theirs avoid it.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path

from .library import L, library

log = logging.getLogger("srbwriter.engine")

_GCC = re.compile(rb"GCC: \([^)\0]*\) (\d+)\.(\d+)\.\d+")
_MENDED = {11: 5, 12: 4, 13: 3}
"""The first good minor version of each line of GCC that had the fault when the fix was made."""


@cache
def weights_may_be_repacked() -> bool:
    """False where the layouts that llama.cpp makes for this processor include AMX's, and that is broken."""
    library()
    if b"AMX_INT8 = 1" not in L.llama_print_system_info():
        return True
    own = Path(L._lib._name)  # the processor's code is in libraries beside it, or in itself
    found = [path.read_bytes() for path in own.parent.glob("*ggml-cpu*")] or [own.read_bytes()]
    sound = all(map(_compiler_is_sound, found))
    if not sound:
        log.info(
            "this llama.cpp was built by a compiler whose AMX code crashes, so AMX stays unused; "
            "rebuilt with GCC 14 or clang it would evaluate prompts faster"
        )
    return sound


def _compiler_is_sound(binary: bytes) -> bool:
    """Whether the compilers that a shared library names in its comments translate AMX code rightly.

    A library that names none is not trusted.
    """
    found = [(int(major), int(minor)) for major, minor in _GCC.findall(binary)]
    sound = all(major >= 14 or minor >= _MENDED.get(major, minor + 1) for major, minor in found)
    return b"clang version" in binary or bool(found) and sound
