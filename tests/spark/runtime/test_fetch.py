"""Fetching with the real Ivy and a real Java, from a repository on loopback."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hudilab.errors import JarError
from hudilab.runtime.java.fetch import fetch
from hudilab.runtime.java.find import find_java
from hudilab.runtime.java.jars import verify

ROOT = Path(__file__).resolve().parents[3]
PLAIN, CLASSIFIED = "org.demo:plain:1.0", "org.demo:plain:1.0:tests"
DATA = {"plain-1.0.jar": b"plain", "plain-1.0-tests.jar": b"with a classifier"}


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing on the console."""


class Lab:
    """A `jars/` folder whose repository is served from `repository`."""

    def __init__(self, folder: Path) -> None:
        self.jars, self.cache, self.said = folder / "jars", folder / "cache", list[str]()
        self.repository = folder / "repository"
        module = self.repository / "org" / "demo" / "plain" / "1.0"
        module.mkdir(parents=True)
        for name, data in DATA.items():
            (module / name).write_bytes(data)
        self.jars.mkdir()
        hashes_ = [hashlib.sha256(data).hexdigest() for data in DATA.values()]
        self.lock(dict(zip((PLAIN, CLASSIFIED), hashes_, strict=True)))

    def lock(self, entries: dict[str, str]) -> None:
        lines = [f'"{coordinate}" = "{sha256}"\n' for coordinate, sha256 in entries.items()]
        (self.jars / "jars.lock").write_text("[demo]\n" + "".join(lines))

    def root(self, root: str) -> None:
        text = (ROOT / "jars" / "ivysettings.xml").read_text()
        assert text.count("<ibiblio ") == 1
        text = text.replace("<ibiblio ", f'<ibiblio root="{root}" ')
        (self.jars / "ivysettings.xml").write_text(text)

    def fetch(self, home: Path | None = None) -> list[Path]:
        home = home or find_java().home
        return fetch(self.jars, ["demo"], home, cache=self.cache, say=self.said.append)

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.jars / "demo").iterdir())


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    with serving(lab.repository) as port:
        lab.root(f"http://127.0.0.1:{port}/")
        yield lab


class serving:
    """The port of a server on loopback that serves the folder; with TLS when given a context."""

    def __init__(self, folder: Path, tls: ssl.SSLContext | None = None) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)

    def __enter__(self) -> int:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server.server_address[1]

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_fetched_verified_and_said(lab: Lab) -> None:
    paths = lab.fetch()
    assert [path.read_bytes() for path in paths] == list(DATA.values())
    assert paths == verify(lab.jars, ["demo"])
    assert lab.said[:2] == [f"demo: {name}, 0.0 MB" for name in DATA]
    assert lab.said[2].startswith("demo: 2 fetched and verified, 0.0 MB in ")
    assert lab.files() == sorted(DATA)
    assert not list(lab.cache.rglob("*.jar"))


def test_an_altered_jar_is_fetched_again_and_only_that(lab: Lab) -> None:
    lab.fetch()
    (lab.jars / "demo" / "plain-1.0.jar").write_bytes(b"PLAIN")
    lab.said.clear()
    lab.fetch()
    assert [line.split(",")[0] for line in lab.said] == [
        "demo: plain-1.0.jar",
        "demo: 1 fetched and verified",
    ]
    assert (lab.jars / "demo" / "plain-1.0.jar").read_bytes() == b"plain"


def test_another_file_than_the_lock_s_is_refused_and_not_kept(lab: Lab) -> None:
    expected, got = "0" * 64, hashlib.sha256(b"plain").hexdigest()
    lab.lock({PLAIN: expected})
    for _ in range(2):  # the second time it must not come out of the cache
        with pytest.raises(JarError) as caught:
            lab.fetch()
        assert str(caught.value) == (
            f"rejected {PLAIN} of group demo: sha256 is {got}, jars.lock expects {expected}; "
            "the server sent a different file: check the mirror or the proxy"
        )
        assert lab.files() == []
        assert not list(lab.cache.rglob("*.jar"))


def test_not_in_the_repository(lab: Lab) -> None:
    lab.lock({PLAIN: hashlib.sha256(b"plain").hexdigest(), "org.demo:gone:2": "0" * 64})
    with pytest.raises(JarError) as caught:
        lab.fetch()
    assert str(caught.value) == (
        f"cannot fetch org.demo:gone:2 of group demo: not in the repository (log: "
        f"{lab.cache}/ivy.log); check network and proxy, or copy gone-2.jar into "
        f"{lab.jars}/demo by hand"
    )
    assert "gone" in (lab.cache / "ivy.log").read_text()
    assert lab.files() == []


def test_no_network(lab: Lab) -> None:
    lab.root("http://127.0.0.1:9/")
    with pytest.raises(JarError) as caught:
        lab.fetch()
    text = str(caught.value)
    assert text.startswith(f"cannot fetch {PLAIN}, {CLASSIFIED} of group demo: ")
    assert "ConnectException: Connection refused" in text
    assert text.endswith(f"or copy plain-1.0.jar into {lab.jars}/demo by hand")
    assert "\n" not in text


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of our own for 127.0.0.1 that no public store knows, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "inspecting proxy")])
    now, address = datetime.datetime.now(datetime.UTC), ipaddress.ip_address("127.0.0.1")
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(address)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "ca.pem", folder / "key.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, private


def test_java_trusts_what_python_is_told_to_trust(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    home = find_java({"PATH": ""}).home  # the wheel's Java, whose store is its own
    with serving(lab.repository, context) as port:
        lab.root(f"https://127.0.0.1:{port}/")
        with pytest.raises(JarError, match="PKIX path"):
            lab.fetch(home)
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        assert [path.read_bytes() for path in lab.fetch(home)] == list(DATA.values())
