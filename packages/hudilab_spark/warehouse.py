"""Prepare, check and reset the folders of tables on a disk or S3, and return their SQL paths."""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from hudi_sink.files import delete_tree, exists, names_in
from hudilab.errors import PathError, TableError
from hudilab.files import close_home, private_folder
from hudilab.paths import TableLocation, local_path
from hudilab.settings import Settings

# SQL and Hudi's catalog don't change paths with these characters.
_LITERAL = re.compile(r"[\w/.:-]*")
LESSONS = "lessons"  # the database that notebooks may write to and delete from


def reset(
    spark: SparkSession, settings: Settings, *locations: TableLocation, quiet: bool = False
) -> None:
    """Stop the session's streams, then delete a lesson's tables with their checkpoints.

    Print the deleted tables and their folder, unless `quiet`. Only the learner's own tables in the
    database `lessons` are deleted. With RUNTIME_ENV=AWS or Amazon's S3, an existing table is an
    error.

    Raises:
        TableError: A table must not be deleted; raised before any deletion.
    """
    for location in locations:
        if location.database != LESSONS:
            raise TableError(
                f"{location.table} was not deleted: it is not a lesson's table",
                f'lessons use prepare(settings, database="{LESSONS}")',
            )
    for query in spark.streams.active:
        query.stop()
    folders = [uri for location in locations for uri in _folders(spark, location)]
    existing = [uri for uri in folders if exists(spark, uri)]
    if existing and not _is_own(settings):
        raise TableError(
            f"{existing[0]} already exists, and lessons delete nothing in a warehouse on AWS",
            "use a new run_id: -p run_id NAME",
        )
    gone = [uri for uri in folders if delete_tree(spark, uri)]
    if quiet:
        return
    deleted = [
        location.name for location in locations if {location.table, location.checkpoint} & set(gone)
    ]
    names = ", ".join(deleted) or "nothing, no table of this lesson is there"
    print(f"reset in {locations[0].table.rpartition('/')[0]}: {names}")


def _is_own(settings: Settings) -> bool:
    """Return whether the warehouse is the learner's own, on a disk or an own S3 server."""
    if settings.runtime == "AWS":
        return False
    if settings.is_local:
        return True
    from hudilab_spark.s3 import endpoint

    return bool(endpoint())


def _folders(spark: SparkSession, location: TableLocation) -> list[str]:
    """Return the URIs of a table, its quarantine and the checkpoints of its streams."""
    folder = location.checkpoint.rpartition("/")[0]
    checkpoints = [f"{folder}/{name}" for name in names_in(spark, folder)]
    of_others = [uri for uri in checkpoints if uri.startswith(f"{location.checkpoint}-")]
    return [location.table, location.quarantine, location.checkpoint, *of_others]


def sql_path(spark: SparkSession | None, uri: str) -> str:
    """Return a table's URI for the text of an SQL statement: `LOCATION '...'`, `path => '...'`.

    An apostrophe would end SQL's text, and Hudi's catalog looks for a path with a blank at `%20`.
    For such a path, return a link to the folder, which is removed at the end of this process.

    Args:
        spark: The session that runs the statement; None for a session without a metastore.

    Raises:
        TableError: The path has such characters, and it is on S3, or a metastore would keep the
            link.
    """
    if _LITERAL.fullmatch(uri):
        return uri
    path = local_path(uri)
    lasting = spark is not None and spark.conf.get("spark.sql.catalogImplementation") == "hive"
    if path is not None and not lasting:
        unsafe = next(part for part in (path, *path.parents) if not _LITERAL.fullmatch(part.name))
        link = f"file://{_link_to(unsafe) / path.relative_to(unsafe)}"
        if _LITERAL.fullmatch(link):  # unless TMPDIR has such characters, too
            return link
    raise TableError(
        f"Hudi cannot register {uri}, because its path has blanks or special characters",
        "move the warehouse to a path without them",
    )


@cache
def _link_to(folder: Path) -> Path:
    """Return a link to a folder, in a temporary folder of this process."""
    made = Path(tempfile.mkdtemp(prefix="hudilab-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)  # the link, not its target
    (made / "linked").symlink_to(folder)
    return made / "linked"


def prepare(
    settings: Settings,
    *,
    run_id: str = "",
    table: str = "",
    database: str = "",
    quiet: bool = False,
) -> TableLocation:
    """Return the location of a table, by default the configured one; print the settings' notices.

    A `run_id` is a separate folder in the warehouse. `quiet` prints nothing.

    Raises:
        PathError: A local warehouse is not writable; raised before anything is written.
        S3Error: A warehouse on S3 is not writable; raised before anything is written.
    """
    location = settings.locate(table, database, run_id)
    for notice in () if quiet else (settings.notice, *location.notices):
        if notice:
            print(notice)
    check_location(location, settings)
    return location


def check_location(location: TableLocation, settings: Settings) -> None:
    """Raise PathError or S3Error if a table's location is not writable; leave no file behind."""
    check_writable(location, settings.home)
    if local_path(location.warehouse) is None:
        from hudilab_spark.s3 import check_warehouse

        check_warehouse(location.warehouse, settings)


def check_writable(location: TableLocation, home: Path | None = None) -> None:
    """Check that the table and its checkpoint can be created on a disk; skip S3.

    It opens an unnamed file in the deepest existing directory, because root passes a check of
    permission bits even on a read-only file system.

    Raises:
        PathError: the table or the checkpoint cannot be created.
    """
    setting = "HUDILAB_WAREHOUSE" if os.environ.get("HUDILAB_WAREHOUSE") else "warehouse.path"
    for uri in (location.table, location.checkpoint):
        path = local_path(uri)
        if path is None:
            return
        deepest = next(p for p in (path, *path.parents) if os.path.lexists(p))
        of_home = home and path.is_relative_to(home) and home.is_relative_to(deepest)
        try:
            if deepest.is_dir():
                tempfile.TemporaryFile(dir=deepest).close()
                continue
        except OSError as error:
            if home and of_home:
                raise _no_home(home, error) from None
            raise PathError(
                f"{setting}: cannot write to {deepest} ({error.strerror})",
                f"make it writable, or set {setting} to a writable directory",
            ) from None
        if home and of_home:
            raise _no_home(home, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)))
        raise PathError(
            f"{setting}: {deepest} exists but is not a directory",
            f"move it, or set {setting} to another directory",
        )


def make_home(home: Path) -> None:
    """Create the lab's home, which contains all its output.

    Raises:
        PathError: the folder cannot be written.
    """
    try:
        close_home(private_folder(home))
        tempfile.TemporaryFile(dir=home).close()
    except OSError as error:
        raise _no_home(home, error) from None


def _no_home(home: Path, error: OSError) -> PathError:
    return PathError(
        f"cannot write to the lab's home {home} ({error.strerror})",
        "make it writable, or set HUDILAB_HOME to a writable folder",
    )
