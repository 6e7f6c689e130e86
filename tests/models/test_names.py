"""What file names say."""

from __future__ import annotations

from srbwriter.models.files import Parts, is_model, part_names, parts_of


def test_parts() -> None:
    assert parts_of("big-00002-of-00003.gguf") == Parts("big", 2)
    assert parts_of("small.GGUF") == Parts("small")
    assert part_names("big-00002-of-00002.gguf") == ["big-00001-of-00002.gguf", "big-00002-of-00002.gguf"]
    assert part_names("small.gguf") == ["small.gguf"]


def test_what_may_be_a_model() -> None:
    assert is_model("x/a.gguf") and is_model("A.GGUF")
    assert not any(map(is_model, ("a.bin", "mmproj-a-f16.gguf", "a-mmproj.gguf", "imatrix.gguf", "gguf")))
