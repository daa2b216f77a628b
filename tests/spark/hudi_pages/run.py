"""Run statements as on Hudi's pages in the lab's session and in a plain one, and compare.

Usage: run.py [--keep] [TOPIC...]; without a topic, all. Each session is a process of its own with
an empty home. Prints each step whose results differ, and exits with 1 if there is one. With
`--keep`, the plain session's results become the kept ones.

A topic is a file of statements, separated by lines that hold only `;`, or a Python file of
functions with the parameters `spark` and `home`. `{home}` is the session's folder, `{trips.0}` the
requested time of the table's first completed instant, and `{trips.-1.done}` the completion time of
its newest.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from hudilab.settings import load_settings
from hudilab_spark.java import find_java, spark_home
from hudilab_spark.session import open_session

HERE = Path(__file__).parent
PROJECT = HERE.parents[2]
TOPICS = [*sorted(file.stem for file in HERE.glob("*.sql")), "dataframes"]
# As Hudi's pages start a session; on this machine's own address, and with tasks for its few cores.
PLAIN = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
UNSET = ("HUDI_CONF_DIR", "SPARK_CONF_DIR", "HUDILAB_CONF", "RUNTIME_ENV", "IS_LOCAL")
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What differs between two runs, in this order.
VARYING = (
    (re.compile(rf"{UUID}(?:-\d+)?_\d+-\d+-\d+_\d{{17}}"), "BASE"),
    (re.compile(rf"{UUID}(?:-\d+)?"), "UUID"),
    (re.compile(r"(?<=_)\d+-\d+-\d+\b"), "TOKEN"),
    (re.compile(r"\b20[2-9]\d-[01]\d-[0-3]\d[ T][0-2]\d:\d\d:\d\d(?:[.,]\d+)?Z?"), "TIME"),
    (re.compile(r"(?<![\d-])[01]\d-[0-3]\d [0-2]\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"(?<!\d)20[2-9]\d{14}(?!\d)"), "INSTANT"),
    (re.compile(r"(?<=INSTANT_)\d+_\d+"), "SEQUENCE"),
    (re.compile(r"(?<!\d)1[78]\d{11}(?!\d)"), "MILLIS"),
    (re.compile(r"#\d+L?\b|@[0-9a-f]{5,8}\b"), "#"),
    (re.compile(r"\b\d+(?:\.\d+)? ?[KMG]i?B\b|(?<=fileSize=)\d+"), "SIZE"),
    (re.compile(r"(?<=duration=)[\d.]+secs?"), "TIME"),
)
SIZES = re.compile(
    r"(?i)size|bytes|duration|time_?taken|radio|quota|consumed|scheduled$|^(min|max|avg|\d+th|std_dev)$"
)
INSTANTS = re.compile(r"\{(\w+)\.(-?\d+)(\.done)?\}")
Step = Callable[[SparkSession, Path], DataFrame | None]


def instant(home: Path, table: str, number: str, done: str | None) -> str:
    timeline = next(home.rglob(f"{table}/.hoodie/timeline"))
    names = [file.name for file in timeline.iterdir() if re.match(r"\d+_\d+\.", file.name)]
    requested, completed = sorted(names)[int(number)].partition(".")[0].split("_")
    return completed if done else requested


def steps(topic: str) -> Iterator[tuple[str, Step]]:
    """The steps of a topic: what is kept of each, and what runs it."""
    if (file := HERE / f"{topic}.sql").exists():
        for text in re.split(r"(?m)^;$", file.read_text("utf-8")):
            if statement := re.sub(r"(?m)^--.*\n", "", text).strip():
                yield statement, partial(run_sql, statement)
        return
    for name, found in runpy.run_path(str(HERE / f"{topic}.py"), run_name=topic).items():
        if getattr(found, "__module__", "") == topic and not name.startswith("_"):
            yield name, found


def run_sql(statement: str, spark: SparkSession, home: Path) -> DataFrame:
    text = statement.replace("{home}", str(home))
    return spark.sql(INSTANTS.sub(lambda found: instant(home, *found.groups()), text))


def steady(text: str, home: Path) -> str:
    text = re.sub(
        rf"(?:file:/*)?{re.escape(str(home))}(?:/spark-warehouse(?:/session-\w+)?)?", "HOME", text
    )
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def rows(frame: DataFrame, statement: str, home: Path) -> list[str]:
    """The columns' names, then each row; sorted, unless the statement orders them."""
    names = frame.columns
    found = [
        steady(
            " | ".join(
                "N" if SIZES.search(name) and isinstance(value, int | float) else str(value)
                for name, value in zip(names, row, strict=True)
            ),
            home,
        )
        for row in frame.collect()
    ]
    return [" | ".join(names), *(found if "ORDER BY" in statement else sorted(found))]


