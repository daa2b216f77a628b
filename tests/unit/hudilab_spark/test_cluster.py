"""A master's web UI that takes long to answer is not one that does not answer."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from refusals import refused

from hudilab.errors import ServiceError
from hudilab_spark import cluster
from hudilab_spark.cluster import Master, ask

URL = "spark://127.0.0.1:7077"


class Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.6)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"url": URL}).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_the_first_answer_may_take_longer_than_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        try:
            assert ask(Master(URL, f"http://127.0.0.1:{port}")) == {"url": URL}
        finally:
            server.shutdown()
    with refused(ServiceError, URL, "refused", remedy="set SPARK_MASTER_WEBUI_PORT to its port"):
        ask(Master(URL, f"http://127.0.0.1:{port}"))
