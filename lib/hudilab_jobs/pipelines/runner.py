"""Run a pipeline: check its source, show what it would store, write it, report each batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.hive_sync import Catalog
from hudi_sink.schema_guard import SchemaGuard
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError, many
from hudilab.groups import PREFIX, FilePipeline, Pipeline, TablePipeline, TopicPipeline
from hudilab.paths import TableLocation
from hudilab.settings import Settings, load_settings
from hudilab.table import TableSpec
from hudilab_jobs.pipelines.sources import Changes, Folder, Source
from hudilab_spark.session import close_session, open_session
from hudilab_spark.streams import batches_done, stop_on_signal, until_end
from hudilab_spark.warehouse import catalog_of, prepare

SHOWN = 5  # rows of a preview


class Running(NamedTuple):
    """A pipeline's session, source and table, and the catalog that holds the table's name."""

    spark: SparkSession
    source: Source[Any]
    spec: TableSpec
    location: TableLocation
    catalog: Catalog

    def write(
        self,
        trigger: Mapping[str, Any] | None,
        as_json: bool = False,
        *,
        initial_load: bool = False,
    ) -> Iterator[str]:
        """Run the stream until its end or a signal; yield a line for each batch, and a last one.

        Without a trigger, it writes what has arrived; `initial_load` writes batch 0 alone.

        Raises:
            LabError: Source, checkpoint and table do not belong together, or the stream failed.
        """
        sink = ExactlyOnceSink(
            self.spark,
            self.spec,
            self.location,
            self.source.identity,
            quarantine=self.source.group.quarantine,
            initial_load=initial_load,
            async_services=self.source.group.async_services,
        )
        reports = Reports(self.source, sink, self.location, as_json=as_json)
        rows = self.source.stream(whole=initial_load)
        stream = rows.writeStream.foreachBatch(self.catalog.after(reports.write_batch))
        stream = stream.option("checkpointLocation", self.location.checkpoint)
        with stop_on_signal() as signals:
            query = stream.trigger(**(trigger or {"availableNow": True})).start()
            with closing(until_end([query], signals)) as turns:
                for _ in turns:
                    yield from reports.new(query)
        sink.close()
        self.catalog.register()
        yield self._summary(as_json)

    def _summary(self, as_json: bool) -> str:
        rows = commits = 0
        if exists(self.spark, self.location.table):
            rows = self.spark.read.format("hudi").load(self.location.table).count()
            commits = Commits(self.spark, self.location.table).count()
        if as_json:
            return json.dumps({"table": self.location.table, "rows": rows, "commits": commits})
        if not commits:
            return f"hudilab: stopped before the first commit; table={self.location.table}"
        return f"hudilab: rows={rows} commits={commits} table={self.location.table}"


class Reports:
    """Writes batches with a sink and reports each one once, as text or as JSON."""

    def __init__(
        self, source: Source[Any], sink: ExactlyOnceSink, location: TableLocation, *, as_json: bool
    ) -> None:
        self._source, self._sink, self._location = source, sink, location
        self._as_json = as_json
        self._reported = -1  # the newest batch
        self._quarantined: dict[int, int] = {}  # rows, by batch

    def write_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch, and keep how many rows were set aside."""
        self._sink.write_batch(batch, batch_id)
        self._quarantined[batch_id] = self._sink.set_aside

    def new(self, query: StreamingQuery) -> Iterator[str]:
        """Yield a line for each batch that has ended since the last call."""
        # This runs ten times a second, and all progress is up to 100 texts of JSON.
        if batches_done(query) <= self._reported + 1:
            return
        for progress in query.recentProgress:
            number = int(progress["batchId"])
            # Spark also reports that there was nothing to do.
            if number > self._reported and "addBatch" in progress["durationMs"]:
                self._reported = number
                yield self._line(number, progress)

    def _line(self, number: int, progress: Mapping[str, Any]) -> str:
        rows, speed = int(progress["numInputRows"]), progress.get("processedRowsPerSecond", 0.0)
        quarantined, unit = self._quarantined.pop(number, 0), self._source.unit
        behind = self._source.behind(progress, self._location)
        if self._as_json:
            report = {"batch": number, "rows": rows, "rows_per_second": round(speed, 1)}
            return json.dumps(report | {"set_aside": quarantined, f"{unit}s_behind": behind})
        return (
            f"batch {number}: {many(rows, 'row')} ({speed:,.0f} a second), {quarantined:,} set "
            f"aside, {many(behind, unit)} behind"
        )


