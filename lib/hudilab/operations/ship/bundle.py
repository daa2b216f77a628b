"""Pack what spark-submit needs elsewhere into one zip: jar, package, dependencies, settings.

The same input gives the same bytes. The jar needs no Java build tool: merging jars only means
reading and writing zip files.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import get_args
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from packaging.requirements import Requirement

import hudilab
from hudilab.errors import BundleError
from hudilab.jobs import JOBS
from hudilab.runtime.groups import RUN_GROUP
from hudilab.runtime.java.jars import verify, wanted
from hudilab.runtime.reader import read_options
from hudilab.runtime.settings import Runtime, Settings, load_settings, run_options

__all__ = ["JAR", "build_bundle", "merge_jars"]

JAR = "lib/hudilab-dependencies.jar"
JAVA = 17
GROUPS = ("core", "kafka", "msk")
# The local-disk file system that conf/local sets; no cluster writes to a local disk.
NOT_DEPLOYED = "com.globalmentor:hadoop-bare-naked-local-fs"
# What the jobs import and a Spark platform may lack. Not included: pyspark, which must be the
# platform's own, and pandas, which only notebooks use.
NEEDS = ("pydantic", "typer", "tqdm", "confluent-kafka", "boto3")

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
_SERVICES = "META-INF/services/"
_MANIFEST = "META-INF/MANIFEST.MF"
_SIGNATURE = re.compile(r"META-INF/([^/]+\.(SF|RSA|DSA|EC)|INDEX\.LIST)")
_VERSION = re.compile(r"META-INF/versions/(\d+)/")
_LICENSE = re.compile(r"(META-INF/)?(LICENSE|NOTICE|DEPENDENCIES|THIRD-PARTY)(\.\w+)?")
# Nine tenths of botocore describe services that no job calls.
_OTHER_SERVICES = re.compile(r"botocore/data/(?!(s3|sts|sso|sso-oidc|signin)/)[^/]+/")
_REDACTED = "spark.redaction.regex"
_SETTINGS = (
    "application_properties.json",
    "spark-defaults.conf",
    "hudi-defaults.conf",
    "log4j2.properties",
)


def build_bundle(settings: Settings, out: Path | None = None) -> str:
    """Write the zip to `out`, by default `dist/hudilab-bundle.zip` in the project.

    If it fails, an older zip stays as it is.

    Returns:
        One line: path, number of files, size in bytes, SHA-256.

    Raises:
        BundleError: the bundle cannot be built or written.
        JarError: a jar is missing or altered.
        ConfigError: the settings of a runtime are invalid.
    """
    out = (out or settings.project / "dist" / "hudilab-bundle.zip").absolute()
    runtimes = _load_runtimes(settings)
    parts = _settings_files(settings) | _package()
    versions, files = _site_packages(NEEDS)
    parts |= {f"package/site-packages/{name}": data for name, data in files.items()}
    jars = wanted(settings.project / "jars", GROUPS)
    paths = dict(zip(jars, verify(settings.project / "jars", GROUPS), strict=True))
    jars = [jar for jar in jars if not jar.coordinate.startswith(NOT_DEPLOYED)]
    parts[JAR] = merge_jars([paths[jar] for jar in jars])
    for one in runtimes:
        _check_run(one, parts)
    manifest = {
        "name": "hudilab",
        "version": version("hudilab"),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "platform": sysconfig.get_platform(),
        "java": str(JAVA),
        "spark": version("pyspark"),
        "packages": versions,
        "jars": {jar.coordinate: jar.sha256 for jar in jars},
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(parts.items())},
    }
    parts["MANIFEST.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
    whole = _zip(parts)
    _write(out, whole)
    sha256 = hashlib.sha256(whole).hexdigest()
    return f"hudilab: bundle={out} files={len(parts)} bytes={len(whole)} sha256={sha256}"


def _package() -> dict[str, bytes]:
    """Return what a job runs: the package without the folder that runs the lab."""
    package = Path(hudilab.__file__).parent
    files = [file for file in package.rglob("*.py") if package / "operations" not in file.parents]
    parts = {
        f"package/hudilab/{file.relative_to(package).as_posix()}": file.read_bytes()
        for file in sorted([*files, package / "py.typed"])
    }
    return parts | {"main.py": (package / "jobs" / "main.py").read_bytes()}


def _write(out: Path, whole: bytes) -> None:
    """Replace the zip in one step, so that a failure leaves the older one."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        half = out.with_name(f".{out.name}.{os.getpid()}")
        half.write_bytes(whole)
        half.replace(out)
    except OSError as error:
        raise BundleError(f"cannot write {out} ({error.strerror}); choose another --out") from None


