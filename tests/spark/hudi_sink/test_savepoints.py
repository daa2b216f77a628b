"""`hudilab savepoint`: made of the newest commit, listed, found by name, and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from refusals import refused

from hudi_sink.commits import Commits
from hudi_sink.rewind import Rewind
from hudi_sink.savepoints import Savepoints
from hudilab.errors import TableError

OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "at",
}


def commit(spark: SparkSession, table: str, *rows: tuple[int, int], **options: str) -> str:
    made = spark.createDataFrame(rows, "id BIGINT, at BIGINT")
    made.write.format("hudi").options(**OPTIONS, **options).mode("append").save(table)
    return next(commit.instant for commit in Commits(spark, table).newest_first())


@pytest.mark.parametrize(
    "table_type", ["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.deep)]
)
def test_savepoints(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    table = f"file://{tmp_path}/it's orders"
    remedy = "; give the folder that contains .hoodie: hudilab savepoint TABLE"
    with refused(TableError, "no Hudi table at", table, remedy=remedy):
        Savepoints(spark, table)
    options = {"hoodie.datasource.write.table.type": table_type}
    first = commit(spark, table, (1, 1), **options)
    savepoints = Savepoints(spark, table)
    assert savepoints.all() == []
    made = savepoints.create("before the sale")
    assert (made.instant, made.name) == (first, "before the sale")
    assert str(made).startswith(f"{first} 'before the sale', made by ")
    remedy = f"; or delete it: hudilab savepoint {table} --delete {first}"
    with refused(TableError, "already has this savepoint", str(made), remedy=remedy):
        savepoints.create("again")
    second = commit(spark, table, (1, 2), (2, 2), **options)
    with refused(TableError, "already has this savepoint", str(made), remedy=remedy):
        savepoints.create("before the sale")
    nameless = savepoints.create("")
    assert str(nameless).startswith(f"{second}, made by ")
    assert savepoints.all() == [made, nameless]
    assert savepoints.find("before the sale") == savepoints.find(first) == made
    remedy = f"; list them: hudilab savepoint {table} --list"
    with refused(TableError, "has no savepoint 'after'", str(made), remedy=remedy):
        savepoints.delete("after")
    assert savepoints.delete(second) == nameless
    assert savepoints.all() == [made]
    rows = spark.read.format("hudi").load(table)
    assert rows.count() == 2
    remedy = "choose a savepoint, or look at the timeline: hudilab inspect "
    with refused(TableError, "'none'", "its savepoints are", remedy=f"{remedy}{table}"):
        Rewind(spark, table, "none", stopped=True)