def preview(pipeline: Running) -> Iterator[str]:
    """Yield what the source holds, its first rows as stored, and which rows could not be stored.

    Writes nothing.

    Raises:
        LabError: The sample, the spec or the existing table does not fit.
    """
    spark, source, spec, location, _ = pipeline
    content, batch = source.describe()
    yield f"source: {content}"
    sample = source.sample()
    if sample is None:
        yield f"nothing to show before the first {source.unit} is there; nothing was written"
        return
    guard = SchemaGuard(spark, spec, location.table, Commits(spark, location.table), fills=False)
    guard.check()
    guard.check_columns(sample.rows, [])
    count = sample.rows.count()
    yield f"sample: {many(count, 'row')} of {sample.origin}, stored as"
    yield sample.rows._jdf.showString(SHOWN, 40, False).rstrip("\n")
    by_problem = sample.rows.groupBy(guard.problem(guard.layout()).alias("problem")).count()
    fate = "set aside" if source.group.quarantine else "refused"
    for problem, rows in sorted(tuple(row) for row in by_problem.dropna().collect()):
        yield f"{many(rows, 'row')} of the sample would be {fate}: {problem}"
    yield from _layout(sample.rows, count, spec)
    yield f"a batch reads up to {batch} of what is there"
    yield f"table: {location.table}; nothing was written"


def _layout(rows: DataFrame, count: int, spec: TableSpec) -> Iterator[str]:
    """Yield how the sample's rows would be spread over files, and about how large they are."""
    # Spark's cache is columnar and compressed, as Parquet is.
    size = int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    keys, partitions = rows.select(
        F.count_distinct(F.struct(*spec.record_key)),
        F.count_distinct(F.struct(*spec.partition)) if spec.partition else F.lit(1),
    ).first() or (0, 0)
    yield (
        f"the sample has {many(keys, 'key')} ({', '.join(spec.record_key)}) in "
        f"{many(partitions, 'partition')}; {many(count, 'row')} take about {size / 1024:,.0f} kB"
    )
    groups = f"up to {many(spec.buckets, 'file')}" if spec.buckets else "at least one file"
    yield f"a batch writes {groups} in each partition that it has rows of"


@contextmanager
def opened(name: str, run_id: str) -> Iterator[Running]:
    """Open a session for the pipeline NAME, and check its source; stop the session at the end.

    Raises:
        LabError: The group, the source, the schema or the query is wrong.
    """
    settings = load_settings()
    group = find_group(settings, name)
    table = table_of(settings, group, run_id)
    spark = open_session(settings, app=name, groups=jars_of(group), names=False)
    try:
        yield checked(spark, settings, name, *table)
    finally:
        close_session(spark)


def find_group(settings: Settings, name: str) -> Pipeline:
    """Return the settings' group `pipeline.NAME`; raise ConfigError if there is none."""
    if name in settings.pipelines:
        return settings.pipelines[name]
    names = ", ".join(settings.pipelines) or "none"
    raise ConfigError(
        f"there is no group {PREFIX + name!r} in {settings.source} (pipelines found: {names})",
        "add it with the keys source.format, source.path, table.name, record.key and ordering",
    )


def table_of(
    settings: Settings, group: Pipeline, run_id: str = ""
) -> tuple[TableSpec, TableLocation]:
    """Return the spec and the location of a pipeline's table."""
    location = prepare(settings, run_id=run_id, table=group.table_name)
    return TableSpec(name=location.name, **group.table()), location


def checked(
    spark: SparkSession, settings: Settings, name: str, spec: TableSpec, location: TableLocation
) -> Running:
    """Return the pipeline NAME, its source checked, with a table that `table_of` returned.

    Raises:
        LabError: The group, the source, the schema or the query is wrong.
    """
    source = _source(spark, settings, name, find_group(settings, name))
    source.check()
    return Running(spark, source, spec, location, catalog_of(spark, settings, spec, location))


def _source(spark: SparkSession, settings: Settings, name: str, group: Pipeline) -> Source[Any]:
    if isinstance(group, TopicPipeline):
        # Imported here: only topics need the Kafka client.
        from hudilab_jobs.pipelines.topic import Topic

        return Topic(spark, settings, name, group)
    if isinstance(group, TablePipeline):
        return Changes(spark, settings, name, group)
    return Folder(spark, settings, name, cast(FilePipeline, group))


def jars_of(group: Pipeline) -> list[str]:
    """Return the groups of jars that a pipeline's session needs."""
    groups = ["core", *(["avro"] if group.is_avro else [])]
    if isinstance(group, TopicPipeline):
        from hudilab_jobs.kafka.connection import Access

        iam = Access(group.bootstrap_servers).iam
        groups += ["kafka", *(["msk"] if iam else [])]
    return groups