def merge_jars(jars: Sequence[Path]) -> bytes:
    """Merge several jars into one: one version of each class, service files joined in jar order.

    Left out: signatures, which would not match the merged jar; module-info; indexes; multi-release
    classes for Java later than 17, or in a jar that is not marked as multi-release. Licences are
    kept, in one folder per jar.

    Raises:
        BundleError: two jars have a file of the same name with different bytes (the class path
            order would decide which one wins), or a class needs a Java later than 17.
    """
    merged = _Merged()
    with ExitStack() as stack:
        for jar in jars:
            merged.add(jar, stack.enter_context(ZipFile(jar)))
        return merged.write()


@dataclass
class _Merged:
    """Files by their name in the merged jar: jar, hash and place of each; lines of services."""

    first: dict[str, tuple[Path, bytes]] = field(default_factory=dict)
    where: dict[str, tuple[ZipFile, ZipInfo]] = field(default_factory=dict)
    services: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, jar: Path, archive: ZipFile) -> None:
        """Add a jar's files; `archive` stays open until `write` has read them."""
        switched_on = _multi_release(archive)
        for entry in archive.infolist():
            name = entry.filename
            if entry.is_dir() or _left_out(name, switched_on):
                continue
            data = archive.read(entry)
            if name.startswith(_SERVICES):
                lines = (line.partition("#")[0].strip() for line in data.decode().splitlines())
                self.services.setdefault(name, {}).update(dict.fromkeys(filter(None, lines)))
                continue
            if _LICENSE.fullmatch(name):
                name = f"META-INF/licenses/{jar.stem}/{name}"
            _check_class(jar, name, data)
            digest = hashlib.sha256(data).digest()
            first, known = self.first.setdefault(name, (jar, digest))
            if known != digest:
                raise BundleError(
                    f"{name} is in {first.name} and, with different contents, in {jar.name}; "
                    "remove one of the two jars from the groups in jars/jars.lock"
                )
            self.where.setdefault(name, (archive, entry))

    def write(self) -> bytes:
        """Return the merged jar."""
        merged = io.BytesIO()
        with ZipFile(merged, "w") as target:
            head = "Manifest-Version: 1.0\r\nCreated-By: hudilab\r\n"
            head += "Multi-Release: true\r\n" if any(map(_VERSION.match, self.where)) else ""
            _add(target, _MANIFEST, f"{head}\r\n".encode())
            for name in sorted([*self.where, *self.services]):
                if name in self.services:
                    lines = self.services[name]
                    _add(target, name, "".join(f"{line}\n" for line in lines).encode())
                else:
                    archive, entry = self.where[name]
                    _add(target, name, archive.read(entry))
        return merged.getvalue()


def _multi_release(archive: ZipFile) -> bool:
    try:
        text = archive.read(_MANIFEST).decode()
    except KeyError:
        return False
    return bool(re.search(r"(?mi)^Multi-Release: *true\s*$", text))


def _left_out(name: str, switched_on: bool) -> bool:
    if name == _MANIFEST or name.rpartition("/")[2] == "module-info.class":
        return True
    number = _VERSION.match(name)
    late = bool(number) and (not switched_on or int(number[1]) > JAVA)  # type: ignore[index]
    return late or bool(_SIGNATURE.fullmatch(name))


def _check_class(jar: Path, name: str, data: bytes) -> None:
    java = int.from_bytes(data[6:8], "big") - 44 if name.endswith(".class") else 0
    if java > JAVA:
        raise BundleError(
            f"{name} in {jar.name} requires Java {java}, but the platform has {JAVA}; use an older "
            "version of the jar in jars/jars.lock"
        )


