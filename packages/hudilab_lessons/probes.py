"""Measure the files of queries, writes and keys, and read Spark's reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pandas as pd
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_inspect.errors import InspectError
from hudi_inspect.names import parse_file
from hudi_inspect.parquet import Damaged, read_rows
from hudi_inspect.store import Vanished, open_store
from hudi_sink.commits import Commits
from hudi_sink.files import list_files
from hudilab.errors import root_cause
from hudilab.table import INDEX, WRITE
from hudilab_lessons.faults import raised

RECORD_KEY = "_hoodie_record_key"


def scanned(rows: DataFrame) -> tuple[int, float, int]:
    """Run a query on a table; return the numbers of its scan's files and KB, and of its rows.

    The numbers are the metrics of the plan's first scan, which the Spark UI also shows.
    """
    count = len(rows.collect())
    metrics = rows._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()
    return metrics.apply("numFiles").value(), metrics.apply("filesSize").value() / 1024, count


def may_hold(spark: SparkSession, table: str, keys: Sequence[str]) -> int:
    """Return the number of base files that may contain one of the keys.

    Hudi's own reader reads the key range and the bloom filter in each file's footer.
    """
    hudi: Any = spark._jvm.org.apache.hudi  # type: ignore[union-attr]
    storage = Commits(spark, table).meta().getStorage()
    parquet = hudi.common.model.HoodieFileFormat.PARQUET
    footers = hudi.io.storage.HoodieIOFactory.getIOFactory(storage).getFileFormatUtils(parquet)
    count = 0
    for file in list_files(spark, table):
        if file.path.endswith("parquet"):
            path = hudi.storage.StoragePath(f"{table}/{file.path}")
            low, high = footers.readMinMaxRecordKeys(storage, path)
            bloom = footers.readBloomFilterFromMetadata(storage, path)
            count += any(low <= key <= high and bloom.mightContain(key) for key in keys)
    return count


def files_holding(table: str, key: str) -> list[str]:
    """Return a table's files with record keys that begin with `key`, without Spark.

    Base files are decoded, and logs and the timeline are searched byte by byte. That finds no key
    in the metadata table's column statistics, which are compressed.

    Raises:
        InspectError: A base file is incomplete, for example during a write.
    """
    store, holding = open_store(table), []
    for path in (file.path for file in store.files()):
        try:
            content = store.read(path)
        except Vanished:  # a cleaner has deleted the file since the listing
            continue
        if path.startswith(".hoodie/") or not path.endswith(".parquet"):
            holds = key.encode() in content
        else:
            holds = any(row[RECORD_KEY].startswith(key) for row in _rows(content, store.uri, path))
        if holds:
            holding.append(path)
    return holding


def traces(spark: SparkSession, table: str, column: str, value: object) -> pd.Series:
    """Count what is left of the rows with a value in the first column of the record key.

    Returns:
        The number of these rows in a query and in time travel to their first commit, the numbers of
        base files and log files that contain their keys, and of all base files and log files.
    """
    now = spark.read.format("hudi").load(table)
    begin = now.agg(F.min("_hoodie_commit_time")).collect()[0][0]
    past = spark.read.format("hudi").option("as.of.instant", begin).load(table)
    holding = files_holding(table, f"{column}:{value},")
    entries = (parse_file(file.path) for file in list_files(spark, table))
    bases = [file.is_base for file in entries if file]
    logs = sum(".log." in file for file in holding)
    counts = {
        "rows in a query": now.where(f"{column} = {value!r}").count(),
        "rows in time travel": past.where(f"{column} = {value!r}").count(),
        "base files with its rows": len(holding) - logs,
        "log files with its rows": logs,
        "base files in all": sum(bases),
        "log files in all": len(bases) - sum(bases),
    }
    return pd.Series(counts)


def _rows(content: bytes, uri: str, path: str) -> Iterator[Mapping[str, Any]]:
    try:
        yield from read_rows(content, [RECORD_KEY], RECORD_KEY)
    except Damaged:
        raise InspectError(
            f"{uri}/{path} is not a complete Parquet file, so the keys in it are unknown",
            "stop the table's writers, and try again",
        ) from None


def s3_requests(spark: SparkSession, uri: str) -> pd.Series:
    """Return the numbers of this process's requests to S3 so far by kind: head, list, put ...

    On a cluster, each executor has its own. Source: the statistics of Hadoop's S3 client (3.3.4).
    """
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    fs = hadoop.Path(uri).getFileSystem(spark._jsc.hadoopConfiguration())
    counters = dict(fs.getIOStatistics().counters())
    kinds = {"head": "object_metadata_request", "get": "action_http_get_request"}
    kinds |= {kind: f"object_{kind}_request" for kind in ("list", "put", "delete")}
    return pd.Series({kind: counters.get(name, 0) for kind, name in kinds.items()})


def files_added(spark: SparkSession, table: str, write: Callable[[], None]) -> pd.Series:
    """Call `write`, and return the number of added files in `data` and each folder of `.hoodie`."""
    before = {file.path for file in list_files(spark, table)}
    write()
    added = {file.path for file in list_files(spark, table)} - before
    folders = [
        path.split("/")[1] if path.startswith(".hoodie") else "data"
        for path in added
        if not path.endswith(".crc")
    ]
    return pd.Series(folders, dtype=object).value_counts()


def outcome(action: Callable[..., Any], *arguments: Any) -> str:
    """Return "accepts", or the class of the error that a call raises.

    For an error from Java, it is the class of the deepest cause.
    """
    error = raised(action, *arguments)
    if isinstance(error, Py4JJavaError):
        return root_cause(str(error)).partition(":")[0].partition(",")[0].rpartition(".")[2]
    return type(error).__name__ if error else "accepts"


def sql_with(spark: SparkSession, settings: Mapping[str, str], statement: str) -> pd.DataFrame:
    """Run an SQL statement with temporary settings, and return its rows."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        return spark.sql(statement).toPandas()
    finally:
        for name in settings:
            spark.conf.unset(name)


