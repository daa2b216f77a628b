"""Stream seeded sensor readings into a Hudi table: lesson 02's stream as a program.

Run `python -m hudilab_jobs.sensor_readings`, or the same file with spark-submit; `--help` lists
the options, which are the notebook's parameters. The job resumes from its checkpoint and ends after
its last batch. Ctrl-C ends it after the current batch. The table contains each reading once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.hive_sync import Catalog
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import check_sizes, readings_table, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_jobs import AsyncServices, RunId, TableType, short_errors
from hudilab_jobs.settings import load_settings
from hudilab_spark.metastore import catalog_of
from hudilab_spark.session import close_session, open_session
from hudilab_spark.signals import stop_on_signal
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare


@short_errors()
def command(  # noqa: PLR0913 - Typer makes an option of each
    rows: Annotated[int, typer.Option(help="Total number of readings.")] = 5_000,
    batches: Annotated[
        int, typer.Option(help="Number of micro-batches, and therefore of commits.")
    ] = 5,
    sensors: Annotated[
        int, typer.Option(help="Number of sensors, and therefore of partitions.")
    ] = 11,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 42,
    table_type: TableType = "COPY_ON_WRITE",
    trigger_seconds: Annotated[
        float,
        typer.Option(help="Seconds from the start of one micro-batch to the next; 0: no wait."),
    ] = 0.0,
    async_services: AsyncServices = True,
    run_id: RunId = "",
    runtime: Annotated[str, typer.Option(help="Runtime for this run; overrides RUNTIME_ENV.")] = "",
    database: Annotated[
        str, typer.Option(help="Database; overrides database.name in the settings.")
    ] = "",
) -> None:
    """Stream seeded sensor readings into a Hudi table, exactly once."""
    sizes = {"rows": rows, "batches": batches, "sensors": sensors, "seed": seed}
    check_sizes(**sizes, trigger_seconds=trigger_seconds)
    settings = load_settings(runtime)
    location = prepare(settings, run_id=run_id, database=database)
    spec = readings_table(name=location.name, table_type=table_type)
    spark = open_session(settings, app="sensor_readings", names=False)
    try:
        catalog = catalog_of(spark, settings, spec, location)
        write(spark, location, spec, sizes, trigger_seconds, async_services, catalog)
        catalog.register()
        line = _summary(spark, location)
    finally:
        close_session(spark)
    print(line, flush=True)


def write(  # noqa: PLR0913 - the job's options
    spark: SparkSession,
    location: TableLocation,
    spec: TableSpec,
    sizes: Mapping[str, int],
    trigger_seconds: float = 0.0,
    async_services: bool = True,
    catalog: Catalog | None = None,
) -> StreamingQuery:
    """Run the stream from its checkpoint to its last batch; return its query.

    Args:
        sizes: rows, batches, sensors and seed, which must not change for a checkpoint.

    Raises:
        StreamError: The stream was refused or failed.
    """
    rows, batches = sizes["rows"], sizes["batches"]
    readings = sensor_stream(
        spark,
        rows_per_batch=-(-rows // batches),
        sensors=sizes["sensors"],
        seed=sizes["seed"],
        rows=rows,
    )
    sink = ExactlyOnceSink(spark, spec, location, sizes, batches, async_services=async_services)
    write_batch = catalog.after(sink.write_batch) if catalog else sink.write_batch
    stream = readings.writeStream.foreachBatch(write_batch)
    stream = stream.option("checkpointLocation", location.checkpoint)
    stream = stream.trigger(processingTime=f"{trigger_seconds} seconds")
    with stop_on_signal() as signals:
        query = drain(stream.start(), batches=batches, deadline=math.inf, signals=signals)
    sink.close()
    return query


def _summary(spark: SparkSession, location: TableLocation) -> str:
    """Return the line that lesson 02 prints about the table."""
    if not exists(spark, location.table):
        return f"hudilab: stopped before the first commit; table={location.table}"
    table = spark.read.format("hudi").load(location.table)
    commits = Commits(spark, location.table).count()
    partitions = table.select("sensor_id").distinct().count()
    return (
        f"hudilab: rows={table.count()} commits={commits} partitions={partitions} "
        f"table={location.table}"
    )


if __name__ == "__main__":
    typer.run(command)
