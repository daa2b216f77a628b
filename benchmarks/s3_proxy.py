"""A proxy before an S3 server that delays requests, counts them, and can fail some of them."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
_HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class Request(NamedTuple):
    """What a request does (GET, HEAD, LIST, PUT, COPY or DELETE), and its key or prefix."""

    method: str
    key: str


class S3Proxy(ThreadingHTTPServer):
    """Passes requests on after `delay` seconds; the Host header stays, because it is signed.

    A share `throttled` of the requests is answered with 503 SlowDown instead. Of a share `cut` the
    connection ends, of every second one only after the server has done what was asked.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: str, bucket: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.bucket = str(urlsplit(upstream).netloc), bucket
        self.delay = self.throttled = self.cut = 0.0
        self.requests: list[Request] = []
        self.slowed = self.ended = 0
        self._random, self._lock = random.Random(42), threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer in one packet
    server: S3Proxy

    def setup(self) -> None:
        super().setup()
        self.upstream = HTTPConnection(self.server.upstream)

    def handle(self) -> None:
        with suppress(OSError):  # a client that has ended
            super().handle()

    def finish(self) -> None:
        self.upstream.close()
        with suppress(OSError):
            super().finish()

    def handle_expect_100(self) -> bool:
        go_on = super().handle_expect_100()
        self.wfile.flush()  # or the client waits for a second before it sends the body
        return go_on

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(self._request(body))
        time.sleep(self.server.delay)
        fault = self.server.fault()
        if fault == "slow":
            self._answer(503, "Slow Down", [("Content-Type", "application/xml")], SLOW_DOWN)
        elif fault != "before":
            answer, content = self._ask(body)
            if not fault:
                self._answer(answer.status, answer.reason, answer.getheaders(), content)
        self.close_connection = self.close_connection or fault in ("before", "after")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay

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

    def _ask(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        """The server's answer; asked once more when it has closed an idle connection."""
        for last in (False, True):
            try:
                return self._ask_once(body)
            except (HTTPException, OSError):
                self.upstream.close()
                if last:
                    raise
        raise AssertionError

    def _ask_once(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        upstream = self.upstream
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "expect":  # answered here, before the body came
                upstream.putheader(name, value)
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        return answer, answer.read()

    def _answer(
        self, status: int, reason: str, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self.send_response_only(status, reason)
        size: str | None = str(len(body))
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
            elif self.command == "HEAD" and name.lower() == "content-length":
                size = value
        if status != 204:
            self.send_header("Content-Length", size or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the server counts."""


@contextmanager
def running_proxy(upstream: str, bucket: str) -> Iterator[S3Proxy]:
    """A proxy before `upstream` (http://host:port) for the time of a `with` block."""
    with S3Proxy(upstream, bucket) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
