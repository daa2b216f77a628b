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
from pyspark.sql import functions as F

from hudilab.settings import load_settings
from hudilab_spark.session import open_session


def main() -> None:
    """Run the stream."""
    job = json.load(sys.stdin)
    settings = load_settings(job["runtime"])
    spark = open_session(settings, app="faults_victim", groups=("core", "kafka"))
    sys.path.append(job["folder"])
    lesson: Any = import_module("lesson_stream")
    vars(lesson).update(job["values"], spark=spark, F=F)
    save = lesson.save

    def save_and_wait(rows: DataFrame, table: str) -> None:
        save(rows, table)
        if lesson.paths[table] == job["first"]:
            time.sleep(600)

    lesson.save = save_and_wait
    lesson.run()


if __name__ == "__main__":
    main()
