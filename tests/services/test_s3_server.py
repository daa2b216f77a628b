"""The S3 server as a service, and what the preflight of a warehouse says when it is not usable."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases
from refusals import refused
from services import objects

from hudilab.errors import S3Error, ServiceError
from hudilab.settings import Settings
from hudilab_cli.doctor import run_checks
from hudilab_cli.servers.s3 import S3Server, start_s3
from hudilab_spark.s3 import check_warehouse, storage_options
from hudilab_spark.warehouse import prepare

WAREHOUSE = "s3a://hudilab/warehouse"
PATIENCE = 15  # seconds, for every refusal
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture
def remote(settings: Settings, used: S3Server) -> Settings:
    return replace(settings, is_local=False, warehouse_path="s3://hudilab/warehouse")


# --- the service


def test_its_own_server_leads_clients_away_from_other_keys(s3: S3Server) -> None:
    env = dict.fromkeys(KEYS, "another's") | {"PATH": "kept"}
    s3.use(env)
    assert env == {"PATH": "kept"} | s3.env()


@pytest.mark.parametrize(
    ("name", "problem", "remedy"),
    [
        (
            "credentials",
            "{} does not contain the keys of profile hudilab",
            "; delete it, and the next start creates new ones",
        ),
        (
            "data",
            "cannot use {} for the objects of S3 (File exists)",
            "; set HUDILAB_HOME to a writable folder",
        ),
    ],
)
def test_a_file_that_it_cannot_use_is_named(
    alone: Settings, name: str, problem: str, remedy: str
) -> None:
    file = alone.home / "services" / "s3" / name
    file.parent.mkdir(parents=True)
    file.write_text("[default]\n")
    with refused(ServiceError, problem.format(file), remedy=remedy):
        start_s3(alone)


def test_a_profile_of_another_server_is_of_no_concern(
    alone: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "not there")
    assert start_s3(alone).pid


# --- the preflight


def refusal(settings: Settings, uri: str = WAREHOUSE) -> str:
    started = time.monotonic()
    with pytest.raises(S3Error) as caught:
        check_warehouse(uri, settings)
    assert time.monotonic() - started < PATIENCE
    text = str(caught.value)
    assert "; " in text
    assert "\n" not in text
    return text


def test_a_warehouse_that_can_be_used_leaves_nothing_behind(
    remote: Settings, used: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    location = prepare(remote, run_id="preflight")
    assert capsys.readouterr().out == f"s3:// rewritten to s3a://: {WAREHOUSE}\n"
    assert location.table == f"{WAREHOUSE}/run-preflight/lab/sensor_readings"
    listed = objects.client(used).list_objects_v2(Bucket="hudilab", Prefix="warehouse/_")
    assert listed["KeyCount"] == 0


def test_a_server_that_does_not_answer(
    remote: Settings, used: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
        assert ": the server does not answer (ReadTimeoutError); start it " in refusal(remote)
    text = (
        f"bucket 'hudilab' at {url}: the server does not answer (EndpointConnectionError); start "
        "it (on this machine: hudilab services start s3), or fix AWS_ENDPOINT_URL_S3"
    )
    assert refusal(remote) == text
    with pytest.raises(S3Error, match=re.escape(text)):
        prepare(remote)
    url = used.endpoint.replace("http://", "https://")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    assert refusal(remote) == (
        f"bucket 'hudilab' at {url}: the server does not use TLS; write http:// instead of "
        "https:// in AWS_ENDPOINT_URL_S3"
    )


def test_no_credentials(
    remote: Settings, used: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = str(tmp_path / "none")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, none)
    assert refusal(remote) == (
        f"bucket 'hudilab' at {used.endpoint}: no profile 'hudilab' in {none}; "
        "fix AWS_PROFILE or AWS_SHARED_CREDENTIALS_FILE"
    )
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert refusal(remote) == (
        f"bucket 'hudilab' at {used.endpoint}: credentials are missing or incomplete; set "
        "AWS_PROFILE and AWS_SHARED_CREDENTIALS_FILE, or AWS_ACCESS_KEY_ID and its secret"
    )
    with pytest.raises(S3Error, match=r"^no S3 credentials found; set AWS_PROFILE and "):
        storage_options(remote)


def test_keys_that_are_refused(
    remote: Settings, used: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, secret = objects.keys(used)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDNOBODY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    text = refusal(remote)
    assert text.startswith(f"bucket 'hudilab' at {used.endpoint}: the access key is unknown")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-this-one")
    wrong = refusal(remote)
    assert ": the secret key does not match the access key; fix AWS_PROFILE and " in wrong
    for file in (text, wrong):
        assert not any(word in file for word in (secret, access, "not-this-one", "AKIDNOBODY"))


CLOCK = """
import datetime, sys

class Ahead(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(hours=1)

    @classmethod
    def utcnow(cls):
        return super().utcnow() + datetime.timedelta(hours=1)

datetime.datetime = Ahead
from dataclasses import replace
from hudilab_jobs.settings import load_settings
from hudilab_spark.s3 import check_warehouse
check_warehouse(sys.argv[1], replace(load_settings(), is_local=False))
"""


@pytest.mark.usefixtures("used")
def test_a_clock_that_is_an_hour_ahead() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLOCK, WAREHOUSE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last_line = done.stderr.splitlines()[-1]
    match = re.fullmatch(
        r"hudilab\.errors\.S3Error: bucket 'hudilab' at \S+: this machine's clock is wrong, "
        r"(\d+) s ahead; set it, then try again",
        last_line,
    )
    assert match, done.stderr[-2000:]
    assert abs(int(match[1]) - 3600) < 60


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, remote: Settings) -> Iterator[Callable[..., str]]:
    """A server that answers as Amazon documents it, where S3Proxy has no such answer."""
    case: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            given = case.get(self.command, {})
            self.send_response(given.get("status", 200))
            for name, value in given.get("headers", {}).items():
                self.send_header(name, value)
            body = given.get("body", "")
            if "code" in given:
                code, more = f"<Code>{given['code']}</Code>", given.get("more", "")
                body = f"<Error>{code}<Message>secret text</Message>{more}</Error>"
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode() if self.command != "HEAD" else b"")

        do_GET = do_PUT = do_DELETE = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def told(given: dict[str, Any]) -> str:
        case.update(given)
        text = refusal(remote)
        assert text.startswith(f"bucket 'hudilab' at {url}: ")
        assert "secret text" not in text
        return text.partition(f"{url}: ")[2]

    yield told
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("case", read_cases(__file__), ids=lambda case: case["case"])
def test_what_amazon_answers(answers: Callable[..., str], case: dict[str, Any]) -> None:
    assert answers(case) == case["says"]


def test_the_doctor_says_the_same(
    remote: Settings, used: S3Server, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = conf / "application_properties.json"
    location = '"warehouse.path": "s3://nobodys/warehouse"'
    file.write_text(file.read_text().replace('"warehouse.path": "warehouse"', location))
    monkeypatch.setenv("HUDILAB_CONF", str(conf))
    monkeypatch.setenv("IS_LOCAL", "false")
    (check,) = [each for each in run_checks(with_spark=False) if each.name == "warehouse"]
    assert check.line() == (
        f"FAIL warehouse      bucket 'nobodys' at {used.endpoint}: the bucket does not exist; "
        "create it, or fix warehouse.path"
    )
    (jars,) = [each for each in run_checks(with_spark=False) if each.name == "jars"]
    assert "hadoop-aws-3.3.4.jar" in jars.result
