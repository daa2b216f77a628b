"""Stream a folder of your own files into a Hudi table, as a group of the settings describes it.

Run `hudilab stream NAME`, `python -m hudilab.jobs.stream NAME`, or the same file with spark-submit;
NAME is that of a group `pipeline.NAME` in `application_properties.json`. With `--check` the job
reads one file, shows what it would store, and writes nothing. It deletes nothing: started again, it
resumes from its checkpoint. The table holds each row of each file once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import ConfigError
from hudilab.jobs import RunId, as_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudilab.jobs.pipeline.source import Source
    from hudilab.paths import Place
    from hudilab.runtime.pipelines import Pipeline
    from hudilab.runtime.settings import Settings
    from hudilab.writer.catalog.register import Catalog
    from hudilab.writer.spec import TableSpec

__all__ = ["Options", "command", "run"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Stream a folder of files into a Hudi table, exactly once, as a group of the settings says."""

    name: Annotated[str, typer.Argument(help="Of the group pipeline.NAME in the settings.")]
    check: Annotated[
        bool, typer.Option("--check", help="Show what would be stored, and write nothing.")
    ] = False
    available_now: Annotated[
        bool, typer.Option(help="Write the files that are there, then exit.")
    ] = False
    trigger_seconds: Annotated[float, typer.Option(help="Seconds between micro-batches.")] = 10.0
    run_id: RunId = ""


def run(options: Options) -> Iterator[str]:
    """Check the pipeline, then run its stream to its end; yield lines about the table.

    Raises:
        LabError: The group, the folder, the query or the checkpoint is wrong (checked before
            anything is written), or the stream failed.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab.jobs.pipeline.preview import preview
    from hudilab.jobs.pipeline.source import Source
    from hudilab.runtime.places import catalog_of, prepare
    from hudilab.runtime.session import open_session
    from hudilab.runtime.settings import load_settings
    from hudilab.writer.spec import TableSpec

    settings = load_settings()
    group = _group(settings, options.name)
    place = prepare(settings, run_id=options.run_id, table=group.table_name)
    spec = TableSpec(name=place.name, **group.table())
    spark = open_session(settings, app=options.name, names=False)
    try:
        source = Source(spark, settings, options.name, group)
        source.check()
        if options.check:
            yield from preview(spark, source, spec, place)
            return
        catalog = catalog_of(spark, settings, spec, place)
        _write(spark, source, spec, catalog, options)
        catalog.register()
        yield _summary(spark, place)
    finally:
        spark.stop()


def _group(settings: Settings, name: str) -> Pipeline:
    from hudilab.runtime.pipelines import PREFIX

    if (found := settings.pipelines.get(name)) is not None:
        return found
    there = ", ".join(settings.pipelines) or "none"
    raise ConfigError(
        f"there is no group {PREFIX + name!r} in {settings.source} (pipelines found: {there}); "
        "add it with the keys source.format, source.path, table.name, record.key and ordering"
    )


def _write(
    spark: SparkSession, source: Source, spec: TableSpec, catalog: Catalog, options: Options
) -> None:
    from hudilab.runtime.streams import drain, stop_on_signal
    from hudilab.writer.ledger import BatchLedger

    place, identity = catalog.place, {"source": f"{source.group.source_format} of {source.path}"}
    quarantine = source.group.quarantine == "true"
    ledger = BatchLedger(spark, spec, place, identity, quarantine=quarantine)
    stream = source.stream().writeStream.foreachBatch(catalog.after(ledger.write_batch))
    stream = stream.option("checkpointLocation", place.checkpoint)
    if options.available_now:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{options.trigger_seconds} seconds")
    with stop_on_signal() as signals:
        drain(stream.start(), deadline=math.inf, asked=signals)


def _summary(spark: SparkSession, place: Place) -> str:
    from hudilab.writer.commits import Commits
    from hudilab.writer.files import exists

    if not exists(spark, place.table):
        return f"hudilab: stopped before the first commit; table={place.table}"
    rows = spark.read.format("hudi").load(place.table).count()
    commits = Commits(spark, place.table).count()
    return f"hudilab: rows={rows} commits={commits} table={place.table}"


command = as_command(Options, run)

if __name__ == "__main__":
    typer.run(command)
