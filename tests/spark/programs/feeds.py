"""Streaming sources that rows arrive in, and what befalls the checkpoint of a stream from them.

As a program it tries sources whose jars no other session has: feeds.py HOME KIND...; it prints one
line of JSON: what became of each fault.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from running import folder, running_server

from hudi_sink.commits import Commits
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.paths import TableLocation, locate
from hudilab.settings import Settings, load_settings
from hudilab.table import TableSpec
from hudilab_cli.servers import kafka
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import create_topics
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain

SCHEMA = "id BIGINT, city STRING, price DOUBLE"
ROWS = 10  # of an arrival
Change = Callable[[DataFrame], DataFrame]
SPEC = TableSpec("visits", ("id",), ("city",), "price", operation="bulk_insert")


def visits(rows: DataFrame) -> DataFrame:
    """Rows with an id, as visits."""
    city = F.when(F.col("id") % 2 == 0, "Oslo").otherwise("Bergen")
    return rows.select("id", city.alias("city"), (F.col("id") / 2).alias("price"))


class Feed:
    """A source; each arrival is the next ten rows."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home, self.arrived = spark, home, 0

    def rows(self) -> DataFrame:
        """The rows of the next arrival."""
        return visits(self.spark.range(self.arrived * ROWS, (self.arrived + 1) * ROWS))

    def arrive(self) -> None:
        self.put(self.rows())
        self.arrived += 1

    def put(self, rows: DataFrame) -> None:
        raise NotImplementedError

    def stream(self) -> DataFrame:
        raise NotImplementedError

    def expected(self, checkpoint: Path) -> list[int]:
        """The ids that a stream has read which has read everything."""
        return list(range(self.arrived * ROWS))


class Endless(Feed):
    """A source that rows come from by themselves."""

    def arrive(self) -> None:
        pass

    def newest(self, checkpoint: Path) -> str:
        """The offset of the newest batch."""
        newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return newest.read_text().splitlines()[2]


class Rate(Endless):
    """Ten rows a second; each run reads what there is, and there is always more."""

    def stream(self) -> DataFrame:
        time.sleep(1.1)
        rows = self.spark.readStream.format("rate").option("rowsPerSecond", ROWS).load()
        return visits(rows.withColumnRenamed("value", "id"))

    def expected(self, checkpoint: Path) -> list[int]:
        return list(range(int(self.newest(checkpoint)) * ROWS))


class RatePerBatch(Endless):
    """Each batch, so each run, reads ten rows more."""

    def stream(self) -> DataFrame:
        options = {"rowsPerBatch": ROWS, "numPartitions": 1}
        rows = self.spark.readStream.format("rate-micro-batch").options(**options).load()
        return visits(rows.withColumnRenamed("value", "id"))

    def expected(self, checkpoint: Path) -> list[int]:
        return list(range(json.loads(self.newest(checkpoint))["offset"]))


class Files(Feed):
    """A folder of files, each whole from the first moment."""

    def __init__(self, spark: SparkSession, home: Path, kind: str, **options: str) -> None:
        super().__init__(spark, home)
        self.kind, self.options = kind, {"maxFilesPerTrigger": "1"} | options
        self.inbox = home / "inbox"
        self.inbox.mkdir()

    def put(self, rows: DataFrame) -> None:
        made = self.home / "made"
        if self.kind == "text":
            rows = rows.select(F.to_json(F.struct("*")).alias("value"))
        rows.coalesce(1).write.mode("overwrite").format(self.kind).save(str(made))
        (part,) = made.glob("part-*")
        part.replace(self.inbox / f"{self.arrived:03}.{self.kind}")

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.format(self.kind).options(**self.options)
        if self.kind != "text":
            return reader.schema(SCHEMA).load(str(self.inbox))
        rows = reader.load(str(self.inbox))
        return rows.select(F.from_json("value", SCHEMA).alias("row")).select("row.*")


