"""A Spark that knows nothing of the lab, only of Hudi's jars and of a metastore.

`stranger.py JARS URI` reads an SQL statement a line, and prints its rows, or its error, as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(jars: str, uri: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.hive.metastore.uris", uri)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
        )
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            # A session of its own: another one remembers which files a table had.
            rows = [list(row) for row in spark.newSession().sql(line).collect()]
            print("answer:", json.dumps(rows, default=str), flush=True)
        except Exception as error:
            print("answer:", json.dumps(str(error)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
