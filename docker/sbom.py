"""sbom.py FILE: write what the image is made of, as a CycloneDX 1.5 bill of materials.

Components: the packages of Debian and of Python that are installed, and the jars that are there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from hudilab_spark.jars import read_lock

LAB = Path(__file__).resolve().parents[1]


def components() -> Iterator[dict[str, Any]]:
    """Yield each component with its package URL; jars with the hash of the lock."""
    for installed in sorted(
        distributions(), key=lambda installed_: installed_.metadata["Name"].lower()
    ):
        yield _component(installed.metadata["Name"], installed.version, "pypi")
    for jars in read_lock(LAB / "jars" / "jars.lock").values():
        for jar in jars:
            if (LAB / "jars" / jar.group / jar.file).is_file():
                group, name, version, *classifier = jar.coordinate.split(":")
                kept = "".join(f"?classifier={label}" for label in classifier)
                described = _component(f"{group}/{name}", version, "maven", kept)
                yield described | {"hashes": [{"alg": "SHA-256", "content": jar.sha256}]}
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # not Debian
        return
    for line in output.splitlines():
        name, version = line.split(" ")
        yield _component(name, version, "deb/debian")


def _component(name: str, version: str, registry: str, more: str = "") -> dict[str, Any]:
    url = f"pkg:{registry}/{name}@{version}{more}"
    return {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url}


def bill() -> dict[str, Any]:
    """Return the whole document."""
    from hudilab import __version__

    unique = {component["bom-ref"]: component for component in components()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "hudilab", "version": __version__}},
        "components": list(unique.values()),
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")