class TableFeed(Feed):
    """A table, which has a past of its own."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        super().__init__(spark, home)
        self.folder = home / "feed"

    def table(self) -> DataFrame:
        """The table as it is now."""
        raise NotImplementedError

    def rewrite(self) -> None:
        """Merge its files."""
        raise NotImplementedError

    def restore(self) -> None:
        """Take the last arrival back, as its own commands do."""
        raise NotImplementedError


class Hudi(TableFeed):
    """Another Hudi table."""

    options: Mapping[str, str] = {
        "hoodie.table.name": "feed",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.table.ordering.fields": "price",
    }

    def table(self) -> DataFrame:
        return self.spark.read.format("hudi").load(str(self.folder))

    def rewrite(self) -> None:
        given = f"path => '{self.folder}', op => 'scheduleAndExecute'"
        self.spark.sql(f"CALL run_clustering({given})").collect()

    def restore(self) -> None:
        table = f"path => '{self.folder}'"
        _, before, *_ = Commits(self.spark, str(self.folder)).newest_first()
        for call in ("create_savepoint({}, commit_time", "rollback_to_savepoint({}, instant_time"):
            self.spark.sql(f"CALL {call.format(table)} => '{before.instant}')").collect()

    def put(self, rows: DataFrame) -> None:
        upsert = {**self.options, "hoodie.datasource.write.operation": "upsert"}
        rows.write.format("hudi").options(**upsert).mode("append").save(str(self.folder))

    def stream(self) -> DataFrame:
        rows = self.spark.readStream.format("hudi").load(str(self.folder))
        return rows.select("id", "city", "price")


class Delta(TableFeed):
    """A table of Delta."""

    def table(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.folder))

    def _table(self) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.io.delta.tables.DeltaTable.forPath(str(self.folder))

    def rewrite(self) -> None:
        self._table().optimize().executeCompaction()

    def restore(self) -> None:
        version = self._table().history(1).head().getLong(0)
        self._table().restoreToVersion(version - 1)

    def put(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").save(str(self.folder))

    def stream(self) -> DataFrame:
        return self.spark.readStream.format("delta").load(str(self.folder))


class Iceberg(TableFeed):
    """A table of Iceberg."""

    name = "bench.lab.feed"

    def __init__(self, spark: SparkSession, home: Path) -> None:
        super().__init__(spark, home)
        catalog = "spark.sql.catalog.bench"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{catalog}.type", "hadoop")
        spark.conf.set(f"{catalog}.cache-enabled", "false")
        spark.conf.set(f"{catalog}.warehouse", str(home.parent / "iceberg"))
        spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        spark.sql(f"CREATE TABLE {self.name} ({SCHEMA}) USING iceberg")

        self.folder = home.parent / "iceberg" / "lab" / "feed"

    def table(self) -> DataFrame:
        self.spark.catalog.refreshTable(self.name)
        return self.spark.table(self.name)

    def _table(self) -> Any:
        jvm: Any = self.spark._jvm
        session = self.spark._jsparkSession
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self.name)

    def rewrite(self) -> None:
        jvm: Any = self.spark._jvm
        actions = jvm.org.apache.iceberg.spark.actions.SparkActions.get()
        actions.rewriteDataFiles(self._table()).option("rewrite-all", "true").execute()

    def restore(self) -> None:
        table = self._table()
        parent = table.currentSnapshot().parentId()
        table.manageSnapshots().rollbackTo(parent).commit()
        self.spark.catalog.refreshTable(self.name)

    def put(self, rows: DataFrame) -> None:
        rows.coalesce(1).writeTo(self.name).append()

    def stream(self) -> DataFrame:
        return self.spark.readStream.format("iceberg").load(self.name)


class Kafka(Feed):
    """A topic of two partitions."""

    def __init__(self, spark: SparkSession, home: Path, client: Access) -> None:
        super().__init__(spark, home)
        self.options = client.spark_options()
        create_topics(client, {home.name: 2})

    def put(self, rows: DataFrame) -> None:
        text = rows.select(
            F.col("id").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value")
        )
        text.write.format("kafka").options(**self.options).option("topic", self.home.name).save()

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.format("kafka").options(**self.options)
        rows = reader.option("subscribe", self.home.name).option("startingOffsets", "earliest")
        parsed = F.from_json(F.col("value").cast("string"), SCHEMA)
        return rows.load().select(parsed.alias("row")).select("row.*")


class Run:
    """A stream from a feed to a table, its checkpoint, and what befalls it."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.spark = feed, feed.spark
        self.location: TableLocation = locate(
            "warehouse", "lab", "visits", is_local=True, home=feed.home
        )
        self.checkpoint = folder(self.location.checkpoint)

    def run(
        self, location: TableLocation | None = None, change: Change = lambda rows: rows
    ) -> None:
        """Write all that has arrived, and stop."""
        location = location or self.location
        sink = ExactlyOnceSink(self.spark, SPEC, location, {"feed": "visits"})
        stream = change(self.feed.stream()).writeStream.foreachBatch(sink.write_batch)
        stream = stream.option("checkpointLocation", location.checkpoint)
        drain(stream.trigger(availableNow=True).start(), deadline=120)

    def batches(self, count: int) -> None:
        for _ in range(count):
            self.feed.arrive()
            self.run()

    def keep(self) -> Callable[[], None]:
        """Copy the checkpoint; the result restores the copy."""
        copy = self.checkpoint.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.checkpoint, copy)

        def restore() -> None:
            shutil.rmtree(self.checkpoint)
            shutil.copytree(copy, self.checkpoint)

        return restore

    def forget(self, batch: int, *logs: str) -> None:
        for log in logs:
            (self.checkpoint / log / str(batch)).unlink()
            (self.checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)

    def last(self) -> int:
        return max(int(file.name) for file in (self.checkpoint / "commits").glob("[0-9]*"))

    def ids(self) -> list[int]:
        table = self.spark.read.format("hudi").load(self.location.table)
        return sorted(row.id for row in table.select("id").collect())

    def outcome(self, location: TableLocation | None = None) -> str:
        """Run the stream: `exact`, what refused it, or what is wrong."""
        before = self.ids()
        try:
            self.run(location)
        except StreamError as error:
            if (now := self.ids()) != before:
                return f"WRONG: {len(now)} rows after a refusal, {len(before)} before: {error}"
            return refusal(str(error))
        checkpoint = self.checkpoint if location is None else folder(location.checkpoint)
        expected, ids = self.feed.expected(checkpoint), self.ids()
        if ids == expected:
            return "exact"
        lost, twice = len(set(expected) - set(ids)), len(ids) - len(set(ids))
        return f"WRONG: {lost} lost, {twice} twice, {len(set(ids) - set(expected))} others"


