"""What file names say."""

from __future__ import annotations

from srbwriter.models.files import is_model, part_names, part_of


def test_parts() -> None:
    assert part_of("big-00002-of-00003.gguf") == ("big", 2)
    assert part_of("small.GGUF") == ("small", 1)
    assert part_names("big-00002-of-00002.gguf") == ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"]
    assert part_names("small.gguf") == ["small.gguf"]


def test_what_may_be_a_model() -> None:
    assert is_model("x/a.gguf") and is_model("A.GGUF")
    assert not any(map(is_model, ("a.bin", "mmproj-a-f16.gguf", "a-mmproj.gguf", "imatrix.gguf", "gguf")))
