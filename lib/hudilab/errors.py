"""Errors of the lab, lines that end with the remedy, and the root causes of other errors."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

# Not with a path, because the text of an error may be part of another error's.
_COMMAND = re.compile(
    r"(?<![\w/-])hudilab (?=(?:apps|bundle|doctor|inspect|jars|kill|lab|load|progress|quarantine"
    r"|rewind|run|savepoint|services|sql|stream|submit|tidy|topics)\b)"
)
_THROWN = re.compile(
    r"(?:\s*Caused by: |: )?"
    r"((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Interrupt)(?::.*)?|\[[A-Z][A-Z0-9_.]+\] .*)"
)
# These wrap a cause at the bridge between Java and Python.
_CARRIER = re.compile(
    r"py4j\.|java\.util\.concurrent\.ExecutionException|[\w.]*PythonException"
    r"|.*Traceback \(most recent call last\):"
)

_OWN = re.compile(rf"^{re.escape(__name__)}\.\w+: ")


def as_typed(text: str) -> str:
    """Return a text with the lab's commands for this shell.

    The command is `hudilab` if the shell finds it, else its path in the virtual environment.
    """
    tool = Path(sys.prefix, "bin", "hudilab")
    # Path.is_file raises an error in a folder without access.
    if shutil.which("hudilab") or not os.path.isfile(tool):  # noqa: PTH113
        return text
    with suppress(OSError, ValueError):
        tool = tool.relative_to(Path.cwd())
    return _COMMAND.sub(lambda _: f"{shlex.quote(str(tool))} ", text)


class LabError(Exception):
    """An error with the failure and its location (`problem`), and the solution (`remedy`).

    The text of the error is a line with both. If an error lists several problems, `problem`
    contains each with its remedy, and `remedy` is empty.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Return the line, with the lab's commands for this shell."""
        return as_typed("; ".join(filter(None, (self.problem, self.remedy))))

    def _render_traceback_(self) -> list[str]:
        # IPython shows these lines instead of a stack trace, because they contain the remedy.
        return [f"{type(self).__name__}: {self}"]


class ConfigError(LabError):
    """A settings file or an environment variable cannot be used."""


class PathError(LabError):
    """A location cannot be used: unknown scheme, missing or not writable."""


class S3Error(LabError):
    """The S3 warehouse cannot be used: unreachable, access denied, missing or not writable."""


class JavaError(LabError):
    """No Java can run Spark and Hudi."""


class JarError(LabError):
    """A jar is missing, altered, or cannot be fetched."""


class BundleError(LabError):
    """A bundle to deploy cannot be built or used."""


class TableError(LabError):
    """A table's options contradict the spec or the existing table."""


class SessionError(LabError):
    """No Spark session can be opened with these settings."""


class ServiceError(LabError):
    """A server of the lab cannot be started or does not respond."""


class KafkaError(LabError):
    """A Kafka broker, topic or credential is missing, wrong or refused."""


class StreamError(LabError):
    """A stream has failed, or would violate exactly-once."""


class ParameterError(LabError):
    """A notebook parameter is unknown, has the wrong type or is out of range."""


class WaitError(LabError):
    """A wait timed out."""


def is_full(text: str) -> bool:
    """Return whether an error's text reports a full disk or an exhausted quota."""
    return "No space left on device" in text or "Disk quota exceeded" in text


def root_cause(text: str) -> str:
    """Return the deepest cause in a Java or Python error's text as a line `Type: message`.

    If its message explains nothing (`None.get`), the outer error follows.
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
    # The lab's own errors contain a remedy, so their class is omitted.
    return _OWN.sub("", text).replace("\t", " ").rstrip(" :;")


def _goes_on(line: str) -> bool:
    """Return whether a line continues a message with a trailing colon, as no stack frame does."""
    return line[:1].strip() != "" and not _THROWN.fullmatch(line)


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


class _Lines(logging.Handler):
    """Prints each message as a line of the lab on the current stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"hudilab: {record.getMessage()}", file=sys.stderr)


def show_log() -> None:
    """Print the log messages of the sink and the jobs, in a command or a lesson."""
    for logger in map(logging.getLogger, ("hudi_sink", "hudilab_jobs")):
        if not any(isinstance(handler, _Lines) for handler in logger.handlers):
            logger.addHandler(_Lines())
            logger.setLevel(logging.INFO)
