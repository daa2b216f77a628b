"""A pipeline that has been found and checked: its source and its table; write one to the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, cast

from pyspark.sql import SparkSession

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.hive_sync import Catalog
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError
from hudilab.groups import PREFIX, FilePipeline, Pipeline, TablePipeline, TopicPipeline
from hudilab.paths import TableLocation
from hudilab.settings import Settings, load_settings
from hudilab.table import TableSpec
from hudilab_jobs.pipelines.reports import Reports
from hudilab_jobs.pipelines.source import Source
from hudilab_spark.session import close_session, open_session
from hudilab_spark.streams import stop_on_signal, until_end
from hudilab_spark.warehouse import catalog_of, prepare


class Running(NamedTuple):
    """A pipeline's session, source and table, and the catalog that holds the table's name."""

    spark: SparkSession
    source: Source[Any]
    spec: TableSpec
    location: TableLocation
    catalog: Catalog

    def write(
        self, trigger: Mapping[str, Any] | None, as_json: bool = False, *, first_load: bool = False
    ) -> Iterator[str]:
        """Run the stream until its end or a signal; yield a line for each batch, and a last one.

        Without a trigger, it writes what has arrived; `first_load` writes batch 0 alone.

        Raises:
            LabError: Source, checkpoint and table do not belong together, or the stream failed.
        """
        sink = ExactlyOnceSink(
            self.spark,
            self.spec,
            self.location,
            self.source.identity,
            quarantine=self.source.group.quarantine,
            first_load=first_load,
            async_services=self.source.group.async_services,
        )
        reports = Reports(self.source, sink, self.location, as_json=as_json)
        rows = self.source.stream(whole=first_load)
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


def table_of(
    settings: Settings, group: Pipeline, run_id: str = ""
) -> tuple[TableSpec, TableLocation]:
    """Return what a pipeline's table is, and where."""
    location = prepare(settings, run_id=run_id, table=group.table_name)
    return TableSpec(name=location.name, **group.table()), location


def checked(
    spark: SparkSession, settings: Settings, name: str, spec: TableSpec, location: TableLocation
) -> Running:
    """Return the pipeline NAME, its source checked, with a table that `table_of` returned.

    Raises:
        LabError: The group, the source, the schema or the query is wrong.
    """
    source = _source(spark, settings, name)
    source.check()
    return Running(spark, source, spec, location, catalog_of(spark, settings, spec, location))


def find_group(settings: Settings, name: str) -> Pipeline:
    """Return the settings' group `pipeline.NAME`; raise ConfigError if there is none."""
    if (found := settings.pipelines.get(name)) is not None:
        return found
    there = ", ".join(settings.pipelines) or "none"
    raise ConfigError(
        f"there is no group {PREFIX + name!r} in {settings.source} (pipelines found: {there})",
        "add it with the keys source.format, source.path, table.name, record.key and ordering",
    )


def jars_of(group: Pipeline) -> list[str]:
    """Return the groups of jars that a pipeline's session needs."""
    groups = ["core", *(["avro"] if group.is_avro else [])]
    if isinstance(group, TopicPipeline):
        from hudilab_jobs.kafka import access

        groups += ["kafka", *(["msk"] if access(group).iam else [])]
    return groups


def _source(spark: SparkSession, settings: Settings, name: str) -> Source[Any]:
    # Imported here: only topics need the Kafka client.
    group = find_group(settings, name)
    if isinstance(group, TopicPipeline):
        from hudilab_jobs.pipelines.topic import Topic

        return Topic(spark, settings, name, group)
    if isinstance(group, TablePipeline):
        from hudilab_jobs.pipelines.changes import Changes

        return Changes(spark, settings, name, group)
    from hudilab_jobs.pipelines.folder import Folder

    return Folder(spark, settings, name, cast(FilePipeline, group))