REFUSALS = {
    "other source offsets than batch": "other offsets",
    "was restored to an earlier state": "set back",
    "was written by a stream whose checkpoint is not": "checkpoint gone",
    "belongs to another table or run": "checkpoint of another",
}


def refusal(text: str) -> str:
    for words, short in REFUSALS.items():
        if words in text:
            assert "delete the table and the checkpoint together" in text
            return f"refused: {short}"
    return f"stopped: {text[:300]}"


# --- what can happen to a checkpoint; each returns the outcome of the next start


def forgotten(run: Run, *, logs: tuple[str, ...], more: bool = False) -> str:
    """The last batch is missing in these logs; with `more`, more has arrived since."""
    run.batches(2)
    run.forget(run.last(), *logs)
    if more:
        run.feed.arrive()
    return run.outcome()


def set_back(run: Run, *, kept: int, lost: int, more: bool = False) -> str:
    """The checkpoint has only its first batches; with `more`, more has arrived since."""
    run.batches(kept)
    restore = run.keep()
    run.batches(lost)
    restore()
    if more:
        run.feed.arrive()
    return run.outcome()


def deleted(run: Run) -> str:
    """The checkpoint is gone."""
    run.batches(2)
    shutil.rmtree(run.checkpoint)
    run.feed.arrive()
    return run.outcome()


def log_lost(run: Run) -> str:
    """What the source itself keeps in the checkpoint is gone."""
    run.batches(2)
    shutil.rmtree(run.checkpoint / "sources", ignore_errors=True)
    run.feed.arrive()
    return run.outcome()


def copied(run: Run) -> str:
    """A second driver goes on with a copy, and then the first with the original."""
    run.batches(2)
    copy = replace(run.location, checkpoint=f"{run.location.checkpoint}_copy")
    shutil.copytree(run.checkpoint, folder(copy.checkpoint))
    run.feed.arrive()
    second = run.outcome(copy)
    run.feed.arrive()
    return f"{second}, then {run.outcome()}"


# --- what befalls a table that rows are read from


def rewritten(run: Run) -> str:
    """Its files are merged, between batches and before a batch is repeated."""
    run.batches(2)
    _table(run).rewrite()
    run.batches(1)
    restore = run.keep()
    run.batches(1)
    _table(run).rewrite()
    restore()
    first = run.outcome()
    run.feed.arrive()
    return f"{first}, then {run.outcome()}"


def restored(run: Run) -> str:
    """Its last commit is taken back after it was read, and other rows come."""
    run.batches(3)
    _table(run).restore()
    run.feed.arrive()
    return _has_all(run)


