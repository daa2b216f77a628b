"""Run a pipeline: check the source, preview the rows, write them, report each batch."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.hive_sync import Catalog
from hudi_sink.rows import REFUSED
from hudi_sink.schema_guard import SchemaGuard
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import many
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab.table import TableSpec
from hudilab_jobs.groups import ChangePipeline, FilePipeline, Pipeline, TablePipeline, TopicPipeline
from hudilab_jobs.pipelines.metrics import Gauges, metrics_settings
from hudilab_jobs.pipelines.misnamed import forget_misnamed, keep_misnamed, plan_again
from hudilab_jobs.pipelines.repeatable import check_repeatable
from hudilab_jobs.pipelines.restart import changes, keep, keys_of_start, last_start, refuse
from hudilab_jobs.pipelines.sources import ROWS, Changes, Folder, Source
from hudilab_jobs.settings import checkpoint_of, find_group, find_groups, together
from hudilab_spark.metastore import catalog_of
from hudilab_spark.session import close_session, open_session
from hudilab_spark.signals import stop_on_signal
from hudilab_spark.streams import batches_done, until_end
from hudilab_spark.warehouse import prepare

SHOWN = 5  # rows of a preview
MINUTE = 60.0
_log = logging.getLogger("hudilab_jobs")


class Running(NamedTuple):
    """A pipeline's session, source and table, and the catalog that registers the table.

    Attributes:
        others: Further pipelines in the same query, with the same checkpoint.
    """

    spark: SparkSession
    source: Source[Any]
    spec: TableSpec
    location: TableLocation
    catalog: Catalog
    others: tuple[Running, ...] = ()

    @property
    def tables(self) -> tuple[Running, ...]:
        """This pipeline, then the others of its query."""
        return (self, *self.others)

    def write(
        self,
        trigger: Mapping[str, Any] | None,
        as_json: bool = False,
        *,
        initial_load: bool = False,
        accept_select: bool = False,
        signals: list[int] | None = None,
        show: Callable[[str], object] = str,
    ) -> Iterator[str]:
        """Run the stream until its end or a signal; yield a line for each batch, and a summary.

        Args:
            trigger: Spark's trigger; without one, the stream writes the available rows and ends.
            initial_load: Write batch 0 alone.
            accept_select: Accept a changed `select`.
            signals: See `stop_on_signal`.
            show: Called with the stream's current activity.

        Raises:
            LabError: Source, checkpoint and table do not belong together, or the stream failed.
        """
        gauges = self._gauges()  # refuses the port before a write
        started = []
        for table in self.tables:
            keys = keys_of_start(table.source.group)
            last = last_start(table.spark, table.location)
            changed = changes(last, keys) if last else []
            refuse(table.source, changed, accept_select=accept_select)
            table.source.check_offsets(table.location.checkpoint)
            started += [(table, keys)] if keys != last else []
        sinks = [table._sink(initial_load) for table in self.tables]
        if isinstance(self.source, Folder) and (
            line := plan_again(self.spark, self.location, self.source.sizes)
        ):
            _log.warning(line)
        loads = Commits(self.spark, self.location.table) if initial_load else None
        parts = [(table.source, sink) for table, sink in zip(self.tables, sinks, strict=True)]
        reports = Reports(parts, self.location, as_json=as_json, loads=loads)
        show("starting the stream")
        for table, keys in started:
            keep(table.spark, table.location, keys)
        reports.name_unread()
        rows = self.source.stream(whole=initial_load)
        write_batch: Callable[[DataFrame, int], None] = reports.write_batch
        for table in self.tables:
            write_batch = table.catalog.after(write_batch)
        stream = rows.writeStream.foreachBatch(write_batch)
        stream = stream.queryName(self.location.name)  # part of the names of Spark's own metrics
        stream = stream.option("checkpointLocation", self.location.checkpoint)
        with gauges as reports.gauges, stop_on_signal(signals) as received:
            query = stream.trigger(**(trigger or {"availableNow": True})).start()
            with closing(until_end([query], received)) as turns:
                for _ in turns:
                    show(reports.activity(query))
                    yield from reports.new(query)
                    reports.name_unread(once_a_minute=True)
        reports.name_unread()
        show("waiting for table services")
        for table, sink in zip(self.tables, sinks, strict=True):
            sink.close()
            table.catalog.register()
        if received:
            yield from (table._stopped(reports.reported, as_json) for table in self.tables)
            return
        show("counting the table's rows")
        yield from (table._summary(as_json) for table in self.tables)

    def _sink(self, initial_load: bool) -> ExactlyOnceSink:
        group = self.source.group
        with self.source.in_words():
            return ExactlyOnceSink(
                self.spark,
                self.spec,
                self.location,
                self.source.identity,
                shared=group.shared,
                lock=group.lock(),
                quarantine=group.quarantine,
                initial_load=initial_load,
                async_services=group.async_services,
            )

    def _gauges(self) -> AbstractContextManager[Gauges | None]:
        port = self.source.group.metrics_port
        if port is None:
            return nullcontext()
        # Spark would use the next free port, and Prometheus would read another job's page.
        address = str(self.spark.sparkContext.uiWebUrl)
        if not address.endswith(f":{port}"):
            raise self.source.error(
                "metrics.port",
                f"Spark's UI is at {address}: port {port} is in use, or spark.ui.enabled is false",
                "free the port, or choose another",
            )
        return closing(Gauges(self.spark))

    def _stopped(self, batch: int, as_json: bool) -> str:
        """Return the summary after a signal, without a count, which would delay the end."""
        if as_json:
            return json.dumps({"table": self.location.table, "rows": None, "commits": None})
        after = f"after batch {batch}" if batch >= 0 else "before its first batch"
        return f"hudilab: stopped {after}; table={self.location.table}"

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
    """Writes batches to one or several tables and reports each once, as text or as JSON.

    Each table's commit contains the batch's number, so after a crash between two tables, the next
    run writes the batch to the tables that lack it.

    Args:
        loads: The table's commits, for an initial load, whose rows Spark counts up to three times.

    Attributes:
        reported: The newest reported batch; -1 before the first.
        gauges: Exports each report, if the pipeline has a port for metrics.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Source[Any], ExactlyOnceSink]],
        location: TableLocation,
        *,
        as_json: bool,
        loads: Commits | None = None,
    ) -> None:
        self._parts, self._location = parts, location
        self._sources = {source.group.source: source for source, _ in parts}
        self._source = parts[0][0]
        self._as_json, self._loads = as_json, loads
        self.reported = -1  # the newest batch
        self.gauges: Gauges | None = None
        self._looked = 0.0  # time of the last search for ignored files
        self._quarantined: dict[int, int] = {}  # rows, by batch
        self._read: dict[int, int | None] = {}

    def write_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Write the batch and store its number of quarantined rows."""
        if is_split := len(self._parts) > 1:  # each table reads it
            batch.persist()
        try:
            for source, sink in self._parts:
                source.check_offsets(self._location.checkpoint, batch_id)
                try:
                    with source.in_words(), source.batch(batch) as rows:
                        if self.reported < 0 and not self._read:  # the first batch of this run
                            forget_misnamed(batch.sparkSession, self._location.checkpoint)
                        sink.write_batch(rows, batch_id)
                except Exception as error:  # raised again
                    if files := source.misnamed(str(error)):
                        checkpoint = self._location.checkpoint
                        keep_misnamed(batch.sparkSession, checkpoint, batch_id, files)
                    raise
        finally:
            if is_split:
                batch.unpersist()
        self._quarantined[batch_id] = sum(sink.quarantined for _, sink in self._parts)
        self._read[batch_id] = self._source.rows_read()

    def name_unread(self, *, once_a_minute: bool = False) -> None:
        """Print a line on stderr about the files that the stream ignores, each file once."""
        now = time.monotonic()
        if once_a_minute and now - self._looked < MINUTE:
            return
        self._looked = now
        for source in self._sources.values():
            if line := source.unread(self._location):
                _log.warning(line)

    def activity(self, query: StreamingQuery) -> str:
        """Return the query's current activity."""
        status = query.status
        if status["isTriggerActive"] and status["isDataAvailable"]:
            # The number is unknown before the first report.
            return f"writing batch {self.reported + 1}" if self.reported >= 0 else "writing a batch"
        if status["message"].startswith("Initializing"):
            return "starting the stream"
        return f"waiting for new {self._source.unit}s"

    def new(self, query: StreamingQuery) -> Iterator[str]:
        """Yield a line for each batch that ended since the last call."""
        # This runs ten times a second, and the whole progress has up to 1000 JSON texts.
        if batches_done(query) <= self.reported + 1:
            return
        last: Any = query.lastProgress
        is_next = last["batchId"] == self.reported + 1 and "addBatch" in last["durationMs"]
        for progress in [last] if is_next else query.recentProgress:
            number = int(progress["batchId"])
            # Spark also reports idle triggers.
            if number > self.reported and "addBatch" in progress["durationMs"]:
                self.reported = number
                yield self._line(number, progress)

    def _line(self, number: int, progress: Mapping[str, Any]) -> str:
        quarantined, unit = self._quarantined.pop(number, 0), self._source.unit
        observed = progress.get("observedMetrics", {}).get(ROWS)
        rows = observed["rows"] if observed else progress["numInputRows"]
        if (read := self._read.pop(number, None)) is not None:
            rows = read
        if self._loads is not None:
            rows = quarantined + next((commit.inserted for commit in self._loads.newest_first()), 0)
        speed = 1000 * rows / max(progress["durationMs"]["triggerExecution"], 1)
        behind = sum(source.behind(progress, self._location) for source in self._sources.values())
        report = {"batch": number, "rows": rows, "rows_per_second": round(speed, 1)}
        report |= {"quarantined": quarantined, f"{unit}s_behind": behind}
        if self.gauges:
            self.gauges.show(report)
        if self._as_json:
            return json.dumps(report)
        return (
            f"batch {number}: {many(rows, 'row')} ({speed:,.0f} a second), {quarantined:,} of them "
            f"quarantined, {many(behind, unit)} behind"
        )


