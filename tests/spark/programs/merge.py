"""A maintenance job beside a stream: merge.py TABLE TIMES merges small files."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from hudi_sink.locks import sharing_options
from hudilab.settings import load_settings
from hudilab_spark.session import open_session


def merge(spark: SparkSession, table: str, times: int) -> int:
    """How many of so many runs found files to merge."""
    options = ",".join(f"{name}={value}" for name, value in sharing_options(table).items())
    count = 0
    for _ in range(times):
        call = f"CALL run_clustering(path => '{table}', options => '{options}')"
        count += bool(spark.sql(call).collect())
        time.sleep(1)  # for the stream to add files
    return count


if __name__ == "__main__":
    session = open_session(load_settings(), app="merge")
    print(merge(session, sys.argv[1], int(sys.argv[2])))
    session.stop()
