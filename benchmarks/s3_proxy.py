"""A proxy before an S3 server that delays requests, counts them, and can fail some of them."""

from __future__ import annotations

import random
import re
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from relay import Relay, RelayServer, serving

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Request(NamedTuple):
    """What a request does (GET, HEAD, LIST, PUT, COPY or DELETE), and its key or prefix."""

    method: str
    key: str


class S3Proxy(RelayServer):
    """Passes requests on after `delay` seconds.

    A share `throttled` of the requests is answered with 503 SlowDown instead. Of a share `cut` the
    connection ends, of every second one only after the server has done what was asked.
    """

    def __init__(self, upstream: str, bucket: str) -> None:
        super().__init__(upstream, _Handler)
        self.bucket = bucket
        self.delay = self.throttled = self.cut = 0.0
        self.requests: list[Request] = []
        self.slowed = self.ended = 0
        self._random, self._lock = random.Random(42), threading.Lock()

    def fault(self) -> str:
        """How the next request fails: "slow", "before", "after", or "" if it does not."""
        with self._lock:
            drawn = self._random.random()
            if drawn < self.throttled:
                self.slowed += 1
                return "slow"
            if drawn < self.throttled + self.cut:
                self.ended += 1
                return ("before", "after")[self.ended % 2]
        return ""


class _Handler(Relay):
    server: S3Proxy

    def relay(self, body: bytes) -> None:
        self.server.requests.append(self._request(body))
        time.sleep(self.server.delay)
        fault = self.server.fault()
        if fault == "slow":
            self.answer(503, "Slow Down", [("Content-Type", "application/xml")], SLOW_DOWN)
        elif fault != "before":
            answer, content = self.ask(body)
            if not fault:
                self.pass_back(answer, content)
        self.close_connection = self.close_connection or fault in ("before", "after")

    def _request(self, body: bytes) -> Request:
        path, _, query = self.path.partition("?")
        method, key = self.command, unquote(path).partition(f"/{self.server.bucket}")[2][1:]
        if method == "POST" and query.startswith("delete"):
            # One request for many keys: it counts as that of the first.
            keys = re.findall(r"<Key>([^<]*)</Key>", body.decode())
            return Request("DELETE", keys[0] if keys else "")
        if method == "GET" and (prefix := re.search(r"\bprefix=([^&]*)", query)):
            return Request("LIST", unquote(prefix[1]))
        if "x-amz-copy-source" in self.headers:
            method = "COPY"
        return Request("PUT" if method == "POST" else method, key)


def running_proxy(upstream: str, bucket: str) -> AbstractContextManager[S3Proxy]:
    """A proxy before `upstream` (http://host:port) for the time of a `with` block."""
    return serving(S3Proxy(upstream, bucket))
