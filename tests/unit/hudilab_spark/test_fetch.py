"""Fetching from a Maven repository on loopback: what arrives, what is refused, what is said."""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme

from hudilab.errors import JarError
from hudilab_spark.fetch import fetch, repository
from hudilab_spark.jars import verify

PLAIN, CLASSIFIED = "org.demo:plain:1.0", "org.demo:plain:1.0:tests"
DATA = {"plain-1.0.jar": b"plain", "plain-1.0-tests.jar": b"with a classifier"}
SHA256 = {name: hashlib.sha256(data).hexdigest() for name, data in DATA.items()}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooch tries again at once; otherwise it waits one second more each time."""
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))


class Server(ThreadingHTTPServer):
    """Serves a folder, with TLS when given a context; `asked` are the paths asked for."""

    def __init__(self, folder: Path, tls: ssl.SSLContext | None = None) -> None:
        self.folder, self.requests = folder, list[str]()
        self.fault: Callable[[Handler], bool] = lambda handler: False
        super().__init__(("127.0.0.1", 0), Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' * bool(tls)}://127.0.0.1:{self.server_address[1]}/maven"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Say nothing on the console."""


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if not self.server.fault(self):
            super().do_GET()

    def translate_path(self, path: str) -> str:
        return str(self.server.folder / path.removeprefix("/maven/"))

    def log_message(self, *_: object) -> None:
        """Say nothing on the console."""


class Lab:
    """A `jars/` folder whose repository is the folder `repository`."""

    def __init__(self, folder: Path) -> None:
        self.jars, self.lines = folder / "jars", list[str]()
        self.repository = folder / "repository"
        module = self.repository / "org" / "demo" / "plain" / "1.0"
        module.mkdir(parents=True)
        for name, data in DATA.items():
            (module / name).write_bytes(data)
        self.jars.mkdir()
        self.lock(dict(zip((PLAIN, CLASSIFIED), SHA256.values(), strict=True)))

    def lock(self, entries: dict[str, str]) -> None:
        lines = [f'"{coordinate}" = "{sha256}"\n' for coordinate, sha256 in entries.items()]
        (self.jars / "jars.lock").write_text("[demo]\n" + "".join(lines))

    def fetch(self) -> list[Path]:
        return fetch(self.jars, ["demo"], say=self.lines.append)

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.jars / "demo").iterdir())


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Lab(tmp_path)


@pytest.fixture
def server(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(lab.repository) as server:
        monkeypatch.setenv("HUDILAB_JARS_URL", server.url)
        yield server


def by_hand(lab: Lab, file: str = "plain-1.0.jar") -> str:
    return (
        f"; check network, proxy and HUDILAB_JARS_URL, or copy {file} into {lab.jars}/demo by "
        "hand, then run: hudilab jars demo"
    )


def refused(lab: Lab) -> str:
    with pytest.raises(JarError) as caught:
        lab.fetch()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_fetched_verified_and_said(lab: Lab, server: Server) -> None:
    paths = lab.fetch()
    assert [path.read_bytes() for path in paths] == list(DATA.values())
    assert paths == verify(lab.jars, ["demo"])
    assert sorted(server.requests) == sorted(f"/maven/org/demo/plain/1.0/{name}" for name in DATA)
    assert lab.lines[:2] == [f"demo: {name}, 0.0 MB" for name in DATA]
    assert lab.lines[2].startswith("demo: 2 fetched and verified, 0.0 MB in ")
    assert lab.files() == sorted(DATA)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o644, 0o644]


def test_an_altered_jar_is_fetched_again_and_only_that(lab: Lab, server: Server) -> None:
    lab.fetch()
    (lab.jars / "demo" / "plain-1.0.jar").write_bytes(b"PLAIN")
    lab.lines.clear()
    lab.fetch()
    assert [line.split(",")[0] for line in lab.lines] == [
        "demo: plain-1.0.jar",
        "demo: 1 fetched and verified",
    ]
    assert (lab.jars / "demo" / "plain-1.0.jar").read_bytes() == b"plain"


def test_another_file_than_the_lock_s_is_refused_and_not_kept(lab: Lab, server: Server) -> None:
    lab.lock({PLAIN: "0" * 64})
    assert refused(lab) == (
        f"rejected {PLAIN} of group demo: sha256 is {SHA256['plain-1.0.jar']}, jars.lock expects "
        f"{'0' * 64}; the server sent a different file: check the mirror or the proxy"
    )
    assert lab.files() == []


