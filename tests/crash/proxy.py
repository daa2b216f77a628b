"""A loopback proxy before the lab's S3 server: it sees each request that changes an object first.

Requests that change something pass one at a time, so between two of them nothing changes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple
from urllib.parse import unquote

from relay import Relay, RelayServer, serving

_CHANGES = ("PUT", "POST", "DELETE")


class Change(NamedTuple):
    """A request that changes objects: put, copy, post or delete, and the keys that it names."""

    verb: str
    keys: tuple[str, ...]


class Proxy(RelayServer):
    """Shows each change to `before` and `after`, and lets nothing else change meanwhile.

    `before` may block, then the request is never passed on; `after` may block, then its answer is
    never given.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream, _Handler)
        self.before: Callable[[Change], None] = lambda change: None
        self.after: Callable[[Change], None] = lambda change: None
        self.one_at_a_time = threading.Lock()
        self.requests = self.changes = 0
        self.epoch = 0

    def cut(self) -> None:
        """Drop what clients of now have asked for and is not passed on, or not answered, yet."""
        self.epoch += 1


class _Handler(Relay):
    server: Proxy

    def setup(self) -> None:
        super().setup()
        self.epoch = self.server.epoch

    def relay(self, body: bytes) -> None:
        self.server.requests += 1
        if self.command not in _CHANGES:
            self.pass_back(*self.ask(body))
            return
        change = self._change(body)
        self.server.changes += 1
        with self.server.one_at_a_time:
            self.server.before(change)
            if self._is_cut():
                return
            answer, content = self.ask(body)
            self.server.after(change)
        if not self._is_cut():
            self.pass_back(answer, content)

    def _is_cut(self) -> bool:
        self.close_connection = self.close_connection or self.epoch != self.server.epoch
        return self.epoch != self.server.epoch

    def _change(self, body: bytes) -> Change:
        path, _, query = self.path.partition("?")
        key = unquote(path).lstrip("/").partition("/")[2]
        if self.command == "POST" and query.startswith("delete"):
            matches = re.findall(rb"<Key>([^<]*)</Key>", body)
            return Change("delete", tuple(match.decode() for match in matches))
        copies = self.command == "PUT" and "x-amz-copy-source" in self.headers
        return Change("copy" if copies else self.command.lower(), (key,))


def running_proxy(upstream: str) -> AbstractContextManager[Proxy]:
    """A proxy before `upstream` (http://host:port) for the time of a `with` block."""
    return serving(Proxy(upstream))
