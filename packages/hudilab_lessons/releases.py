"""Run functions with an older release of Hudi in a separate Python and Java process."""

from __future__ import annotations

import os

from hudilab.errors import SessionError
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_lessons.other_spark import OtherSpark
from hudilab_spark.conf import MEMORY, overlay
from hudilab_spark.fetch import fetch
from hudilab_spark.jars import problem, wanted
from hudilab_spark.java import quoted
from hudilab_spark.jvm import DRIVER_OPTIONS
from hudilab_spark.preflight import java_flags

GROUPS = {"0.15": "hudi_0_15", "1.0": "hudi_1_0"}


class Release(OtherSpark):
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
        super().__init__(_session(settings, GROUPS[release]), f"Hudi {release}")


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
        DRIVER_OPTIONS: f"{chosen[DRIVER_OPTIONS]} {flags}",
        MEMORY: "1g",
        "spark.ui.enabled": "false",
    }
