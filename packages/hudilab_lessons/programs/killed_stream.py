"""The stream of lesson 21, which waits to be killed after its first write to a table.

Its job is JSON on standard input. `folder` contains the lesson's functions as `lesson_stream.py`,
`values` their other names, and `first` is the path of the table.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

from pyspark.sql import DataFrame

from hudilab.settings import load_settings
from hudilab_spark.session import open_session


def main() -> None:
    """Run the stream."""
    job = json.load(sys.stdin)
    settings = load_settings(job["runtime"])
    spark = open_session(settings, app="faults_victim", groups=("core", "kafka"))
    sys.path.append(job["folder"])
    lesson: Any = import_module("lesson_stream")
    vars(lesson).update(job["values"], spark=spark)
    upsert = lesson.upsert

    def upsert_and_wait(rows: DataFrame, table: str) -> None:
        upsert(rows, table)
        if lesson.paths[table] == job["first"]:
            time.sleep(600)

    lesson.upsert = upsert_and_wait
    lesson.run_stream()


if __name__ == "__main__":
    main()
