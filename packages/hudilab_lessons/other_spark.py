"""Run functions in the Spark session of a separate Python and Java process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from typing import IO, Any, cast

import pandas as pd

from hudilab.errors import SessionError, root_cause
from hudilab_lessons.faults import without_session
from hudilab_spark.conf import MEMORY
from hudilab_spark.environment import for_java
from hudilab_spark.java import FAST_START, find_java, spark_home
from hudilab_spark.jvm import DRIVER_OPTIONS

_PROGRAM = "hudilab_lessons.programs.other_spark"
# Settings that do not change results: a small Java on loopback, without a page.
_SMALL = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    MEMORY: "1g",
}


class OtherSpark:
    """A Spark session with its own settings, in a separate process until `close`."""

    def __init__(self, settings: Mapping[str, str], title: str = "the other Spark") -> None:
        """Start the session.

        Args:
            settings: Its Spark settings.
            title: The session's name in errors.

        Raises:
            JavaError: There is no Java.
        """
        self._title = title
        options = f"{settings.get(DRIVER_OPTIONS, '')} {FAST_START}".strip()
        chosen = {**_SMALL, **settings, DRIVER_OPTIONS: options}
        self._folder = tempfile.TemporaryDirectory(prefix="hudilab-")
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - see close
        self._process = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM, json.dumps(chosen)],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            start_new_session=True,  # so that an interrupted cell doesn't end it
        )
        self._to, self._from = (
            cast(IO[str], self._process.stdin),
            cast(IO[str], self._process.stdout),
        )

    def run(self, function: Callable[..., Any], **values: Any) -> Any:
        """Call a function in that process with its session and the values; return the result.

        Args:
            function: A function that uses only its parameters, because its source is written to a
                file. Parameters and result are JSON values.

        Raises:
            SessionError: The function raised an error, or the process has ended.
        """
        file = Path(self._folder.name, f"{function.__name__}.py")
        # Annotations may name what only the notebook has.
        head = "from __future__ import annotations\n\n"
        file.write_text(head + dedent(getsource(function)), encoding="utf-8")
        job = json.dumps([str(file), function.__name__, values])
        reply = ""
        with suppress(OSError):  # the process has ended
            self._to.write(f"{job}\n")
            self._to.flush()
            reply = self._from.readline()
        if not reply:
            self._errors.seek(0)
            raise SessionError(
                f"the session of {self._title} has ended: {root_cause(self._errors.read())}",
                "restart the kernel, and run the lesson again",
            )
        result, error = json.loads(reply)
        if error:
            raise SessionError(f"{self._title}: {root_cause(error)}")
        return result

    def sql(self, query: str) -> pd.DataFrame:
        """Return the rows of an SQL query; values that JSON lacks are texts.

        Raises:
            SessionError: The query failed, or the process has ended.
        """
        columns, rows = self.run(_rows, query=query)
        return pd.DataFrame(rows, columns=columns)

    def close(self) -> int:
        """End the session and its process; return the process's id."""
        with suppress(OSError):  # the process has ended
            self._to.close()
        self._process.wait()
        self._from.close()
        self._errors.close()
        self._folder.cleanup()
        return self._process.pid


def _rows(spark: Any, query: str) -> Any:
    found = spark.sql(query)
    plain = (bool, float, int, str, type(None))
    rows = [[v if isinstance(v, plain) else str(v) for v in row] for row in found.collect()]
    return found.columns, rows


def _environment() -> dict[str, str]:
    return without_session(for_java()) | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
