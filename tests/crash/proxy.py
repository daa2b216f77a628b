"""A loopback proxy before the lab's S3 server: it sees each request that changes an object first.

Requests that change something pass one at a time, so between two of them nothing changes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_CHANGES = ("PUT", "POST", "DELETE")
_HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class Change(NamedTuple):
    """A request that changes objects: put, copy, post or delete, and the keys that it names."""

    verb: str
    keys: tuple[str, ...]


class Proxy(ThreadingHTTPServer):
    """Passes requests on as they are: the Host header is signed, so it stays the proxy's own.

    `before` and `after` see each change, and nothing else changes meanwhile; `before` may block,
    then the request is never passed on; `after` may block, then its answer is never given.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = str(urlsplit(upstream).netloc)
        self.before: Callable[[Change], None] = lambda change: None
        self.after: Callable[[Change], None] = lambda change: None
        self.one_at_a_time = threading.Lock()
        self.requests = self.changes = 0
        self.epoch = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def cut(self) -> None:
        """Drop what clients of now have asked for and is not passed on, or not answered, yet."""
        self.epoch += 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer in one packet
    server: Proxy

    def setup(self) -> None:
        super().setup()
        self.upstream = HTTPConnection(self.server.upstream)
        self.epoch = self.server.epoch

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def handle_expect_100(self) -> bool:
        go_on = super().handle_expect_100()
        self.wfile.flush()  # or the client waits for a second before it sends the body
        return go_on

    def _relay(self) -> None:
        self.server.requests += 1
        # The tables of these tests are small: a body is read whole.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command not in _CHANGES:
            self._answer(*self._ask(body))
            return
        change = self._change(body)
        self.server.changes += 1
        with self.server.one_at_a_time:
            self.server.before(change)
            if self._is_cut():
                return
            answer, content = self._ask(body)
            self.server.after(change)
        if not self._is_cut():
            self._answer(answer, content)

    def _is_cut(self) -> bool:
        self.close_connection = self.close_connection or self.epoch != self.server.epoch
        return self.epoch != self.server.epoch

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay

    def _change(self, body: bytes) -> Change:
        path, _, query = self.path.partition("?")
        key = unquote(path).lstrip("/").partition("/")[2]
        if self.command == "POST" and query.startswith("delete"):
            matches = re.findall(rb"<Key>([^<]*)</Key>", body)
            return Change("delete", tuple(match.decode() for match in matches))
        copies = self.command == "PUT" and "x-amz-copy-source" in self.headers
        return Change("copy" if copies else self.command.lower(), (key,))

    def _ask(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        """The server's answer; asked once more when it has closed an idle connection."""
        for last in (False, True):
            try:
                self.upstream.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    if name.lower() != "expect":  # answered here, before the body came
                        self.upstream.putheader(name, value)
                self.upstream.endheaders(body or None)
                answer = self.upstream.getresponse()
                return answer, answer.read()
            except (HTTPException, OSError):
                self.upstream.close()
                if last:
                    raise
        raise AssertionError

    def _answer(self, answer: HTTPResponse, body: bytes) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else len(body)
        if size is not None and answer.status != 204:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def handle(self) -> None:
        with suppress(OSError):  # a client that was killed
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are told by who records them."""


@contextmanager
def running_proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy before `upstream` (http://host:port) for the time of a `with` block."""
    with Proxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