def load(batch: DataFrame, table: str, options: Mapping[str, str], *, files: int) -> dict[str, str]:
    """Write a batch into a new table of `files` files; return the options for later writes.

    A file gets a range of keys, or a bucket with the bucket index.
    """
    spread = {
        f"{WRITE}operation": "bulk_insert",
        "hoodie.bulkinsert.shuffle.parallelism": str(files),
    }
    options = dict(options)
    if options.get(INDEX) == "BUCKET":
        spread, options = {}, options | {"hoodie.bucket.index.num.buckets": str(files)}
    key = options[f"{WRITE}recordkey.field"]
    writer = batch.repartitionByRange(files, key).write.format("hudi")
    writer.options(**options | spread).mode("append").save(table)
    return options


def upsert_cost(batch: DataFrame, table: str, options: Mapping[str, str]) -> dict[str, int]:
    """Upsert a batch; return the numbers of files with a key lookup, and of rewritten files.

    SIMPLE reads the keys of all base files, BLOOM those of `may_hold`, and other indexes read none.
    The numbers of rewritten files and rows are from the commit.
    """
    spark, count = batch.sparkSession, 0
    if options[INDEX] == "BLOOM":
        keys = batch.select(F.col(options[f"{WRITE}recordkey.field"]).cast("string")).collect()
        count = may_hold(spark, table, [row[0] for row in keys])
    elif options[INDEX] == "SIMPLE":
        count = sum(file.path.endswith("parquet") for file in list_files(spark, table))
    batch.write.format("hudi").options(**options).mode("append").save(table)
    timeline = spark.sql("SELECT * FROM hudi_query_timeline(:table, 'true')", {"table": table})
    commit = max(timeline.collect())
    return {
        "keys read from": count,
        "files rewritten": commit["Total_Files_Updated"],
        "rows rewritten": commit["Total_Records_Written"],
    }