def preview(pipeline: Running, *, accept_select: bool = False) -> Iterator[str]:
    """Yield lines about changed keys, a sample of the rows to store, and unstorable rows.

    It writes nothing.

    Raises:
        LabError: Sample, spec and existing table do not fit together.
    """
    spark, source, spec, location, *_ = pipeline
    if last := last_start(spark, location):
        changed = changes(last, keys_of_start(source.group))
        yield from map(str, changed) if changed else ["changed: no key since the last start"]
        refuse(source, changed, accept_select=accept_select)
    source.check_offsets(location.checkpoint)
    content, batch = source.describe()
    yield f"source: {content}"
    if unread := source.unread(location):
        yield unread
    sample = source.sample()
    if sample is None:
        yield f"no preview before the first {source.unit} arrives; nothing was written"
        return
    commits = Commits(spark, location.table)
    guard = SchemaGuard(spark, spec, location.table, commits, spec.write_options())
    with source.in_words():
        guard.check()
        guard.check_columns(sample.rows, [])
    count = sample.rows.count()
    yield f"sample: {many(count, 'row')} of {sample.origin}, stored as"
    yield sample.rows._jdf.showString(SHOWN, 40, False).rstrip("\n")
    by_problem = sample.rows.groupBy(guard.problem(guard.layout()).alias("problem")).count()
    fate = "quarantined" if source.group.quarantine else "refused"
    problems = [*sample.refused, *(tuple(row) for row in by_problem.dropna().collect())]
    for problem, rows in sorted(problems):
        yield f"{many(rows, 'row')} of the sample would be {fate}: {problem}"
    yield from _layout(sample.rows, count, spec)
    yield f"a batch reads up to {batch} of the source"
    yield f"table: {location.table}; nothing was written"


