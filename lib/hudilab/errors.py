"""Errors of the lab: each message is one line and ends with the remedy."""

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
    """A location cannot be used: unknown scheme, missing or not writable."""


class S3Error(LabError):
    """The S3 warehouse cannot be used: unreachable, access denied, missing or not writable."""


class JavaError(LabError):
    """No Java that can run Spark and Hudi."""


class JarError(LabError):
    """A jar is missing, altered, or cannot be fetched."""


class BundleError(LabError):
    """A bundle to deploy cannot be built, or a deployment cannot be described."""


class TableError(LabError):
    """A table's options contradict the spec or the existing table."""


class SessionError(LabError):
    """No Spark session can be opened with these settings."""


class ServiceError(LabError):
    """A server of the lab cannot be started or does not respond."""


class KafkaError(LabError):
    """A Kafka broker, topic or credential is missing, wrong or refused."""


class StreamError(LabError):
    """A stream has failed, or would break the promise of exactly-once."""


class ParameterError(LabError):
    """A notebook parameter is unknown, has the wrong type or is out of range."""


class WaitError(LabError):
    """A wait timed out."""