def over_days(readings: DataFrame, rows: int) -> DataFrame:
    """Spread readings 0 to `rows` - 1 over five days, in a single partition of Spark.

    Further columns: reading_key STRING (random), lot STRING (200 values in random order), day DATE.
    """
    seconds = F.col("reading_id") * (5 * 86_400 // rows) + 1_767_225_600  # from 2026-01-01
    lot = F.concat(F.lit("lot "), F.pmod(F.xxhash64("reading_id"), F.lit(200)))
    return readings.coalesce(1).select(
        F.substring(F.md5(F.col("reading_id").cast("string")), 1, 12).alias("reading_key"),
        "reading_id",
        "sensor_id",
        "temperature",
        F.timestamp_seconds(seconds).alias("measurement_time"),
        lot.alias("lot"),
        F.to_date(F.timestamp_seconds(seconds)).alias("day"),
    )


def fetched(spark: SparkSession, path: str) -> str:
    """Return a page of Spark's UI as text, once it contains all events so far.

    It bypasses a proxy, which can't reach this machine's own address. The first page takes up to a
    minute on a busy machine, because Spark loads its web service.
    """
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    with build_opener(ProxyHandler({})).open(f"{context.uiWebUrl}{path}", timeout=120) as page:
        return str(page.read().decode())


def reported(spark: SparkSession, path: str) -> pd.DataFrame:
    """Return a report of the REST API of Spark's UI, such as "jobs", "stages" or "allexecutors".

    Source: Spark 3.5, "Monitoring and Instrumentation".
    """
    application = spark.sparkContext.applicationId
    return pd.DataFrame(json.loads(fetched(spark, f"/api/v1/applications/{application}/{path}")))


def jobs_of(spark: SparkSession, action: Callable[[], object]) -> pd.DataFrame:
    """Call `action`, and return a row for each Spark job that ran meanwhile, in order.

    Columns: step (the job's description, without names of classes, tables and files), stages
    (their IDs), tasks (without those of skipped stages), seconds.
    """
    before = reported(spark, "jobs").get("jobId", ())
    action()
    jobs = reported(spark, "jobs").sort_values("jobId")
    jobs = jobs[~jobs["jobId"].isin(before)]
    steps = jobs["description"].str.extract(r"^\w+:(.*?)(?:: ?\S+| \w+:/.*)?$", expand=False)
    taken = _moments(jobs["completionTime"]) - _moments(jobs["submissionTime"])
    return pd.DataFrame(
        {
            "step": steps.fillna("(no description)"),
            "stages": jobs["stageIds"],
            "tasks": jobs["numTasks"] - jobs["numSkippedTasks"],
            "seconds": taken.dt.total_seconds(),
        }
    ).reset_index(drop=True)


def tasks_of(spark: SparkSession, stages: Iterable[int]) -> pd.DataFrame:
    """Return a row for each task of some stages: stage, executor, started, ended, records.

    The records are those that the task read from a shuffle.
    """
    frames = []
    for stage in stages:
        tasks = reported(spark, f"stages/{stage}/0/taskList")
        if tasks.empty:  # Spark skipped the stage
            continue
        started = _moments(tasks["launchTime"])
        ended = started + pd.to_timedelta(tasks["duration"], unit="ms")
        records = [task["shuffleReadMetrics"]["recordsRead"] for task in tasks["taskMetrics"]]
        columns = {"stage": stage, "executor": tasks["executorId"], "started": started}
        frames.append(pd.DataFrame(columns | {"ended": ended, "records": records}))
    return pd.concat(frames, ignore_index=True)


def _moments(texts: pd.Series) -> pd.Series:
    return pd.to_datetime(texts.str.removesuffix("GMT"))


def slice_costs(files: pd.DataFrame) -> dict[str, float]:
    """Return the cost of a table with one file group: logs and KB to read, and KB of a batch.

    Args:
        files: The files of `timeline.data_files` right after a batch, whose KB include the files
            of its compaction.
    """
    logs, bases = files[files["kind"] == "log"], files[files["kind"] == "base"]
    newest_base, newest_batch = (
        bases["instant"].max(),
        (bases if logs.empty else logs)["instant"].max(),
    )
    newest, batch = files[files["instant"] >= newest_base], files[files["instant"] >= newest_batch]
    return {
        "logs": int((newest["kind"] == "log").sum()),
        "KB written": batch["size"].sum() / 1024,
        "KB to read": newest["size"].sum() / 1024,
    }


def deliver(rows: DataFrame, folder: str) -> None:
    """Write rows as Parquet files, one for each value of their column `file`, in this order.

    The files don't contain that column. Existing files are replaced.
    """
    for (file,) in rows.select("file").distinct().orderBy("file").collect():
        part = rows.where(F.col("file") == file).drop("file").coalesce(1)
        part.write.mode("overwrite").parquet(f"{folder}/{file}")
