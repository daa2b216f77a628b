"""Access files wherever Spark can, on disk or S3, through Hadoop's FileSystem."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hudilab.config import Settings
from hudilab.errors import PathError, TableError
from hudilab.paths import Place, check_writable, local_path, locate, rewrite_scheme
from hudilab.s3 import check_warehouse, endpoint
from hudilab.tables import TableSpec, index_options, read_properties

__all__ = [
    "LESSONS",
    "PROPERTIES",
    "FileInfo",
    "check_place",
    "delete_file",
    "delete_tree",
    "exists",
    "file_size",
    "file_system",
    "java_class",
    "list_files",
    "prepare",
    "read_text",
    "register",
    "reset",
    "table_index_options",
    "table_properties",
    "table_uri",
    "write_text",
]

PROPERTIES = ".hoodie/hoodie.properties"
LESSONS = "lessons"  # the database that notebooks may write to and delete from


class FileInfo(NamedTuple):
    """A file below a root: path relative to it, size in bytes, modification time in epoch ms."""

    path: str
    size: int
    modified_ms: int


@cache
def java_class(jvm: Any, name: str) -> Any:
    """Return a class of the JVM.

    Py4J asks the JVM about each part of the name, and the JVM searches all jars for it: two
    milliseconds each time.
    """
    return reduce(getattr, name.split("."), jvm)


def file_system(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a URI, and its path in it."""
    jsc: Any = spark._jsc
    path = java_class(spark._jvm, "org.apache.hadoop.fs.Path")(uri)
    return path.getFileSystem(jsc.hadoopConfiguration()), path


def exists(spark: SparkSession, uri: str) -> bool:
    """Return whether a file or folder exists."""
    fs, path = file_system(spark, uri)
    return bool(fs.exists(path))


def file_size(spark: SparkSession, uri: str) -> int:
    """Return a file's size in bytes, or -1 if there is none. One request, also on S3."""
    fs, path = file_system(spark, uri)
    try:
        return int(fs.getFileStatus(path).getLen())
    except Py4JJavaError as error:
        if "FileNotFoundException" not in str(error.java_exception.getClass().getName()):
            raise
        return -1


def delete_file(spark: SparkSession, uri: str) -> bool:
    """Delete a file; return False if there was none. Never deletes a folder that is not empty."""
    fs, path = file_system(spark, uri)
    return bool(fs.delete(path, False))


def reset(spark: SparkSession, settings: Settings, *places: Place) -> None:
    """Delete a lesson's own tables with their checkpoints; first stop the session's streams.

    Prints the folder and the names of what it deleted. Only tables of the database `lessons` are
    deleted, and none in a warehouse that is not the learner's (RUNTIME_ENV=AWS, or Amazon's S3):
    there an existing table is an error.

    Raises:
        TableError: A table may not be deleted; nothing has been.
    """
    for place in places:
        if place.database != LESSONS:
            raise TableError(
                f"{place.table} was not deleted: it is not a lesson's table; "
                f'lessons use prepare(settings, database="{LESSONS}")'
            )
    for query in spark.streams.active:
        query.stop()
    folders = [uri for place in places for uri in (place.table, place.checkpoint)]
    there = [uri for uri in folders if exists(spark, uri)]
    if there and (settings.runtime == "AWS" or not (settings.is_local or endpoint())):
        raise TableError(
            f"{there[0]} already exists, and lessons delete nothing in a warehouse on AWS; use a "
            "new run_id: -p run_id NAME"
        )
    gone = [uri for uri in folders if delete_tree(spark, uri)]
    deleted = [one.name for one in places if {one.table, one.checkpoint} & set(gone)]
    names = ", ".join(deleted) or "nothing, no table of this lesson is there"
    print(f"reset in {places[0].table.rpartition('/')[0]}: {names}")


def delete_tree(spark: SparkSession, uri: str) -> bool:
    """Delete a folder with all that is in it; return whether there was one."""
    fs, path = file_system(spark, uri)
    deleted = bool(fs.delete(path, True))
    # S3Proxy can keep the empty folder of a timeline, which Hudi would take for a table: such a
    # folder only goes with the last file in it.
    if fs.exists(path):
        write_text(spark, f"{uri.removesuffix('/.hoodie')}/.hoodie/timeline/last", "")
        fs.delete(path, True)
    return deleted


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the text of a small UTF-8 file."""
    fs, path = file_system(spark, uri)
    stream = fs.open(path)
    try:
        return str(
            java_class(spark._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8")
        )
    finally:
        stream.close()


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a small UTF-8 file."""
    fs, path = file_system(spark, uri)
    stream = fs.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def list_files(spark: SparkSession, uri: str) -> list[FileInfo]:
    """Return all files below a folder, hidden ones too, sorted by path; empty if it is missing."""
    fs, root = file_system(spark, uri)
    if not fs.exists(root):
        return []
    base = str(fs.getFileStatus(root).getPath().toString()).rstrip("/") + "/"
    found: list[FileInfo] = []
    files = fs.listFiles(root, True)  # on S3, one request per 1000 files, however many folders
    while files.hasNext():
        status = files.next()
        name = str(status.getPath().toString()).removeprefix(base)
        found.append(FileInfo(name, int(status.getLen()), int(status.getModificationTime())))
    return sorted(found)


