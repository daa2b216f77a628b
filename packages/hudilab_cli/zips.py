"""Write reproducible zips, and merge jars without a Java build tool."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from hudilab.errors import BundleError

JAVA = 17  # the newest version that a class may require
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
_SERVICES = "META-INF/services/"
_MANIFEST = "META-INF/MANIFEST.MF"
_SIGNATURE = re.compile(r"META-INF/([^/]+\.(SF|RSA|DSA|EC)|INDEX\.LIST)")
_VERSION = re.compile(r"META-INF/versions/(\d+)/")
_LICENSE = re.compile(r"(META-INF/)?(LICENSE|NOTICE|DEPENDENCIES|THIRD-PARTY)(\.\w+)?")


def merge_jars(jars: Sequence[Path]) -> bytes:
    """Merge jars into one, with one version of each class and service files in jar order.

    The merged jar omits signatures, which would be invalid, module-info, indexes, and multi-release
    classes for Java after 17 or in a jar without that mark. It keeps licences in a folder per jar.

    Raises:
        BundleError: two jars have different files of the same name, so the order of the class path
            would decide, or a class requires Java after 17.
    """
    merged = _Merged()
    with ExitStack() as stack:
        for jar in jars:
            merged.add(jar, stack.enter_context(ZipFile(jar)))
        return merged.write()


@dataclass
class _Merged:
    """The files of the merged jar by name, with jar, hash and position; and lines of services."""

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
                    f"{name} is in {first.name} and, with different contents, in {jar.name}",
                    "remove one of the two jars from the groups in jars/jars.lock",
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
            f"{name} in {jar.name} requires Java {java}, but the platform has {JAVA}",
            "use an older version of the jar in jars/jars.lock",
        )


def write_zip(parts: Mapping[str, bytes]) -> bytes:
    """Return a zip of files by name; the same files give the same bytes."""
    whole = io.BytesIO()
    with ZipFile(whole, "w") as archive:
        for name, data in sorted(parts.items()):
            _add(archive, name, data)
    return whole.getvalue()


def _add(archive: ZipFile, name: str, data: bytes) -> None:
    """Add an entry with a fixed time, mode and system."""
    entry = ZipInfo(name, _TIME)
    entry.create_system, entry.external_attr = 3, 0o100644 << 16
    archive.writestr(entry, data, ZIP_STORED if name.endswith(".jar") else ZIP_DEFLATED, 6)