def _layout(rows: DataFrame, count: int, spec: TableSpec) -> Iterator[str]:
    """Yield lines about the keys, partitions, files and size of a sample's rows."""
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
    yield f"a batch writes {groups} in each of its partitions"


@contextmanager
def opened(
    settings: Settings,
    name: str,
    run_id: str,
    *,
    with_metrics: bool = False,
    signals: list[int] | None = None,
) -> Iterator[Running]:
    """Open a session for the pipeline NAME and check its source; stop the session at the end.

    `with_metrics` opens the group's `metrics.port`. `signals` collects Ctrl-C and SIGTERM, and the
    first signal raises KeyboardInterrupt.

    Raises:
        LabError: The group, the source, the schema or the query is wrong.
    """
    groups = find_groups(settings, name)
    tables = {own: table_of(settings, group, run_id) for own, group in groups.items()}
    jars = dict.fromkeys(jar for group in groups.values() for jar in jars_of(group))
    port = next(iter(groups.values())).metrics_port if with_metrics else None
    extra = metrics_settings(port, name) if port else {}
    spark = open_session(settings, app=name, groups=list(jars), names=False, extra=extra)
    try:
        # Replaces the session's handler, which calls Java while another call waits.
        with stop_on_signal(signals, at_once=True) if signals is not None else nullcontext():
            yield joined(spark, settings, name, tables, run_id)
    finally:
        close_session(spark)


