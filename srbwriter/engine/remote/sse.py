"""Server-sent events out of a stream of bytes, wherever it is cut (the HTML standard, section 9.2.6)."""

from __future__ import annotations

_OTHERS = (b":", b"event:", b"id:", b"retry:")
_MOST = 16 << 20  # bytes of one event: more than any answer has


class EventReader:
    """Gives the data of each event that is complete. Comments, names and numbers are passed over."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in ``chunk``.

        Raises ValueError for a line that is none of an event's, and for an event beyond all bounds.
        """
        text = self._rest + chunk
        if b"\r" in text:
            held = text.endswith(b"\r")  # its line feed may come yet
            lines = text[: len(text) - held].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            text = lines + b"\r" * held
        events: list[bytes] = []
        start = 0
        while (end := text.find(b"\n", start)) >= 0:
            line = text[start:end]
            start = end + 1
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(_OTHERS):
                line.decode()  # where the end of such a line is spoilt, data may stand in it
            else:
                raise ValueError("a line of no event")  # to pass it over might be to lose a token
        self._rest = text[start:]
        if len(self._rest) > _MOST or len(self._data) > _MOST:
            raise ValueError("an event without an end")
        return events

    @property
    def whole(self) -> bool:
        """Whether nothing is left of an event that has begun."""
        return not self._rest and not self._data
