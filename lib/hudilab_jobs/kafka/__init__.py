"""Reach a Kafka broker from Spark and Python, look at its topics, send messages.

May import the ground, the writer and the runtime's settings.
Start reading at `connection.access`. Each name below is loaded when it is first used: only topics
and senders need the Python client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudilab_jobs.kafka.connection import Access, access, present
    from hudilab_jobs.kafka.sender import Sender, Sent, produce
    from hudilab_jobs.kafka.topics import (
        TopicIdentity,
        check_topics,
        create_topics,
        last_messages,
        topic_rows,
    )

__all__ = [
    "Access",
    "Sender",
    "Sent",
    "TopicIdentity",
    "access",
    "check_topics",
    "create_topics",
    "last_messages",
    "present",
    "produce",
    "topic_rows",
]

_MODULES = {
    "connection": ("Access", "access", "present"),
    "sender": ("Sender", "Sent", "produce"),
    "topics": ("TopicIdentity", "check_topics", "create_topics", "last_messages", "topic_rows"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
