"""Pack a job's jar, packages, dependencies and settings into a zip for spark-submit.

The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from hudilab.errors import BundleError
from hudilab.groups import PIPELINES
from hudilab.python_path import source_folders
from hudilab.settings import Runtime, Settings
from hudilab.settings_file import parse, read_options
from hudilab_cli.packages import site_packages
from hudilab_cli.zips import JAVA, merge_jars, write_zip
from hudilab_jobs import JOBS
from hudilab_jobs.groups import RUN_GROUP
from hudilab_jobs.settings import load_settings, run_options
from hudilab_spark.conf import conf_files
from hudilab_spark.jars import verify, wanted

JAR = "lib/hudilab-dependencies.jar"
PACKAGES = ("hudi_sink", "hudilab", "hudilab_jobs", "hudilab_spark")
GROUPS = ("core", "kafka", "msk", "avro")
# Packages of the jobs that a Spark platform may lack. pyspark must be the platform's own, and only
# notebooks use pandas.
NEEDS = (
    *("typer", "rich", "pydantic", "pydantic-core", "tqdm", "typing-extensions"),
    *("confluent-kafka", "boto3", "botocore"),
)

# LOCAL's settings are for this machine's disk and cores; the others are templates.
_NOT_SHIPPED = ("local", "deploy", "services")
_REDACTED = "spark.redaction.regex"
_SETTINGS = (
    "application_properties.json",
    "spark-defaults.conf",
    "hudi-defaults.conf",
    "log4j2.properties",
    "fairscheduler.xml",
)


def build_bundle(settings: Settings, out: Path | None = None) -> str:
    """Write the zip to `out`, by default `dist/hudilab-bundle.zip` in the project.

    A failure keeps an older zip. Return a line with path, number of files, bytes and SHA-256.

    Raises:
        BundleError: the bundle cannot be built or written.
        JarError: a jar is missing or altered.
        ConfigError: the settings of a runtime are invalid.
    """
    out = (out or settings.project / "dist" / "hudilab-bundle.zip").absolute()
    runtimes = _load_runtimes(settings)
    parts = _settings_files(settings) | _package()
    versions, files = site_packages(NEEDS)
    parts |= {f"package/site-packages/{name}": data for name, data in files.items()}
    jars = wanted(settings.project / "jars", GROUPS)
    parts[JAR] = merge_jars(verify(settings.project / "jars", GROUPS))
    for runtime in runtimes:
        _check_run(runtime, parts)
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
    whole = write_zip(parts)
    _write(out, whole)
    sha256 = hashlib.sha256(whole).hexdigest()
    return f"hudilab: bundle={out} files={len(parts)} bytes={len(whole)} sha256={sha256}"


def _package() -> dict[str, bytes]:
    """Return the files of a job's packages."""
    parts = {}
    for folder in source_folders():
        for name in PACKAGES:
            for file in [*sorted((folder / name).rglob("*.py")), *(folder / name).glob("py.typed")]:
                parts[f"package/{file.relative_to(folder).as_posix()}"] = file.read_bytes()
    return parts | {"main.py": parts["package/hudilab_jobs/main.py"]}


def _write(out: Path, whole: bytes) -> None:
    """Replace the zip atomically, so that a failure keeps the older zip."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        half = out.with_name(f".{out.name}.{os.getpid()}")
        half.write_bytes(whole)
        half.replace(out)
    except OSError as error:
        raise BundleError(
            f"cannot write {out} ({error.strerror})", "choose another --out"
        ) from None


def _settings_files(settings: Settings) -> dict[str, bytes]:
    """Return conf/ without LOCAL's settings and the templates, which no deployed job reads.

    Raises:
        BundleError: The lab doesn't read a file, or a file contains a secret.
    """
    conf, files = settings.conf_dir, {}
    own = {str(path.relative_to(conf)): path for path in conf.rglob("*") if path.is_file()}
    for text, file in sorted((conf_files(settings) | own).items()):
        name = Path(text)
        # Skip hidden files of editors and the system.
        if name.parts[0] in _NOT_SHIPPED or any(part.startswith(".") for part in name.parts):
            continue
        is_pipeline = name.parent.name == PIPELINES
        if is_pipeline and name.suffix != ".json":  # a sample or a README
            continue
        folder = str(name.parent.parent if is_pipeline else name.parent)
        is_known = is_pipeline or name.name in _SETTINGS
        if not is_known or folder not in (".", "docker", "aws"):
            raise BundleError(
                f"{file} is not one of the settings files of a bundle ({', '.join(_SETTINGS)} in "
                "conf, conf/docker and conf/aws)",
                f"move it out of {conf}",
            )
        for key in _secrets(file, settings.conf_file("spark-defaults.conf")):
            raise BundleError(
                f"{file} sets {key}, but a bundle must not contain secrets",
                "remove it: credentials come from the platform's role",
            )
        files[f"conf/{name.as_posix()}"] = file.read_bytes()
    return files


def _secrets(file: Path, defaults: Path) -> Iterator[str]:
    """Yield the keys that Spark would redact according to its own setting."""
    regex = read_options(defaults).get(_REDACTED) if defaults.is_file() else None
    if not regex:
        raise BundleError(
            f"{defaults} does not set {_REDACTED}, which identifies secrets", "add it"
        )
    try:
        secret = re.compile(regex)
    except re.error as error:
        raise BundleError(
            f"{defaults}: {_REDACTED} is not a valid regular expression ({error})", "fix it"
        ) from None
    pairs: Iterable[tuple[str, str]] = read_options(file).items() if file.suffix != ".json" else ()
    if file.suffix == ".json":  # load_settings has already validated it
        content = parse(file.read_text("utf-8-sig"))
        groups = content if isinstance(content, list) else [{"PropertyMap": content}]
        pairs = [(key, "") for group in groups for key in group["PropertyMap"]]
    for key, value in pairs:
        if "redaction" not in key and secret.search(f"{key} {value}"):
            yield key


def _load_runtimes(settings: Settings) -> list[Settings]:
    """Load every runtime's settings, so that errors are reported before the deployment."""
    home = {"HUDILAB_CONF": str(settings.conf_dir), "HUDILAB_HOME": str(settings.home)}
    return [load_settings(runtime, home) for runtime in get_args(Runtime)]


def _check_run(settings: Settings, parts: Mapping[str, bytes]) -> None:
    run = run_options(settings)
    known = {"python": ("main.py",), "jarfile": (JAR,), "job": JOBS}
    named = {"python": run.python, "jarfile": run.jarfile, "job": run.job}
    problems = [
        f"{settings.origin(RUN_GROUP, key)}: group {RUN_GROUP!r}: key {key!r} names {value!r}, "
        f"which is not in the bundle (available: {', '.join(known[key])})"
        for key, value in named.items()
        if value not in (JOBS if key == "job" else parts)
    ]
    if problems:
        raise BundleError(f"{'; '.join(problems)}", "fix the settings")