def test_not_in_the_repository(lab: Lab, server: Server) -> None:
    """The jar that is there is kept; the one that is not is asked for once."""
    lab.lock({PLAIN: SHA256["plain-1.0.jar"], "org.demo:gone:2": "0" * 64})
    assert refused(lab) == (
        "cannot fetch org.demo:gone:2 of group demo from 127.0.0.1: not in the repository"
        + by_hand(lab, "gone-2.jar")
    )
    assert sorted(server.requests) == [
        "/maven/org/demo/gone/2/gone-2.jar",
        "/maven/org/demo/plain/1.0/plain-1.0.jar",
    ]
    assert lab.files() == ["plain-1.0.jar"]


def test_no_network(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDILAB_JARS_URL", "http://user:secret@127.0.0.1:9/maven/")
    assert refused(lab) == (
        f"cannot fetch {PLAIN} of group demo from 127.0.0.1: Connection refused" + by_hand(lab)
    )
    assert lab.files() == []


def cut(handler: Handler) -> bool:
    """Promise a whole jar, and close the connection after three bytes."""
    handler.send_response(HTTPStatus.OK)
    handler.send_header("Content-Length", "5")
    handler.end_headers()
    handler.wfile.write(b"pla")
    return True


def down(handler: Handler) -> bool:
    handler.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
    return True


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (down, "HTTP 503 Service Unavailable"),
        (cut, "IncompleteRead(3 bytes read, 2 more expected)"),
    ],
)
def test_a_repository_that_fails_each_time_is_asked_three_times(
    lab: Lab, server: Server, fault: Callable[[Handler], bool], reason: str
) -> None:
    server.fault = fault
    lab.lock({PLAIN: SHA256["plain-1.0.jar"]})
    failed = f"cannot fetch {PLAIN} of group demo from 127.0.0.1: {reason}"
    assert refused(lab) == failed + by_hand(lab)
    assert len(server.requests) == 3
    assert lab.files() == []


def test_a_cut_connection_is_tried_again(lab: Lab, server: Server) -> None:
    server.fault = lambda handler: len(server.requests) < 3 and cut(handler)
    lab.lock({PLAIN: SHA256["plain-1.0.jar"]})
    assert [path.read_bytes() for path in lab.fetch()] == [b"plain"]
    assert len(server.requests) == 3


def test_a_certificate_that_python_is_told_to_trust(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, pem = trustme.CA(), tmp_path / "ca.pem"
    proxy.cert_pem.write_to_path(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proxy.issue_cert("127.0.0.1").configure_cert(context)
    with Server(lab.repository, context) as server:
        monkeypatch.setenv("HUDILAB_JARS_URL", server.url)
        assert "certificate verify failed: unable to get local issuer" in refused(lab)
        assert lab.files() == []
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        assert [path.read_bytes() for path in lab.fetch()] == list(DATA.values())


def test_a_folder_is_a_repository_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.repository = lab.repository.rename(lab.repository.with_name("my jars"))
    monkeypatch.setenv("HUDILAB_JARS_URL", lab.repository.as_uri())
    assert [path.read_bytes() for path in lab.fetch()] == list(DATA.values())
    lab.lock({"org.demo:gone:2": "0" * 64})
    assert f" of group demo from {lab.repository.as_uri()}: not in" in refused(lab)


@pytest.mark.parametrize(
    "url",
    ["repo.example", "ftp://repo.example/m", "https://", "file://m", "http://a b/", "http:/a"],
)
def test_what_is_no_repository(lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDILAB_JARS_URL", url)
    assert refused(lab) == (
        f"HUDILAB_JARS_URL={url!r} is not the base URL of a Maven repository; set it to "
        "http(s)://HOST/PATH or file:///PATH, or unset it"
    )


@pytest.mark.parametrize("value", ["", " "])
def test_the_repository_is_spark_s_unless_it_is_set(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDILAB_JARS_URL", value)
    assert repository().startswith("https://")
    assert repository().endswith("/maven2")


def test_a_folder_that_takes_no_jars(lab: Lab, server: Server) -> None:
    (lab.jars / "demo").write_text("a file")
    assert refused(lab) == (
        f"cannot fetch group demo: File exists ({lab.jars}/demo); check that path and its "
        "permissions"
    )
