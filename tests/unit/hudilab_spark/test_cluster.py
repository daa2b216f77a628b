"""A master's address and web UI: slow ones, and those of a cluster that has ended."""

from __future__ import annotations

import json
import os
import socket
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest
from refusals import refused

from hudilab.errors import ServiceError
from hudilab_spark import cluster
from hudilab_spark.cluster import CONF, Master, ask, authentication, find_master, own_master
from hudilab_spark.server_records import record_file, seconds_after_boot, server_folder

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
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT", 0.3)
    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        try:
            assert ask(Master(URL, f"http://127.0.0.1:{port}")) == {"url": URL}
        finally:
            server.shutdown()
    with refused(ServiceError, URL, "refused", remedy="set SPARK_MASTER_WEBUI_PORT to its port"):
        ask(Master(URL, f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize("conf_stayed", [True, False])
def test_another_master_at_the_port_of_a_cluster_that_was_killed_is_not_the_labs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conf_stayed: bool
) -> None:
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", "18080")
    me = psutil.Process()
    conf = server_folder(tmp_path, "cluster") / CONF
    conf.mkdir(parents=True)
    if conf_stayed:
        (conf / "spark-defaults.conf").write_text("spark.authenticate.secret=s\n")
    with socket.create_server(("127.0.0.1", 0)) as master:
        url = f"spark://127.0.0.1:{master.getsockname()[1]}"
        own = {"address": url, "ui": "http://127.0.0.1:4", "created": seconds_after_boot(me)}
        record_file(tmp_path, "cluster").write_text(json.dumps(own | {"pid": os.getpid()}))
        assert find_master(url, tmp_path).ui == "http://127.0.0.1:4"
        assert own_master(tmp_path) == url
        assert authentication(url, tmp_path) == (
            {"spark.authenticate.secret": "s"} if conf_stayed else {}
        )
        # Its process has ended, or its id is another process's by now.
        for ended in ({"pid": 99_999_999}, {"pid": os.getpid(), "created": 1.0}):
            record_file(tmp_path, "cluster").write_text(json.dumps(own | ended))
            assert find_master(url, tmp_path).ui == "http://127.0.0.1:18080"
            assert authentication(url, tmp_path) == {}
            with refused(
                ServiceError,
                f"no cluster of {tmp_path} is running",
                remedy="with: hudilab services start cluster",
            ):
                own_master(tmp_path)
