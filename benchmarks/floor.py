"""What Hudi alone costs a batch, and what each layer above it adds, in one warm process.

Usage: python benchmarks/floor.py [--rows N] [--rounds N] [--batches N] [--picture FILE]
In each round every layer writes the same number of batches to a table of its own; a layer's figure
is the median of its batches. A round before them does not count. The layers, from below: Spark's
Parquet writer, Hudi's writer with the lab's options, the same two behind a stream, and the ledger
without and with table services. Of the ledger, each step of a batch is timed on its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from pyspark.sql import DataFrame, SparkSession
from spark_peer import KEY, ORDERING, PARTITIONS, SEED, conf_dir, spread, wait

from hudi_sink.metadata import closing_options
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_jobs.settings import load_settings
from hudilab_lessons.plots import SERIES
from hudilab_spark.session import open_session
from hudilab_spark.warehouse import prepare

WARM = 8  # batches of a layer that do not count
NEVER = 1_000_000
INLINE, ASYNC = "ledger, services inline", "ledger, services beside"
LAYERS = ("parquet", "hudi", "parquet stream", "hudi stream", "ledger", INLINE, ASYNC)


class Bench:
    """A session, and the tables that a round writes in it."""

    def __init__(self, spark: SparkSession, home: Path, rows: int, batches: int) -> None:
        self.spark, self.home, self.rows, self.batches = spark, home, rows, batches
        self.steps = defaultdict[str, list[float]](list)
        self.number = 0

    def spec(self, location: TableLocation) -> TableSpec:
        return TableSpec(
            name=location.name,
            record_key=KEY,
            partition=("sensor_id",),
            ordering=ORDERING,
            operation="bulk_insert",
        )

    def location(self, name: str) -> TableLocation:
        self.number += 1
        return prepare(load_settings(), run_id=f"{name.split(',')[0].split()[0]}_{self.number}")

    def run(self, layer: str) -> list[float]:
        """Milliseconds of each counted batch."""
        if "stream" in layer or "ledger" in layer:
            return self._stream(layer)
        location = self.location(layer)
        write = self._writer(layer, location)
        # The same rows each time, made before: other numbers in a plan are other code to compile.
        readings = sensor_readings(self.spark, self.rows, sensors=PARTITIONS, seed=SEED)
        rows, seconds = spread(readings).localCheckpoint(), []
        for number in range(WARM + self.batches):
            began = time.perf_counter()
            write(rows, number)
            seconds.append((time.perf_counter() - began) * 1000)
        return seconds[WARM:]

    def _writer(self, layer: str, location: TableLocation) -> Callable[[DataFrame, int], None]:
        options = closing_options(location.table) | self.spec(location).write_options()

        def parquet(rows: DataFrame, _: int) -> None:
            rows.write.partitionBy("sensor_id").mode("append").parquet(location.table)

        def hudi(rows: DataFrame, _: int) -> None:
            rows.write.format("hudi").options(**options).mode("append").save(location.table)

        return parquet if layer == "parquet" else hudi

    def _stream(self, layer: str) -> list[float]:
        location, total = self.location(layer), WARM + self.batches
        sizes = {"rows_per_batch": self.rows, "rows": self.rows * total}
        rows = spread(sensor_stream(self.spark, sensors=PARTITIONS, seed=SEED, **sizes))
        stream = rows.writeStream.option("checkpointLocation", location.checkpoint)
        if layer == "parquet stream":
            path = stream.option("path", location.table)
            query = path.format("parquet").partitionBy("sensor_id").start()
        elif layer == "hudi stream":
            query = stream.foreachBatch(self._writer("hudi", location)).start()
        else:
            sink = ExactlyOnceSink(
                *(self.spark, self.spec(location), location, {"seed": SEED}, total),
                tidy_every=NEVER if layer == "ledger" else None,
                async_services=layer == ASYNC,
            )
            steps = self.steps if layer == "ledger" else defaultdict[str, list[float]](list)
            watch_steps(sink, steps)
            query = stream.foreachBatch(sink.write_batch).start()
            progress = wait(query, total)
            sink.close()
            return [batch["triggerExecution"] for batch in progress][WARM:]
        return [batch["triggerExecution"] for batch in wait(query, total)][WARM:]


def watch_steps(sink: ExactlyOnceSink, steps: dict[str, list[float]]) -> None:
    """Note the milliseconds of each step of the ledger's batches."""
    inside: Any = sink

    def watch(owner: Any, name: str, label: str) -> None:
        whole = getattr(owner, name)

        def watched(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return whole(*args, **named)
            finally:
                steps[label].append((time.perf_counter() - began) * 1000)

        setattr(owner, name, watched)

    watch(inside, "begin", "ledger: begin")
    watch(inside._checkpoint, "owner", "  of these: the owner's note")
    watch(inside._rules, "find", "  of these: the timeline's newest batch")
    watch(inside._checkpoint, "plan", "  of these: the offsets")
    watch(inside._guard, "check_columns", "  of these: the columns")
    watch(inside._guard, "rows", "ledger: rows")
    watch(inside, "fenced", "ledger: fence, planned")
    watch(inside, "_write", "ledger: the whole callback")


def table(seconds_by_peer: dict[str, list[float]], steps: dict[str, list[float]]) -> Iterator[str]:
    """The layers, and what they add up to, as Markdown."""
    middle = {layer: statistics.median(times) for layer, times in seconds_by_peer.items() if times}
    yield "| layer | median ms | mean ms |\n|---|---|---|"
    for layer, value in middle.items():
        yield f"| {layer} | {value:.0f} | {statistics.mean(seconds_by_peer[layer]):.0f} |"
    stream = middle["parquet stream"] - middle["parquet"]
    floor = middle["hudi"] + stream
    lab, without = middle[ASYNC], statistics.mean(seconds_by_peer["ledger"])
    tidying = [statistics.mean(seconds_by_peer[layer]) - without for layer in (INLINE, ASYNC)]
    yield f"\nSpark's stream {stream:.0f} ms; floor and stream {floor:.0f} ms"
    yield f"lab to floor and stream {lab / floor:.2f}"
    yield f"lab to Parquet's stream {lab / middle['parquet stream']:.2f}"
    yield f"services, ms a batch on average: {tidying[0]:.0f} inline, {tidying[1]:.0f} beside"
    for step, times in steps.items():
        yield f"| {step} | {statistics.median(times):.1f} | {len(times)} |"


def picture(seconds_by_peer: dict[str, list[float]], title: str, file: Path) -> None:
    """What each layer adds to the one below it, from left to right."""
    middle = {layer: statistics.median(times) for layer, times in seconds_by_peer.items()}
    stream = middle["parquet stream"] - middle["parquet"]
    hudi, sink = middle["hudi"], middle["ledger"]
    parts = {
        "rows into Parquet": middle["parquet"],
        "Hudi's commit": hudi - middle["parquet"],
        "Spark's stream": stream,
        "foreachBatch": middle["hudi stream"] - hudi - stream,
        "the ledger": sink - middle["hudi stream"],
        "services beside, on average": statistics.mean(seconds_by_peer[ASYNC])
        - statistics.mean(seconds_by_peer["ledger"]),
    }
    figure, axes = plt.subplots(figsize=(10, 2.2))
    left = 0.0
    for colour, (name, width) in zip(SERIES, parts.items(), strict=False):
        axes.barh(0, width, left=left, color=colour, label=f"{name}: {width:.0f} ms")
        left += max(width, 0.0)
    axes.set_yticks([])
    axes.set_xlabel("ms a batch, medians")
    axes.set_title(title, fontsize=10)
    axes.legend(ncols=3, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.35), frameon=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(file, dpi=100, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        conf = conf_dir("hudi_append", home, arguments.set)
        os.environ |= {"HUDILAB_HOME": folder, "HUDILAB_CONF": str(conf)}
        spark = open_session(load_settings(), app="floor")
        bench = Bench(spark, home, arguments.rows, arguments.batches)
        results = defaultdict[str, list[float]](list)
        for number in range(-1, arguments.rounds):  # the first one only warms the JVM up
            order = LAYERS if number % 2 == 0 else LAYERS[::-1]
            if number == 0:
                results.clear()
                bench.steps.clear()
            for layer in order:
                results[layer] += bench.run(layer)
        spark.stop()
    ordered = {layer: results[layer] for layer in LAYERS}
    print(*table(ordered, bench.steps), sep="\n")
    if arguments.picture:
        picture(ordered, f"A batch of {arguments.rows:,} rows", arguments.picture)
    if arguments.json:
        arguments.json.write_text(json.dumps({"layers": ordered, "steps": bench.steps}))


if __name__ == "__main__":
    main()
