"""Which builds of llama.cpp may use AMX. Every test that decodes proves the rest on a machine that has it."""

from __future__ import annotations

import pytest

from srbwriter.engine.native import amx


@pytest.mark.parametrize(
    ("comments", "sound"),
    [
        (b"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0", False),
        (b"GCC: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\0", False),
        (b"GCC: (GNU) 11.5.0 20240719 (Red Hat 11.5.0-2)\0", True),
        (b"GCC: (Ubuntu 13.2.0-23ubuntu4) 13.2.0\0", False),
        (b"GCC: (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0\0", True),
        (b"GCC: (GNU) 14.1.1 20240522\0", True),
        (b"GCC: (GNU) 10.9.0\0", False),
        (b"GCC: (GNU) 14.2.0\0more\0GCC: (Debian 12.2.0-14) 12.2.0\0", False),
        (b"GCC: (Debian 12.2.0-14) 12.2.0\0Debian clang version 17.0.6\0", True),
        (b"", False),
    ],
)
def test_a_compiler_is_known_by_what_it_left_in_the_library(comments: bytes, sound: bool) -> None:
    assert amx.compiler_is_sound(b"\x7fELF\0" + comments + b"\xff") is sound


def answer(monkeypatch: pytest.MonkeyPatch, info: bytes, binaries: list[bytes]) -> bool:
    monkeypatch.setattr(amx.L, "llama_print_system_info", lambda: info)
    monkeypatch.setattr(amx, "_binaries", lambda: binaries)
    return amx.weights_may_be_repacked.__wrapped__()


def test_only_amx_of_an_unsound_build_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = b"GCC: (GNU) 12.2.0\0", b"GCC: (GNU) 14.2.0\0"
    assert answer(monkeypatch, b"AVX512 = 1 | AMX_INT8 = 1 |", [old]) is False
    assert answer(monkeypatch, b"AVX512 = 1 | AMX_INT8 = 1 |", [new, old]) is False
    assert answer(monkeypatch, b"AVX512 = 1 | AMX_INT8 = 1 |", [new]) is True
    assert answer(monkeypatch, b"AVX512 = 1 |", [old]) is True
