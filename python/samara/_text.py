"""Text of files of others in messages: without control characters, and of a bounded length."""

from __future__ import annotations

import re

#: Maximum number of characters that a message quotes in one place.
QUOTE_MAX = 200
#: Maximum number of characters of a message.
_MESSAGE_MAX = 2_000


#: Characters that change what a terminal shows, ends of lines, and halves of characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def control(text: str) -> str | None:
    """Returns the number of the first control character of a name, such as `U+001B`."""
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def printable(text: str) -> str:
    """Replaces control characters by their numbers, as in JSON."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def quoted(value: object) -> str:
    """Returns the beginning of a value of a file for a message."""
    try:
        text = str(value)
    except ValueError:
        return "a number of thousands of digits"
    return printable(text[:QUOTE_MAX]) + ("…" if len(text) > QUOTE_MAX else "")


def message(text: str) -> str:
    """Returns a message whose words may be those of a file: on one line, and of a bounded length.

    Words that are longer than a quote are cut.
    """
    words = (quoted(word) for word in text[: 10 * _MESSAGE_MAX].split(" "))
    line = " ".join(words)
    return line if len(line) <= _MESSAGE_MAX else f"{line[:_MESSAGE_MAX]}…"
