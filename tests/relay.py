"""A loopback server that passes requests on to an S3 server as they are."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import urlsplit

_HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class RelayServer(ThreadingHTTPServer):
    """Listens on a free port; the Host header is signed, so it stays the client's."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: str, handler: type[Relay]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.upstream = str(urlsplit(upstream).netloc)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Relay(BaseHTTPRequestHandler):
    """Handles each request in `relay`, with `ask` and `answer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer in one packet
    server: RelayServer

    def setup(self) -> None:
        super().setup()
        self.upstream = HTTPConnection(self.server.upstream)

    def handle(self) -> None:
        with suppress(OSError):  # a client that was killed
            super().handle()

    def finish(self) -> None:
        self.upstream.close()
        with suppress(OSError):
            super().finish()

    def handle_expect_100(self) -> bool:
        go_on = super().handle_expect_100()
        self.wfile.flush()  # or the client waits for a second before it sends the body
        return go_on

    def _handle(self) -> None:
        # The tables behind a relay are small: a body is read whole.
        self.relay(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def relay(self, body: bytes) -> None:
        """Do what the request asks for."""
        raise NotImplementedError

    def ask(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        """Return the server's answer; ask once more if it has closed an idle connection."""
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

    def pass_back(self, answer: HTTPResponse, body: bytes) -> None:
        """Send the server's answer to the client."""
        self.answer(answer.status, answer.reason, answer.getheaders(), body)

    def answer(
        self, status: int, reason: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> None:
        self.send_response_only(status, reason)
        size = None if self.command == "HEAD" else str(len(body))
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
            elif self.command == "HEAD" and name.lower() == "content-length":
                size = value
        if size is not None and status != 204:
            self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the servers keep their own records."""


S = TypeVar("S", bound=RelayServer)


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Serve for the time of a `with` block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
