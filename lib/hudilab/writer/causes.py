"""Find the root cause in the text of a Java or Python error."""

from __future__ import annotations

import re
from itertools import takewhile

__all__ = ["root_cause"]

_THROWN = re.compile(
    r"(?:\s*Caused by: |: )?"
    r"((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Interrupt)(?::.*)?|\[[A-Z][A-Z0-9_.]+\] .*)"
)
# These carry a cause across the bridge between Java and Python, and say nothing themselves.
_CARRIER = re.compile(
    r"py4j\.|java\.util\.concurrent\.ExecutionException|[\w.]*PythonException"
    r"|.*Traceback \(most recent call last\):"
)


def root_cause(text: str) -> str:
    """Return the deepest cause in a Java or Python error's text: `Type: message` in one line.

    If its message says nothing (`None.get`), the error around it follows.
    """
    lines = [line.rstrip() for line in text.partition("=== Streaming Query ===")[0].splitlines()]
    thrown = []
    for number, line in enumerate(lines):
        if match := _THROWN.fullmatch(line):
            rest = takewhile(_goes_on, lines[number + 1 :]) if line.endswith(":") else ()
            thrown.append(" ".join((match[1], *rest)))
    real = [cause for cause in thrown if not _CARRIER.match(cause)]
    texts = [line.strip() for line in lines if line.strip()]
    if "Traceback (" not in text:
        texts = texts[:1]
    cause = _one_line((real or thrown or texts or ["no message"])[-1])
    above = [_one_line(other) for other in real if _one_line(other) != cause]
    silent = " " not in cause.partition(": ")[2]
    return f"{cause}, in {above[-1]}" if silent and above else cause


def _one_line(text: str) -> str:
    return text.replace("\t", " ").rstrip(" :;")


def _goes_on(line: str) -> bool:
    """Return whether a message ending in a colon continues here: no stack frame, no next error."""
    return line[:1].strip() != "" and not _THROWN.fullmatch(line)
