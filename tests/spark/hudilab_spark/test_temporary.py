"""Where a session's temporary files are: shuffled rows are for their owner only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def blocks() -> set[Path]:
    """Spark's folders of this account in /tmp."""
    folders = Path("/tmp").glob("blockmgr-*")
    return {path for path in folders if path.stat().st_uid == os.getuid()}


def test_shuffled_rows_are_in_the_home_and_for_their_owner_only(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    temporary, before = Path(jvm.java.lang.System.getProperty("java.io.tmpdir")), blocks()
    assert spark.range(1000).repartition(3, "id").distinct().count() == 1000
    assert [*temporary.glob("blockmgr-*/*/shuffle_*.data")]
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert temporary.parent == Path(os.environ["HUDILAB_HOME"], "tmp")
    assert blocks() <= before
