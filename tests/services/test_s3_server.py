"""The S3 server as a service, and what the preflight of a warehouse says when it is not usable."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from hudilab.errors import JarError, S3Error, ServiceError
from hudilab.settings import Settings
from hudilab_cli.doctor import run_checks
from hudilab_cli.servers import process
from hudilab_cli.servers.s3 import S3Server, start_s3, stop_s3
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java
from hudilab_spark.s3 import check_warehouse, spark_settings, storage_options
from hudilab_spark.session import open_session
from hudilab_spark.warehouse import prepare

WAREHOUSE = "s3a://hudilab/warehouse"
PATIENCE = 15  # seconds, for every refusal
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture
def used(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server of all tests, as the environment's."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture
def remote(settings: Settings, used: S3Server) -> Settings:
    return replace(settings, is_local=False, warehouse_path="s3://hudilab/warehouse")


def keys(server: S3Server) -> tuple[str, str]:
    parser = ConfigParser()
    parser.read(server.credentials)
    section = parser["hudilab"]
    return section["aws_access_key_id"], section["aws_secret_access_key"]


def client(server: S3Server) -> Any:
    access, secret = keys(server)
    return boto3.Session().client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


# --- the service


def test_only_its_user_may_read_the_keys_and_no_other_key_gets_in(alone: Settings) -> None:
    server = start_s3(alone)
    folder = server.credentials.parent
    secret = keys(server)[1]
    for file in folder.iterdir():
        if file.is_file() and secret in file.read_text(encoding="utf-8"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert secret not in " ".join(psutil.Process(server.pid).cmdline())
    assert secret not in repr(server) + server.describe() + repr(server.env())
    stranger = boto3.Session().client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys(server)[0],
        aws_secret_access_key="another",
    )
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        stranger.list_buckets()


def test_its_own_server_leads_clients_away_from_other_keys(s3: S3Server) -> None:
    env = dict.fromkeys(KEYS, "another's") | {"PATH": "kept"}
    s3.use(env)
    assert env == {"PATH": "kept"} | s3.env()


def test_a_file_without_keys_is_named(alone: Settings) -> None:
    folder = alone.home / "services" / "s3"
    folder.mkdir(parents=True)
    file = folder / "credentials"
    file.write_text("[default]\n")
    with pytest.raises(ServiceError) as caught:
        start_s3(alone)
    assert str(caught.value) == (
        f"{file} does not contain the keys of profile hudilab; delete it, and the next start "
        "creates new ones"
    )


def test_a_folder_that_cannot_be_made_is_named(alone: Settings) -> None:
    data = alone.home / "services" / "s3" / "data"
    data.parent.mkdir(parents=True)
    data.write_text("a file")
    with pytest.raises(ServiceError) as caught:
        start_s3(alone)
    assert str(caught.value) == (
        f"cannot use {data} for the objects of S3 (File exists); "
        "set HUDILAB_HOME to a writable folder"
    )


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
    listed = client(used).list_objects_v2(Bucket="hudilab", Prefix="warehouse/_")
    assert listed["KeyCount"] == 0


def test_what_spark_and_the_second_engine_are_told(remote: Settings, used: S3Server) -> None:
    names = ("endpoint.region", "endpoint", "path.style.access", "connection.ssl.enabled")
    values = ("us-east-1", used.endpoint, "true", "false")
    settings_of_s3a = {
        f"spark.hadoop.fs.s3a.{name}": value for name, value in zip(names, values, strict=True)
    }
    assert spark_settings(remote) == settings_of_s3a
    access, secret = keys(used)
    assert storage_options(remote) == {
        "aws_access_key_id": access,
        "aws_secret_access_key": secret,
        "aws_region": "us-east-1",
        "aws_endpoint_url": used.endpoint,
        "aws_allow_http": "true",
    }


def test_the_jars_are_missing(remote: Settings, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    shutil.copytree(remote.project / "jars" / "core", jars / "core")
    shutil.copy(remote.project / "jars" / "jars.lock", jars)
    with pytest.raises(JarError) as caught:
        open_session(replace(remote, project=tmp_path))
    assert str(caught.value) == (
        f"missing jar {jars}/s3/hadoop-aws-3.3.4.jar of group s3; run: hudilab jars s3"
    )


def test_the_bucket_is_missing(remote: Settings, used: S3Server) -> None:
    assert refusal(remote, "s3a://nobodys/warehouse") == (
        f"bucket 'nobodys' at {used.endpoint}: the bucket does not exist; create it, or fix "
        "warehouse.path"
    )


def test_nobody_listens(remote: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{process.free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    text = (
        f"bucket 'hudilab' at {url}: the server does not answer (EndpointConnectionError); start "
        "it (on this machine: hudilab services start s3), or fix AWS_ENDPOINT_URL_S3"
    )
    assert refusal(remote) == text
    with pytest.raises(S3Error, match=re.escape(text)):
        prepare(remote)


def test_it_listens_and_never_answers(remote: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert ": the server does not answer (ReadTimeoutError); start it " in refusal(remote)


def test_https_where_http_is_spoken(
    remote: Settings, used: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = used.endpoint.replace("http://", "https://")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    assert refusal(remote) == (
        f"bucket 'hudilab' at {url}: the server does not use TLS; write http:// instead of "
        "https:// in AWS_ENDPOINT_URL_S3"
    )


def test_an_endpoint_that_is_none(remote: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "user:secret@127.0.0.1:9000")
    assert refusal(remote) == (
        "AWS_ENDPOINT_URL_S3 is not http(s)://host[:port]; fix it, or unset it to use Amazon S3"
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
    access, secret = keys(used)
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


def test_a_server_that_is_read_only(
    alone: Settings, remote: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_s3(alone)
    stop_s3(alone)
    conf = alone.home / "services" / "s3" / "s3proxy.conf"
    with conf.open("a") as lines:
        lines.write("s3proxy.read-only-blobstore=true\n")
    jars = os.pathsep.join(map(str, verify(alone.project / "jars", ["s3proxy"])))
    java = str(find_java().home / "bin" / "java")
    logging = f"-Dlogback.configurationFile={conf.with_name('logback.xml')}"
    port = int(re.findall(r"endpoint=\S+:(\d+)", conf.read_text())[0])
    server = subprocess.Popen(
        [java, "-cp", jars, logging, "org.gaul.s3proxy.Main", "--properties", str(conf)]
    )
    try:
        ends = time.monotonic() + 30
        while not process.in_use(port) and time.monotonic() < ends:
            time.sleep(0.05)
        credentials = str(conf.with_name("credentials"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", credentials)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        assert refusal(remote) == (
            f"bucket 'hudilab' at http://127.0.0.1:{port}: the server refused to write "
            "(NotImplemented); grant s3:PutObject, or use another warehouse.path"
        )
    finally:
        server.kill()
        server.wait()


LISTED = "<ListBucketResult><Name>hudilab</Name><KeyCount>0</KeyCount></ListBucketResult>"
Answer = tuple[int, str, dict[str, str]]


def as_documented(code: str, more: str = "") -> str:
    return f"<Error><Code>{code}</Code><Message>secret text</Message>{more}</Error>"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, remote: Settings) -> Iterator[Callable[..., str]]:
    """A server that answers as Amazon documents it, where S3Proxy has no such answer."""
    answers_by_name: dict[str, Answer] = {}

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body, headers = answers_by_name.get(self.command, (200, "", {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
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

    def refused(**by_method: Answer) -> str:
        answers_by_name.update(by_method)
        text = refusal(remote)
        assert text.startswith(f"bucket 'hudilab' at {url}: ")
        assert "secret text" not in text
        return text.partition(f"{url}: ")[2]

    yield refused
    server.shutdown()
    server.server_close()


ELSEWHERE = (
    "the bucket is in eu-west-1, but aws.region is us-east-1; fix aws.region in "
    "application_properties.json"
)
IN_EUROPE = {"x-amz-bucket-region": "eu-west-1"}
REFUSALS: dict[str, tuple[dict[str, Answer], str]] = {
    "redirected": (
        {"GET": (301, as_documented("PermanentRedirect"), IN_EUROPE), "HEAD": (301, "", IN_EUROPE)},
        ELSEWHERE,
    ),
    "signed for another region": (
        {
            "GET": (
                400,
                as_documented("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
                {},
            ),
            "HEAD": (400, "", {}),
        },
        ELSEWHERE,
    ),
    "followed to its region": ({"GET": (200, LISTED, IN_EUROPE)}, ELSEWHERE),
    "may not list": (
        {"GET": (403, as_documented("AccessDenied"), {})},
        "the key is not allowed to list (AccessDenied); grant it s3:ListBucket",
    ),
    "may not write": (
        {"GET": (200, LISTED, {}), "PUT": (403, as_documented("AccessDenied"), {})},
        "the key is not allowed to write (AccessDenied); grant it s3:PutObject",
    ),
    "may not delete": (
        {"GET": (200, LISTED, {}), "DELETE": (403, as_documented("AccessDenied"), {})},
        "the key is not allowed to delete (AccessDenied); grant it s3:DeleteObject",
    ),
    "token": (
        {"GET": (400, as_documented("ExpiredToken"), {})},
        "the session token is invalid or has expired (ExpiredToken); sign in again",
    ),
    "no S3 at all": (
        {"GET": (200, "Welcome!", {"content-type": "text/html"})},
        "the server failed to list (500); try again, or fix AWS_ENDPOINT_URL_S3 if it is not S3",
    ),
    "a page that is not there": (
        {"GET": (404, "<html>Not found</html>", {"content-type": "text/html"})},
        "the server failed to list (404); try again, or fix AWS_ENDPOINT_URL_S3 if it is not S3",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_amazon_answers(answers: Callable[..., str], case: str) -> None:
    answer, text = REFUSALS[case]
    assert answers(**answer) == text


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
