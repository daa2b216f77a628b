"""Run functions with an older release of Hudi in a separate Python and Java process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from typing import IO, Any, cast

from hudilab.errors import SessionError, root_cause
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_lessons.faults import without_session
from hudilab_spark.conf import MEMORY, overlay
from hudilab_spark.environment import for_java
from hudilab_spark.fetch import fetch
from hudilab_spark.jars import problem, wanted
from hudilab_spark.java import FAST_START, find_java, quoted, spark_home
from hudilab_spark.jvm import DRIVER_OPTIONS
from hudilab_spark.preflight import java_flags

GROUPS = {"0.15": "hudi_0_15", "1.0": "hudi_1_0"}
_PROGRAM = "hudilab_lessons.programs.older_release"


class Release:
    """A Spark session with an older release of Hudi, in a separate process until `close`."""

    def __init__(self, settings: Settings, release: str) -> None:
        """Fetch the release's jar if it is missing (110 MB), and start the session.

        Args:
            release: A key of `GROUPS`.

        Raises:
            SessionError: The warehouse is not on this machine's disk.
            JarError, JavaError: The jar cannot be fetched, or there is no Java.
        """
        if not settings.is_local:
            raise SessionError(
                f"Hudi {release} runs in a separate Spark, which can only access this disk",
                "run the lesson with the local warehouse: -p runtime LOCAL",
            )
        self.release = release
        self._folder = tempfile.TemporaryDirectory(prefix="hudilab-")
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - see close
        self._process = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM, json.dumps(_session(settings, GROUPS[release]))],
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
                f"the session of Hudi {self.release} has ended: {root_cause(self._errors.read())}",
                "restart the kernel, and run the lesson again",
            )
        result, error = json.loads(reply)
        if error:
            raise SessionError(f"Hudi {self.release}: {root_cause(error)}")
        return result

    def close(self) -> None:
        """End the session and its process."""
        with suppress(OSError):  # the process has ended
            self._to.close()
        self._process.wait()
        self._from.close()
        self._errors.close()
        self._folder.cleanup()


def _session(settings: Settings, group: str) -> dict[str, str]:
    """Return the Spark settings of a lesson's session, with another release's jar."""
    folder = settings.project / "jars"
    if any(problem(folder, jar) for jar in wanted(folder, [group])):
        print(f"an older release of Hudi is missing: {wanted(folder, [group])[0].file}, 110 MB")
    jars = fetch(folder, [group], say=lambda _: None)
    # The second jar of the lab's own group is a file system that its settings use.
    jars += fetch(folder, ["core"], say=lambda _: None)[1:]
    chosen = read_options(settings.project / "conf" / "spark-defaults.conf") | overlay(settings)
    flags = quoted(java_flags(settings.home))
    return chosen | {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        DRIVER_OPTIONS: f"{chosen[DRIVER_OPTIONS]} {FAST_START} {flags}",
        MEMORY: "1g",
        "spark.ui.enabled": "false",
    }


def _environment() -> dict[str, str]:
    return without_session(for_java()) | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