def joined(
    spark: SparkSession,
    settings: Settings,
    name: str,
    tables: Mapping[str, tuple[TableSpec, TableLocation]],
    run_id: str = "",
) -> Running:
    """Return the checked pipelines that NAME runs, with the tables from `table_of`.

    Raises:
        ConfigError: A single query cannot run them, or `checked` raises it.
    """
    first, *others = (checked(spark, settings, own, *table) for own, table in tables.items())
    if name not in together(settings):
        return first
    checkpoint = checkpoint_of(settings, name, run_id)
    every = [
        running._replace(location=replace(running.location, checkpoint=checkpoint))
        for running in (first, *others)
    ]
    topics: list[Any] = [running.source for running in every]  # see `find_groups`
    for topic in topics:
        topic.share([other for other in topics if other is not topic])
    return every[0]._replace(others=tuple(every[1:]))


def table_of(
    settings: Settings, group: Pipeline, run_id: str = ""
) -> tuple[TableSpec, TableLocation]:
    """Return the spec and the location of a pipeline's table."""
    location = prepare(settings, run_id=run_id, table=group.table_name)
    return TableSpec(name=location.name, **group.table()), location


def checked(
    spark: SparkSession, settings: Settings, name: str, spec: TableSpec, location: TableLocation
) -> Running:
    """Return the pipeline NAME with a checked source and the table from `table_of`.

    Raises:
        LabError: The group, the source, the schema or the query is wrong.
    """
    source = _source(spark, settings, name, find_group(settings, name), location.table)
    columns = source.check()
    check_repeatable(source)
    _check_columns(source, [name for name in columns if name != REFUSED])
    return Running(spark, source, spec, location, catalog_of(spark, settings, spec, location))


def _source(
    spark: SparkSession, settings: Settings, name: str, group: Pipeline, table: str
) -> Source[Any]:
    if isinstance(group, TopicPipeline):
        # Imported here, because only topics need the Kafka client.
        from hudilab_jobs.pipelines.debezium import ChangeTopic
        from hudilab_jobs.pipelines.topic import Topic

        if isinstance(group, ChangePipeline):
            return ChangeTopic(spark, settings, name, group, table)
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


def _check_columns(source: Source[Any], columns: Sequence[str]) -> None:
    """Raise ConfigError if the group names a column of the table that the rows lack."""
    group = source.group
    if isinstance(group, TopicPipeline) and (group.is_avro or isinstance(group, ChangePipeline)):
        return  # depends on the messages' own schemas in each batch
    fields = group.table()
    named = {
        "record.key": fields["record_key"],
        "partition": fields["partition"],
        "ordering": [group.ordering],
    }
    for key, names in named.items():
        if missing := [name for name in names if name not in columns]:
            raise source.error(
                key,
                f"the rows have no column {', '.join(missing)}, only {', '.join(columns)}",
                "name other columns, or add them in the key select",
            )
