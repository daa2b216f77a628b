"""A session's Spark settings, and a folder with every file of conf/ for its JVM."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from hudilab.errors import PathError, ServiceError, SessionError
from hudilab.files import private_folder
from hudilab.groups import CATALOG, FILE, PIPELINES
from hudilab.settings import Runtime, Settings
from hudilab.settings_file import read_options
from hudilab_spark.java import class_path
from hudilab_spark.preflight import heap_that_fits

# In the driver and its workers, PySpark interprets naive times of pandas and Python in this zone,
# independently of the session's time zone.
ZONE = "UTC"
MEMORY, MASTER = "spark.driver.memory", "spark.master"
METASTORE_GROUP = "metastore"  # of the settings, see `Hive`
# Tasks of a JVM with tables on S3, where tasks mostly wait for requests.
S3_TASKS = 8
_UNITS = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}
# Settings with a matching name never go on a command line.
SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")


def overlay(settings: Settings) -> dict[str, str]:
    """Return the Spark settings that conf/<runtime>/spark-defaults.conf adds for this runtime.

    Raises:
        SessionError: the file is missing.
    """
    file = settings.spark_defaults
    if not file.is_file():
        raise SessionError(
            f"RUNTIME_ENV={settings.runtime} has no Spark settings: {file} does not exist",
            "create it with spark.master and the other settings of this runtime, or use "
            "RUNTIME_ENV=LOCAL",
        )
    return read_options(file)


def needed(settings: Settings, groups: Sequence[str] = ("core",)) -> list[str]:
    """Return the jar groups of a session, with `s3` if the warehouse is on S3."""
    return [*groups, *(["s3"] if not settings.is_local and "s3" not in groups else [])]


def session_settings(settings: Settings, jars: Sequence[Path]) -> dict[str, str]:
    """Return the runtime's Spark settings beyond conf/spark-defaults.conf, without side effects."""
    chosen = {"spark.driver.extraClassPath": class_path(jars), **overlay(settings)}
    chosen["spark.sql.defaultCatalog"] = CATALOG
    if memory := chosen.get(MEMORY):
        wanted = megabytes(memory, MEMORY)
        if (heap := heap_that_fits(wanted)) < wanted:
            chosen[MEMORY] = f"{heap}m"
    if not settings.is_local:
        from hudilab_spark.s3 import spark_settings

        chosen |= spark_settings(settings)
        if chosen.get(MASTER) == "local[*]" and (os.cpu_count() or 1) < S3_TASKS:
            chosen[MASTER] = f"local[{S3_TASKS}]"
    if settings.on_cluster:
        from hudilab_spark.cluster import executor_settings

        chosen |= executor_settings(settings, chosen)
    return chosen


def megabytes(text: str, name: str) -> int:
    """Return the MB of a size in Spark's notation: 512m, 2g; a plain number is MB.

    Raises:
        ServiceError: `text` is not a size; names the setting `name`.
    """
    size = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if not size:
        raise ServiceError(
            f"{name}={text!r} is not a memory size", "use a value such as 512m or 2g"
        )
    return int(int(size[1]) * _UNITS[size[2]])


def older_names() -> dict[str, str]:
    """Return AWS_SHARED_CREDENTIALS_FILE under the name that Hadoop's older AWS SDK reads."""
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE")
    return {"AWS_CREDENTIAL_PROFILES_FILE": file} if file else {}


def managed_tables(home: Path, named: bool) -> Path:
    """Return the folder of a new session's managed tables, which have no LOCATION.

    Without a metastore, the names of managed tables end with the session, and the next session can
    neither drop nor create them in the same folder. Each session therefore gets its own folder.
    Empty folders of earlier sessions are removed.

    Args:
        named: Whether a metastore keeps the names.
    """
    root = home / "spark-warehouse"
    if named:
        return root
    for folder in root.glob("session-*"):
        tree = list(os.walk(folder, topdown=False))
        if not any(files for _, _, files in tree):
            for path, _, _ in tree:
                with suppress(OSError):  # a running session has created a table in it
                    Path(path).rmdir()
    return root / f"session-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"


def conf_files(settings: Settings) -> dict[str, Path]:
    """Return the files of conf/ and its runtimes' folders, by their path in conf/.

    The project's files replace missing ones, except files that name tables and servers.
    """
    files_by_name: dict[str, Path] = {}
    for folder in (settings.project / "conf", settings.conf_dir):
        for part in ("", *(name.lower() for name in get_args(Runtime))):
            files = [file for file in (folder / part).glob("[!.]*") if file.is_file()]
            if folder == settings.conf_dir:
                files += (folder / part).glob(f"{PIPELINES}/[!.]*.json")
            files_by_name |= {
                str(file.relative_to(folder)): file
                for file in files
                if folder == settings.conf_dir or file.name != FILE
            }
    return files_by_name


def add_hudi_defaults(jvm: Any, options: Mapping[str, str]) -> None:
    """Add Hudi options to those of `hudi-defaults.conf` in this JVM; a write's options win."""
    defaults = jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
    for name, value in options.items():
        defaults.addToGlobalProps(name, value)


def conf_folder(settings: Settings) -> Path:
    """Return HUDILAB_CONF, or a folder in the home with links to all files if some are missing.

    Raises:
        PathError: the home cannot be written.
    """
    wanted = conf_files(settings)
    if all(file.is_relative_to(settings.conf_dir) for file in wanted.values()):
        return settings.conf_dir
    digest = sha256(os.fsencode(settings.conf_dir)).hexdigest()[:16]
    folder = settings.home / "conf" / digest
    try:
        for name, file in wanted.items():
            _link(private_folder((folder / name).parent) / file.name, file)
        for link in folder.rglob("[!.]*"):
            if link.is_symlink() and str(link.relative_to(folder)) not in wanted:
                link.unlink(missing_ok=True)
    except OSError as error:
        raise PathError(
            f"cannot write to {folder} ({error.strerror})",
            "make it writable, or set HUDILAB_HOME to a writable folder",
        ) from None
    return folder


def _link(link: Path, file: Path) -> None:
    """Replace a link atomically, because another program may be reading it."""
    if link.is_symlink() and link.readlink() == file:
        return
    half = link.with_name(f".{link.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    half.symlink_to(file)
    half.replace(link)
