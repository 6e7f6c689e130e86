"""Weaves of Tapestry Loom as its program lays them out in a file, and notes of the plugin before it.

An own writer of rkyv archives, for what a weave of version 0 consists of: every structure is laid out behind
what it points to, its fields aligned to their sizes, and the root comes last.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

SIGNATURE = b"VersionedTapestryWeave__"
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

IDS = [f"01KCGJHVYH6MQJ4PYQPHPWT6X{digit}" for digit in "0123456"]

WEAVE: dict[str, Any] = {
    "nodes": [
        {
            "id": IDS[0], "parent": None, "children": [IDS[2], IDS[1]], "active": False, "bookmarked": False,
            "text": "The ferry was late", "metadata": {}, "model": None,
        },
        {
            "id": IDS[1], "parent": IDS[0], "children": [IDS[3], IDS[4]], "active": False, "bookmarked": True,
            "tokens": [
                {"text": ", a", "metadata": {"probability": "0.5", "token_id": "261"}},
                {"text": "s \udcc3", "metadata": {"probability": "0.25"}},
            ],
            "metadata": {"temperature": "1", "finish_reason": "length"},
            "model": {"label": "Trinity Mini 26B", "metadata": {"color": "#ff9b5aff"}},
        },
        {
            "id": IDS[2], "parent": IDS[0], "children": [], "active": False, "bookmarked": False,
            "text": ".", "metadata": {"note": "x"}, "model": None,
        },
        {
            "id": IDS[3], "parent": IDS[1], "children": [], "active": True, "bookmarked": True,
            "tokens": [{"text": "\udca9", "metadata": {"probability": "1"}}],
            "metadata": {}, "model": {"label": "base", "metadata": {}},
        },
        {
            "id": IDS[4], "parent": IDS[1], "children": [], "active": False, "bookmarked": False,
            "text": "", "metadata": {}, "model": None,
        },
    ],
    "roots": [IDS[0]],
    "active": IDS[3],
    "bookmarks": [IDS[3], IDS[1]],
    "metadata": {
        "title": "The crossing", "notes": "Begun on the boat.", "created": "2025-12-15T00:37:36-08:00",
        "converted_from": "PyLoom",
    },
}  # fmt: skip
"""A weave in which a character begins in one node and ends in the next."""


def encode(weave: dict[str, Any], version: int = 0) -> bytes:
    """The file of a weave."""
    out = _Writer()
    nodes = [out.node(node) for node in weave["nodes"]]
    table = out.table(nodes, weave["nodes"])
    roots, bookmarks = out.id_set(weave["roots"]), out.id_set(weave["bookmarks"])
    way = out.vector([id_bytes(one) for one in _way(weave)], 16)
    metadata = out.text_map(weave["metadata"])
    out.align(16)
    at = len(out.data)
    fields = [
        (0, out.at_table(at, table, len(nodes))),
        (12, out.at_index(at + 12, roots, len(weave["roots"]))),
        (32, _optional_id(weave["active"])),
        (64, out.at_index(at + 64, bookmarks, len(weave["bookmarks"]))),
        (80, out.at_vector(at + 80, way, len(_way(weave)))),
        (88, out.at_index(at + 88, metadata, len(weave["metadata"]))),
    ]
    out.data += _laid_out(fields, 112)
    return SIGNATURE + struct.pack("<Q", version) + bytes(out.data)


class _Writer:
    """Lays things out one after the other; methods return where they are."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, data: bytes, align: int = 1) -> int:
        self.align(align)
        at = len(self.data)
        self.data += data
        return at

    def vector(self, items: list[bytes], align: int) -> int:
        return self.put(b"".join(items), align)

    def id_set(self, ids: list[str]) -> tuple[int, int]:
        """Controls of the table, which only looking things up needs, and the entries."""
        return self.put(b"\xff" * 16), self.vector([id_bytes(one) for one in ids], 16)

    def text_map(self, fields: dict[str, str]) -> tuple[int, int]:
        texts = [text for pair in fields.items() for text in pair]
        long = {text: self.put(text.encode()) for text in texts if len(text.encode()) > 8}
        controls = self.put(b"\xff" * 16)
        self.align(4)
        at = len(self.data)
        for index, text in enumerate(texts):
            self.data += self.text(at + 8 * index, text, long.get(text, 0))
        return controls, at

    def text(self, at: int, text: str, where: int) -> bytes:
        raw = text.encode()
        if len(raw) <= 8:
            return raw.ljust(8, b"\xff")
        return struct.pack("<Ii", len(raw) & 0x3F | 0x80 | (len(raw) & ~0x3F) << 2, where - at)

    def at_index(self, at: int, where: tuple[int, int], count: int) -> bytes:
        controls, entries = where
        return struct.pack("<iIIi", controls - at, count, 2 * count, entries - at - 12)

    def at_vector(self, at: int, where: int, count: int) -> bytes:
        return struct.pack("<iI", where - at, count)

    def at_table(self, at: int, controls: int, count: int) -> bytes:
        return struct.pack("<iII", controls - at, count, 2 * count)

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        """What a node points to, laid out; the node itself stands in the table."""
        tokens = node.get("tokens")
        laid: dict[str, Any] = {"children": self.id_set(node["children"])}
        laid["metadata"] = self.text_map(node["metadata"])
        if node["model"]:
            label = node["model"]["label"]
            laid["label"] = self.put(label.encode())
            laid["model"] = self.text_map(node["model"]["metadata"])
        if tokens is None:
            laid["content"] = self.put(_bytes(node["text"]))
        else:
            raws = [self.put(_bytes(token["text"])) for token in tokens]
            abouts = [self.text_map(token["metadata"]) for token in tokens]
            self.align(4)
            laid["content"] = at = len(self.data)
            for index, (token, raw, about) in enumerate(zip(tokens, raws, abouts, strict=True)):
                here = at + 24 * index
                self.data += self.at_vector(here, raw, len(_bytes(token["text"])))
                self.data += self.at_index(here + 8, about, len(token["metadata"]))
        return laid

    def table(self, laid: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> int:
        """Buckets from the last to the first, every second empty, and then their control bytes."""
        self.align(16)
        for index in reversed(range(2 * len(nodes))):
            at = len(self.data)
            if index % 2:
                self.data += bytes(144)
            else:
                node = nodes[index // 2]
                self.data += id_bytes(node["id"]) + self.image(at + 16, node, laid[index // 2])
        return self.put(b"\x01\xff" * len(nodes) + b"\xff" * 16)

    def image(self, at: int, node: dict[str, Any], laid: dict[str, Any]) -> bytes:
        tokens = node.get("tokens")
        count = len(_bytes(node["text"])) if tokens is None else len(tokens)
        fields = [
            (0, id_bytes(node["id"])),
            (16, _optional_id(node["parent"])),
            (48, self.at_index(at + 48, laid["children"], len(node["children"]))),
            (64, bytes([node["active"], node["bookmarked"]])),
            (68, bytes([tokens is not None])),
            (72, self.at_vector(at + 72, laid["content"], count)),
            (80, self.at_index(at + 80, laid["metadata"], len(node["metadata"]))),
        ]
        if node["model"]:
            fields += [
                (96, b"\x01"),
                (100, self.text(at + 100, node["model"]["label"], laid["label"])),
                (108, self.at_index(at + 108, laid["model"], len(node["model"]["metadata"]))),
            ]
        return _laid_out(fields, 128)


def _laid_out(fields: list[tuple[int, bytes]], size: int) -> bytes:
    image = bytearray(size)
    for at, data in fields:
        image[at : at + len(data)] = data
    return bytes(image)


def _bytes(text: str) -> bytes:
    """Text of a node or a token; half a character is written as Python's surrogate escapes."""
    return text.encode("utf-8", "surrogateescape")


def id_bytes(text: str) -> bytes:
    """A ULID as a weave holds it: its number, in 16 bytes."""
    number = 0
    for digit in text:
        number = number << 5 | _DIGITS.index(digit)
    return number.to_bytes(16, "little")


def _optional_id(text: str | None) -> bytes:
    return bytes(32) if text is None else b"\x01" + bytes(15) + id_bytes(text)


def _way(weave: dict[str, Any]) -> list[str]:
    """From the active node to its root, as a weave holds it beside the nodes."""
    by_id = {node["id"]: node for node in weave["nodes"]}
    way: list[str] = []
    here = weave["active"]
    while here in by_id and here not in way:
        way.append(here)
        here = by_id[here]["parent"]
    return way


_MODEL = "01JWW00000000000000000MDL1"

PLUGIN: dict[str, Any] = {
    "identifier": "01JWW0000000000000000000ID",
    "models": {_MODEL: {"label": "base-8b", "color": "#ff9b5a"}, "unused": {"label": "other"}},
    "modelNodes": {_MODEL: ["B", "C"]},
    "nodes": {
        "A": {"identifier": "A", "content": "Once (upon"},
        "B": {
            "identifier": "B", "content": [[0.5, " a"], [0.25, ' "time"']], "model": _MODEL,
            "parentNode": "A", "parameters": {"temperature": "1"},
        },
        "C": {"identifier": "C", "content": " a </b>", "model": _MODEL, "parentNode": "A"},
    },
    "rootNodes": ["A"],
    "nodeChildren": {"A": ["C", "B"], "B": [], "C": []},
    "currentNode": "B",
    "bookmarks": ["C"],
}  # fmt: skip
"""The document of the plugin; its maps are objects here, and its sets lists."""


def note(document: dict[str, Any], text: str = 'Once (upon a "time"', *, compressed: bool = False) -> bytes:
    """A note of the plugin: the document as an expression in the front matter, and the text of the path."""
    script = _script(document)
    front = f"TapestryLoomWeave: {json.dumps(script)}"
    if compressed:
        packed = base64.b64encode(zlib.compress(script.encode())).decode()
        front = f"TapestryLoomWeaveCompressed: {packed}"
    return f"---\ntags: loom\n{front}\n---\n{text}".encode()


def _script(document: dict[str, Any]) -> str:
    fields: list[str] = []
    for key, value in document.items():
        if key in ("models", "nodes"):
            made = f"new Map({json.dumps([*value.items()])})"
        elif key in ("modelNodes", "nodeChildren"):
            pairs = [f"[{json.dumps(one)},new Set({json.dumps(ids)})]" for one, ids in value.items()]
            made = f"new Map([{','.join(pairs)}])"
        elif key in ("rootNodes", "bookmarks"):
            made = f"new Set({json.dumps(value)})"
        else:
            made = "undefined" if value is None else json.dumps(value)
        fields.append(f"{json.dumps(key)}:{made}")
    return "{" + ",".join(fields).replace("</", "\\u003C\\u002F") + "}"
