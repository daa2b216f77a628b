"""Collect the installed Python packages of a bundle."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from hudilab.errors import BundleError

_NOTES = re.compile(r"\.dist-info/(INSTALLER|RECORD|REQUESTED|direct_url\.json)$")
# Nine tenths of botocore describe services that no job calls.
_OTHER_SERVICES = re.compile(r"botocore/data/(?!(s3|sts|sso|sso-oidc|signin)/)[^/]+/")


def site_packages(names: Sequence[str]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return versions and files of installed packages and their dependencies.

    Raises:
        BundleError: A package is missing, or a file differs from its wheel's hash.
    """
    packages = _with_dependencies(names)
    files: dict[str, bytes] = {}
    for name, package in packages.items():
        for file in package.files or []:
            path = file.as_posix()
            # Skip files that differ between machines: bin/ scripts, caches, pip's own records.
            if file.hash is None or path.startswith("../") or _NOTES.search(path):
                continue
            if _OTHER_SERVICES.match(path):
                continue
            data = Path(str(file.locate())).read_bytes()
            digest = hashlib.new(file.hash.mode, data).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != file.hash.value:
                raise BundleError(f"{path} of package {name} was altered", "run: make clean setup")
            files[path] = data
    return {name: package.version for name, package in sorted(packages.items())}, files


def _with_dependencies(names: Sequence[str]) -> dict[str, Distribution]:
    packages: dict[str, Distribution] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise BundleError(f"package {name} is not installed", "run: make setup") from None
        if package.metadata["Name"].lower() in packages:
            continue
        packages[package.metadata["Name"].lower()] = package
        needs = [Requirement(text) for text in package.requires or []]
        pending += [r.name for r in needs if not r.marker or r.marker.evaluate({"extra": ""})]
    return packages
