"""The lab's errors: one line each, and every text ends in the remedy."""

from __future__ import annotations

__all__ = [
    "BundleError",
    "ConfigError",
    "JarError",
    "JavaError",
    "KafkaError",
    "LabError",
    "ParameterError",
    "PathError",
    "S3Error",
    "ServiceError",
    "SessionError",
    "StreamError",
    "TableError",
    "WaitError",
]


class LabError(Exception):
    """What went wrong, where, and what to do about it, in one line."""

    def _render_traceback_(self) -> list[str]:
        # IPython shows these lines instead of a stack trace: the text already says what to do.
        return [f"{type(self).__name__}: {self}"]


class ConfigError(LabError):
    """A settings file or an environment variable cannot be used."""


class PathError(LabError):
    """A location cannot be used: unknown scheme, not there, not writable."""


class S3Error(LabError):
    """The warehouse on S3 cannot be used: not reached, not let in, not there, not writable."""


class JavaError(LabError):
    """No Java that Spark and Hudi run on."""


class JarError(LabError):
    """A jar is missing, altered, or cannot be fetched."""


class BundleError(LabError):
    """A bundle to deploy cannot be built, or a deployment cannot be described."""


class TableError(LabError):
    """A table's options contradict the spec, or the table that is already there."""


class SessionError(LabError):
    """No Spark session can be opened with these settings."""


class ServiceError(LabError):
    """A server of the lab cannot be started, or does not answer."""


class KafkaError(LabError):
    """A broker, a topic or what it takes to be let in: missing, wrong or refused."""


class StreamError(LabError):
    """A stream would break the promise of exactly-once, or has failed."""


class ParameterError(LabError):
    """A notebook parameter is unknown, ill-typed or out of range."""


class WaitError(LabError):
    """What was waited for has not come in time."""