def _site_packages(names: Sequence[str]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return versions and files of the named packages and their dependencies, as installed here.

    Raises BundleError if a package is missing, or a file differs from its wheel's hash.
    """
    found: dict[str, Distribution] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        try:
            one = distribution(name)
        except PackageNotFoundError:
            raise BundleError(f"package {name} is not installed; run: make setup") from None
        if one.metadata["Name"].lower() in found:
            continue
        found[one.metadata["Name"].lower()] = one
        wanted = [Requirement(text) for text in one.requires or []]
        pending += [r.name for r in wanted if not r.marker or r.marker.evaluate({"extra": ""})]
    files: dict[str, bytes] = {}
    for name, one in found.items():
        for file in one.files or []:
            path = file.as_posix()
            # Skip what differs between machines: bin/ scripts, caches, pip's notes on its own run.
            noted = re.search(r"\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json)$", path)
            if path.startswith("../") or noted or file.hash is None:
                continue
            if _OTHER_SERVICES.match(path):
                continue
            data = Path(str(file.locate())).read_bytes()
            digest = hashlib.new(file.hash.mode, data).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != file.hash.value:
                raise BundleError(f"{path} of package {name} was altered; run: make clean setup")
            files[path] = data
    return {name: one.version for name, one in sorted(found.items())}, files


def _settings_files(settings: Settings) -> dict[str, bytes]:
    """Return conf/ without LOCAL's settings, which are for one machine's disk and cores.

    Raises BundleError for a file that the lab does not read, or one that holds a secret.
    """
    conf, files = settings.conf_dir, {}
    for file in sorted(path for path in conf.rglob("*") if path.is_file()):
        name = file.relative_to(conf)
        # Skip hidden files: they belong to an editor or the system.
        if name.parts[0] == "local" or any(part.startswith(".") for part in name.parts):
            continue
        folder = "" if len(name.parts) == 1 else str(name.parent)
        if name.name not in _SETTINGS or folder not in ("", "docker", "aws"):
            raise BundleError(
                f"{file} is not one of the settings files of a bundle ({', '.join(_SETTINGS)} in "
                f"conf, conf/docker and conf/aws); move it out of {conf}"
            )
        for key in _secrets(file, conf / "spark-defaults.conf"):
            raise BundleError(
                f"{file} sets {key}, but a bundle must not contain secrets; "
                "remove it: credentials come from the platform's role"
            )
        files[f"conf/{name.as_posix()}"] = file.read_bytes()
    return files


def _secrets(file: Path, defaults: Path) -> Iterator[str]:
    """Yield the keys that Spark would redact: its own setting decides what is a secret."""
    regex = read_options(defaults).get(_REDACTED) if defaults.is_file() else None
    if not regex:
        raise BundleError(
            f"{defaults} does not set {_REDACTED}, which defines what is a secret; add it"
        )
    try:
        secret = re.compile(regex)
    except re.error as error:
        raise BundleError(
            f"{defaults}: {_REDACTED} is not a valid regular expression ({error}); fix it"
        ) from None
    pairs: Iterable[tuple[str, str]] = read_options(file).items() if file.suffix != ".json" else ()
    if file.suffix == ".json":  # load_settings has already validated it
        groups = json.loads(file.read_text("utf-8-sig"))
        pairs = [(key, "") for one in groups for key in one["PropertyMap"]]
    for key, value in pairs:
        if "redaction" not in key and secret.search(f"{key} {value}"):
            yield key


def _load_runtimes(settings: Settings) -> list[Settings]:
    """Load every runtime's settings, so that errors show up here and not on the platform."""
    home = {"HUDILAB_CONF": str(settings.conf_dir), "HUDILAB_HOME": str(settings.home)}
    return [load_settings(runtime, home) for runtime in get_args(Runtime)]


def _check_run(one: Settings, parts: Mapping[str, bytes]) -> None:
    run = run_options(one)
    known = {"python": ("main.py",), "jarfile": (JAR,), "job": JOBS}
    named = {"python": run.python, "jarfile": run.jarfile, "job": run.job}
    problems = [
        f"{one.origin(RUN_GROUP, key)}: group {RUN_GROUP!r}: key {key!r} names {value!r}, "
        f"which is not in the bundle (available: {', '.join(known[key])})"
        for key, value in named.items()
        if value not in (JOBS if key == "job" else parts)
    ]
    if problems:
        raise BundleError(f"{'; '.join(problems)}; fix the settings")


def _zip(parts: Mapping[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with ZipFile(whole, "w") as archive:
        for name, data in sorted(parts.items()):
            _add(archive, name, data)
    return whole.getvalue()


def _add(archive: ZipFile, name: str, data: bytes) -> None:
    """Add an entry with fixed time, mode and system, so that nothing differs between two runs."""
    entry = ZipInfo(name, _TIME)
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    archive.writestr(entry, data, ZIP_STORED if name.endswith(".jar") else ZIP_DEFLATED, 6)
