"""A server that answers as Confluent's schema registry does."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hudilab_jobs.kafka.registry import LOGIN

PATH = "/api/schemas/ids/"


@contextmanager
def running_registry(answers: Mapping[int, Any], login: str = "lab:secret") -> Iterator[str]:
    """Give the URL of a registry with these answers, by the schema's id."""
    expected = f"Basic {b64encode(login.encode()).decode()}"

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = 404, {"error_code": 40403, "message": "Schema not found"}
            if not self.path.startswith(PATH):
                status, answer = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
            elif self.headers["Authorization"] != expected:
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            elif (number := int(self.path.removeprefix(PATH))) in answers:
                status, answer = 200, answers[number]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def registry_of(schemas: Mapping[int, Any]) -> Iterator[str]:
    """Give the URL of a registry with these schemas, whose login the environment has."""
    answers = {number: {"schema": json.dumps(schema)} for number, schema in schemas.items()}
    with pytest.MonkeyPatch.context() as patch, running_registry(answers) as url:
        patch.setenv(LOGIN, "lab:secret")
        yield url