def failure(error: Exception, home: Path) -> str:
    """An error's class and the first line of its message, and those of its first cause."""
    words = [f"{type(error).__name__}: {error}"]
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        words = [str(cause.toString())]
        while cause.getCause():
            cause = cause.getCause()
            words[1:] = [str(cause.toString())]
    return steady(" < ".join(text.strip().splitlines()[0] for text in words), home)


def run_topic(spark: SparkSession, topic: str, home: Path) -> list[list[Any]]:
    """Each step of a topic with its rows or its error."""
    before = {row.key for row in spark.sql("SET").collect()}
    results: list[list[Any]] = []
    for name, step in steps(topic):
        try:
            frame = step(spark, home)
            result: Any = rows(frame, name, home) if frame is not None and frame.columns else []
        except Exception as error:
            result = failure(error, home)
        results.append([name, result])
    for row in spark.sql("SET").collect():
        if row.key not in before:
            spark.conf.unset(row.key)
    return results


def plain_session(home: Path) -> SparkSession:
    for name in UNSET:
        os.environ.pop(name, None)
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home())}
    jar = next((PROJECT / "jars" / "core").glob("hudi-spark*.jar"))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", str(jar))
    builder = builder.config("spark.sql.warehouse.dir", str(home / "spark-warehouse"))
    for name, value in PLAIN.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def in_session(kind: str, home: Path, topics: list[str]) -> None:
    """Run topics in this process's session, and leave the results in its home."""
    os.chdir(home)
    spark = plain_session(home) if kind == "plain" else open_session(load_settings(), app="pages")
    for topic in topics:
        (home / f"{topic}.json").write_text(json.dumps(run_topic(spark, topic, home)))
    spark.stop()


def in_process(kind: str, topics: list[str]) -> dict[str, list[list[Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        command = [sys.executable, __file__, f"--{kind}", folder, *topics]
        env = os.environ | {"HUDILAB_HOME": folder}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return {topic: json.loads((home / f"{topic}.json").read_text()) for topic in topics}


def kept(topic: str) -> list[list[Any]]:
    found: list[list[Any]] = json.loads((HERE / f"{topic}.json").read_text("utf-8"))
    return found


def differences(results: Mapping[str, list[list[Any]]], topic: str) -> list[str]:
    """Where the sessions' results of a topic differ, unless differences.json allows it."""
    allowed = json.loads((HERE / "differences.json").read_text("utf-8")).get(topic, {})
    found = []
    (first, wanted), *others = results.items()
    for other, got in others:
        for (name, one), (_, two) in zip(wanted, got, strict=True):
            if one != two and name not in allowed:
                found.append(f"{topic}: {name}\n  {first}: {one}\n  {other}: {two}")
    return found


def main(arguments: list[str]) -> None:
    if arguments[:1] in (["--plain"], ["--lab"]):
        in_session(arguments[0][2:], Path(arguments[1]).resolve(), arguments[2:])
        return
    keep, topics = "--keep" in arguments, [name for name in arguments if name != "--keep"] or TOPICS
    plain = in_process("plain", topics)
    for topic in topics if keep else ():
        text = json.dumps(plain[topic], indent=1, ensure_ascii=False)
        (HERE / f"{topic}.json").write_text(text + "\n", "utf-8")
    lab = in_process("lab", topics)
    found = [
        difference
        for topic in topics
        for difference in differences(
            {"kept": kept(topic), "plain": plain[topic], "lab": lab[topic]}, topic
        )
    ]
    print("\n".join(found) or f"no differences in {sum(map(len, plain.values()))} steps")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
