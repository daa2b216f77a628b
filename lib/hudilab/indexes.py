"""Refuse indexes that Hudi 1.2 gets wrong, before they are made."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudilab.commits import Commits
from hudilab.errors import TableError

__all__ = ["check_can_index"]


def check_can_index(spark: SparkSession, table: str) -> None:
    """Raise TableError if a CREATE INDEX would make an index that gives wrong answers now.

    In Hudi 1.2, an index that is created with no commit since the last CREATE INDEX can be empty,
    and stays so: queries that use it return no rows, without an error.
    """
    meta = Commits(spark, table).meta()
    if meta is None:
        return
    newest = meta.getActiveTimeline().filterCompletedInstants().lastInstant()
    if newest.isPresent() and str(newest.get().getAction()) == "indexing":
        raise TableError(
            f"{table} has had no commit since its last CREATE INDEX: Hudi 1.2 would leave the next "
            "index without entries, and queries on it would return no rows; write a batch, then "
            "run CREATE INDEX"
        )
