"""Requests and seconds to list a table on S3 with and without the metadata table, as Markdown.

Starts the lab's S3 server in a home of its own. Options: --partitions 10 100 1000, --rounds 3.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hudi_sink.files import file_system
from hudi_sink.metadata import closing_options
from hudilab.table import TableSpec
from hudilab_cli.servers.s3 import start_s3, stop_s3
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session

METADATA = "hoodie.metadata.enable"
REQUESTS = ("action_http_get_request", "action_http_head_request", "object_list_request")


def main(given: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="listing.py", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as home:
        local = replace(load_settings(env={}), home=Path(home))
        try:
            os.environ |= start_s3(local).env()
            spark = open_session(replace(local, is_local=False), app="listing")
            print("| partitions | requests, without | with | seconds, without | with |")
            print("| ---: | ---: | ---: | ---: | ---: |")
            for count in arguments.partitions:
                print(line(spark, count, arguments.rounds), flush=True)
            spark.stop()
        finally:
            stop_s3(local)


def line(spark: SparkSession, partitions: int, rounds: int) -> str:
    """One table's line: what it takes to know all its files."""
    table = f"s3a://hudilab/listing/{partitions}"
    write(spark, table, partitions)
    measured = [
        [listed(spark, table, on, partitions) for _ in range(rounds)] for on in (False, True)
    ]
    requests_sent = [f"{statistics.median(run[0] for run in runs):,.0f}" for runs in measured]
    took = [f"{statistics.median(run[1] for run in runs):.2f}" for runs in measured]
    return f"| {partitions:,} | {' | '.join(requests_sent + took)} |"


def write(spark: SparkSession, table: str, partitions: int) -> None:
    """A table of one row, and so one file, a partition; its metadata table is compacted."""
    spec = TableSpec(name="listing", record_key=("id",), partition=("part",), ordering="id")
    rows = spark.range(0, partitions, 1, 2).selectExpr("id", "concat('p', id) AS part")
    options = spec.write_options({METADATA: "true"}) | closing_options(table)
    rows.write.format("hudi").options(**options).mode("append").save(table)


def listed(spark: SparkSession, table: str, on: bool, partitions: int) -> tuple[int, float]:
    """Requests and seconds of a new reader until it has listed all files."""
    before, started = requests(spark, table), time.monotonic()
    reader: Any = spark.read.format("hudi").option(METADATA, str(on).lower()).load(table)
    assert len(reader.inputFiles()) == partitions
    return requests(spark, table) - before, time.monotonic() - started


def requests(spark: SparkSession, table: str) -> int:
    counted = file_system(spark, table)[0].getStorageStatistics()
    return sum(int(counted.getLong(name) or 0) for name in REQUESTS)


if __name__ == "__main__":
    main(sys.argv[1:])
