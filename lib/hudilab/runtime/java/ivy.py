"""Download jars by coordinate with pyspark's bundled Ivy: no Maven, no transitive dependencies."""

from __future__ import annotations

import errno
import re
import ssl
import subprocess
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from tqdm import tqdm

__all__ = ["Failure", "resolve"]


class Failure(NamedTuple):
    """Coordinates that could not be downloaded, and the first cause, as Java reports it."""

    missing: list[str]
    reason: str


def resolve(
    coordinates: Sequence[str], into: Path, *, settings: Path, java_home: Path, cache: Path
) -> Failure | None:
    """Download each `org:name:version[:classifier]` to `into/name-version[-classifier].jar`.

    All are downloaded, or none. Ivy logs to `cache/ivy.log`. Downloads are not verified here.

    Returns:
        None, or the failure.
    """
    description = into / "ivy.xml"
    description.write_text(_description(coordinates), encoding="utf-8")
    log = cache / "ivy.log"
    java = [str(java_home / "bin" / "java"), "-Xmx256m", *_proxy()]
    ivy = [
        *("-jar", str(_ivy_jar()), "-ivy", str(description), "-settings", str(settings)),
        *("-cache", str(cache), "-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    if _run([*java, *ivy], cache, log):
        return None
    # Behind a TLS-inspecting proxy, often only Python is set up to trust the proxy's certificate.
    untrusted = "PKIX path" in log.read_text(errors="replace")
    if untrusted and _run([*java, *_trust(into), *ivy], cache, log):
        return None
    return _failure(coordinates, log.read_text(errors="replace"))


def _description(coordinates: Sequence[str]) -> str:
    # One dependency per module: of two with the same name, Ivy would keep only one's artifacts.
    artifacts: dict[tuple[str, ...], str] = {}
    for coordinate in coordinates:
        org, name, version, *classifier = coordinate.split(":")
        wanted = f' m:classifier="{classifier[0]}"' if classifier else ""
        artifact = f'<artifact name="{name}" type="jar" ext="jar"{wanted}/>'
        module = (org, name, version)
        artifacts[module] = artifacts.get(module, "") + artifact
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" transitive="false">'
        f"{these}</dependency>"
        for (org, name, version), these in artifacts.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="hudilab" module="jars"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")  # find it without importing it, which would take half a second
    if spec is None or spec.origin is None:
        raise FileNotFoundError(errno.ENOENT, "not installed in this Python", "pyspark")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


def _proxy() -> list[str]:
    """Return proxy options for Java, which ignores the proxy variables that pip follows."""
    proxies, options = getproxies(), []
    for scheme in ("http", "https"):
        url = urlsplit(proxies.get(scheme, ""))
        if url.hostname:
            options += [f"-D{scheme}.proxyHost={url.hostname}"]
            options += [f"-D{scheme}.proxyPort={url.port or 80}"]
    if options and proxies.get("no"):
        hosts = [host.strip() for host in proxies["no"].split(",")]
        bypass = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts if host)
        options.append(f"-Dhttp.nonProxyHosts={bypass}")
    return options


def _trust(folder: Path) -> list[str]:
    """Write a trust store of the CAs that this Python trusts, SSL_CERT_FILE included."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    entries = []
    for number, der in enumerate(ssl.create_default_context().get_ca_certs(binary_form=True)):
        try:
            with warnings.catch_warnings(action="ignore"):
                certificate = x509.load_der_x509_certificate(der)
        except ValueError:  # stricter than OpenSSL: skip the odd certificate, keep the others
            continue
        entries.append(pkcs12.PKCS12Certificate(certificate, f"ca{number}".encode()))
    if not entries:
        return []
    store, password = folder / "trust.p12", "public-certificates"
    encryption = BestAvailableEncryption(password.encode())
    store.write_bytes(pkcs12.serialize_java_truststore(entries, encryption))
    option = "-Djavax.net.ssl.trustStore"
    return [f"{option}={store}", f"{option}Type=PKCS12", f"{option}Password={password}"]


def _run(command: list[str], cache: Path, log: Path) -> bool:
    """Run Ivy; on a terminal, show a progress bar of the bytes received."""
    bar = tqdm(desc="jars", unit="B", unit_scale=True, leave=False, disable=None)
    with log.open("w") as out, bar:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            while True:
                try:
                    return process.wait(timeout=0.2) == 0
                except subprocess.TimeoutExpired:
                    bar.update(_bytes(cache) - bar.n)
        finally:
            process.kill()


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*jar*") if path.is_file())


def _failure(coordinates: Sequence[str], text: str) -> Failure:
    missing = []
    for coordinate in coordinates:
        org, name, version = coordinate.split(":")[:3]
        if re.search(rf"^\s*:: {re.escape(f'{org}#{name};{version}')}[:!]", text, re.MULTILINE):
            missing.append(coordinate)
    why = re.search(r"Server access error at url \S+ \((.+?)\)?\s*$", text, re.MULTILINE)
    return Failure(missing or list(coordinates), why[1] if why else "not in the repository")
