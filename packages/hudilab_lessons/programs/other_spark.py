"""A Spark session that runs functions for `OtherSpark`, one for each line of JSON on its input.

It answers each with a line, and ends with the notebook's process. Java, too, writes to what was the
standard output.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    """Open the session, and answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")  # Java, too, writes to descriptor 1
    os.dup2(2, 1)
    builder = SparkSession.builder.appName("other_spark")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        print(json.dumps(_answer(spark, *json.loads(line))), file=answers, flush=True)
    spark.stop()


def _answer(
    spark: SparkSession, file: str, name: str, values: dict[str, Any]
) -> tuple[object, str]:
    """Return the result of a file's function, and its error or ""."""
    try:
        return runpy.run_path(file)[name](spark, **values), ""
    except Exception as raised:  # noqa: BLE001 - the notebook gets every error of the function
        if str(raised) == "None":  # Java's message is empty
            return None, getattr(raised, "_stackTrace", f"{type(raised).__name__}: {raised}")
        return None, f"{type(raised).__name__}: {raised}"


if __name__ == "__main__":
    main()
