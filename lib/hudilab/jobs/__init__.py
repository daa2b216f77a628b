"""The lessons' pipelines as standalone programs, for a terminal and for spark-submit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hudilab.errors import LabError

__all__ = ["JOBS", "one_line"]

JOBS = ("sensor_readings", "stock_prices", "tidy")  # those that write to a table


@contextmanager
def one_line() -> Iterator[None]:
    """Turn errors of the lab, Spark and Java into one line on stderr and exit code 1."""
    # Imported here: slow to load, and not needed to name a job.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hudilab.writer.causes import root_cause

    try:
        yield
    except LabError as error:
        text = str(error)
    except (Py4JError, PySparkException) as error:
        text = f"{root_cause(str(error))}; fix the cause and start again (see the log for details)"
    else:
        return
    print(f"hudilab: {text}", file=sys.stderr)
    sys.exit(1)