def restored_from_a_copy(run: Run) -> str:
    """Its folder is replaced by a copy made before the last commit, and other rows come."""
    run.batches(2)
    kept = _table(run).folder.with_name("kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(_table(run).folder, kept)
    run.batches(1)
    shutil.rmtree(_table(run).folder)
    shutil.copytree(kept, _table(run).folder)
    run.feed.arrive()
    return _has_all(run)


def _table(run: Run) -> TableFeed:
    assert isinstance(run.feed, TableFeed)
    return run.feed


def _has_all(run: Run) -> str:
    """Run the stream, and say which rows of the source are not in the table."""
    outcome = run.outcome()
    if outcome != "exact" and not outcome.startswith("WRONG"):
        return outcome
    ids = run.ids()
    lost = {row.id for row in _table(run).table().collect()} - set(ids)
    return f"{len(lost)} rows lost, {len(ids) - len(set(ids))} twice"


TABLE_FAULTS = {
    "rewritten": rewritten,
    "restored": restored,
    "restored_from_a_copy": restored_from_a_copy,
}
PLANNED = ("commits", "offsets")
FAULTS: dict[str, Callable[[Run], str]] = {
    "replayed": partial(forgotten, logs=("commits",)),
    "planned_again": partial(forgotten, logs=PLANNED),
    "planned_with_more": partial(forgotten, logs=PLANNED, more=True),
    "one_back": partial(set_back, kept=2, lost=1),
    "one_back_with_more": partial(set_back, kept=2, lost=1, more=True),
    "many_back": partial(set_back, kept=1, lost=3),
    "deleted": deleted,
    "log_lost": log_lost,
    "copied": copied,
}


def tried(make: Callable[[Path], Feed], home: Path) -> dict[str, str]:
    """What became of each fault."""
    results: dict[str, str] = {}
    reads_table = home.name in ("hudi", "delta", "iceberg")
    for name, fault in (FAULTS | (TABLE_FAULTS if reads_table else {})).items():
        at = home / name.replace("_", "-")
        at.mkdir(parents=True)
        try:
            results[name] = fault(Run(make(at)))
        except Exception as error:  # before the fault, or not by the ledger
            results[name] = f"FAILED: {type(error).__name__}: {str(error)[:600]}"
    return results


def makers(spark: SparkSession) -> dict[str, Callable[[Path], Feed]]:
    def files(kind: str, **options: str) -> Callable[[Path], Feed]:
        return lambda home: Files(spark, home, kind, **options)

    def archived(home: Path) -> Feed:
        kept = {"cleanSource": "archive", "sourceArchiveDir": str(home / "archive")}
        return Files(spark, home, "json", **kept)

    return {
        "rate": lambda home: Rate(spark, home),
        "rate-micro-batch": lambda home: RatePerBatch(spark, home),
        **{kind: files(kind) for kind in ("json", "csv", "parquet", "orc", "text")},
        "json, all at once": files("json", maxFilesPerTrigger="1000"),
        "json, latest first": files("json", latestFirst="true"),
        "json, archived": archived,
        "json, deleted": files("json", cleanSource="delete"),
        "hudi": lambda home: Hudi(spark, home),
        "delta": lambda home: Delta(spark, home),
        "iceberg": lambda home: Iceberg(spark, home),
    }


def main(home: Path, kinds: list[str]) -> None:
    settings = load_settings()
    if "delta" in kinds:  # its commands need its extension, and its catalog
        os.environ["HUDILAB_CONF"] = str(_delta_conf(settings.conf_dir, home / "conf"))
        settings = load_settings()
    with ExitStack() as stack:
        client = None
        if "kafka" in kinds:
            client = stack.enter_context(running_server(kafka.SERVICE, settings)).access()
        print(json.dumps(_found(settings, home, kinds, client)))


def _delta_conf(conf: Path, copy: Path) -> Path:
    shutil.copytree(conf, copy)
    file = copy / "spark-defaults.conf"
    catalog = "spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog"
    extension = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
    both = f"spark.sql.extensions {extension},io.delta.sql.DeltaSparkSessionExtension"
    file.write_text("\n".join([file.read_text("utf-8"), both, catalog, ""]), "utf-8")
    return copy


def _found(
    settings: Settings, home: Path, kinds: list[str], client: Access | None
) -> dict[str, dict[str, str]]:
    groups = ["core", *(kind for kind in kinds if kind in ("delta", "iceberg", "kafka"))]
    spark = open_session(settings, app="feeds", groups=groups)
    made = makers(spark)
    if client is not None:
        made["kafka"] = lambda at: Kafka(spark, at, client)
    results = {}
    for kind in kinds:
        results[kind] = tried(made[kind], home / kind.replace(", ", "-").replace(" ", "-"))
        print(json.dumps({kind: results[kind]}, indent=1), file=sys.stderr, flush=True)
    spark.stop()
    return results


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