def table_properties(spark: SparkSession, table: str) -> dict[str, str]:
    """Return the pairs of a table's `hoodie.properties`."""
    return read_properties(read_text(spark, f"{table}/{PROPERTIES}"))


def table_uri(table: str, settings: Settings, command: str) -> str:
    """Return the URI of the table that a command was given as a path or URI.

    Args:
        command: The command's name, for the remedies.

    Raises:
        TableError: It is not the place of a table, or it is on S3 without its settings.
        S3Error: The warehouse on S3 is not writable.
    """
    try:
        uri = rewrite_scheme(table, Path.cwd())
    except PathError:
        raise TableError(
            f"{table!r} is not the place of a table; give a path, or a file:// or s3:// URI: "
            f"hudilab {command} TABLE"
        ) from None
    if local_path(uri) is None:
        if settings.is_local:
            raise TableError(
                f"{uri} is on S3, but IS_LOCAL is true; use the settings of that warehouse: "
                f"IS_LOCAL=false hudilab {command} {uri}"
            )
        check_warehouse(uri.rpartition("/")[0], settings)  # its probe stays out of the table
    return uri


def table_index_options(
    spark: SparkSession, table: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return `index_options` of a table with these properties."""
    found, file = index_options(properties), f"{table}/.hoodie/.index_defs/index.json"
    if found and exists(spark, file):
        return index_options(properties, read_text(spark, file))
    return found


def register(spark: SparkSession, spec: TableSpec, place: Place, name: str) -> str:
    """Give a table a name in SQL, along with the index of its spec; return the statement.

    The name must be free, or that of an external table: dropping one deletes no files.

    Raises:
        TableError: There is no table, it differs from its spec, the name is taken, or Hudi cannot
            give names to tables at this path.
    """
    _, path = file_system(spark, place.table)
    # Hudi 1.2 takes the escaped form of the path for the path itself, and finds nothing there.
    if path.toUri().getRawPath() != path.toUri().getPath():
        raise TableError(
            f"Hudi cannot give a name to {place.table}, because its path has blanks or special "
            "characters; move the warehouse to a path without them"
        )
    if not exists(spark, f"{place.table}/{PROPERTIES}"):
        raise TableError(f"there is no table at {place.table}; write to it first, then register it")
    differences = spec.conflicts(table_properties(spark, place.table))
    if differences:
        raise TableError(
            f"the existing table {place.table} differs from its TableSpec: "
            f"{'; '.join(differences)}; register it with the spec that its stream has"
        )
    if spark.catalog.tableExists(name):
        if spark.catalog.getTable(name).tableType != "EXTERNAL":
            raise TableError(
                f"the name {name} belongs to a view or to a table that owns its files; "
                "use another name"
            )
        spark.sql(f"DROP TABLE {name}")
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in spec.sql_properties().items())
    location = place.table.replace("\\", "\\\\").replace("'", "\\'")
    statement = f"CREATE TABLE {name} USING hudi TBLPROPERTIES ({properties}) LOCATION '{location}'"
    spark.sql(statement)
    return statement


def prepare(settings: Settings, *, run_id: str = "", table: str = "", database: str = "") -> Place:
    """Locate a table of this run (by default the configured one); print what was rewritten.

    Args:
        run_id: Gives the run a root of its own below the warehouse.

    Raises:
        PathError: A local warehouse is not writable; raised before anything is written.
        S3Error: A warehouse on S3 is not writable; raised before anything is written.
    """
    place = locate(
        settings.warehouse_path,
        database or settings.database_name,
        table or settings.table_name,
        is_local=settings.is_local,
        home=settings.home,
        run_id=run_id,
    )
    for notice in place.notices:
        print(notice)
    check_place(place, settings)
    return place


def check_place(place: Place, settings: Settings) -> None:
    """Raise PathError or S3Error if the place is not writable; leave nothing behind."""
    check_writable(place, settings.home)
    if local_path(place.warehouse) is None:
        check_warehouse(place.warehouse, settings)
