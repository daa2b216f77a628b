"""Read a table's properties, version and indexes from its own files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from hudi_sink.files import exists, file_system, read_text
from hudi_sink.metadata import PROPERTIES, index_options
from hudilab.errors import TableError
from hudilab.files import read_properties
from hudilab.table import METADATA


def table_properties(spark: SparkSession, table: str) -> dict[str, str]:
    """Return the pairs of a table's `hoodie.properties`."""
    return read_properties(read_text(spark, f"{table}/{PROPERTIES}"))


def check_upgrade(spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
    """Raise TableError if an upgrade by Hudi would lose the table's commits.

    Up to table version 6, the timeline is in another folder. Hudi 1.2 moves it to the URI-encoded
    path. If that path differs, the table loses its commits, and upserts insert stored keys again.
    """
    version = properties["hoodie.table.version"]
    if int(version) >= 8:
        return
    path = file_system(spark, table)[1].toUri()
    if path.getRawPath() != path.getPath():
        raise TableError(
            f"{table} has table version {version}, which a write upgrades, and a path with a "
            "blank or another character that URIs encode: Hudi 1.2 would lose its commits",
            "move the table to a path of letters, digits, - and _, or keep its version: "
            "hoodie.write.auto.upgrade=false",
        )


def table_index_options(
    spark: SparkSession, table: str, properties: Mapping[str, str], *, adds: bool = False
) -> dict[str, str]:
    """Return `index_options` of a table with these properties.

    Args:
        adds: The write adds a metadata table if the table has none.
    """
    options, file = index_options(properties), f"{table}/.hoodie/.index_defs/index.json"
    if options[METADATA] == "false":
        return {} if adds else options
    if exists(spark, file):
        return index_options(properties, read_text(spark, file))
    return options
