"""Call Hudi's timeline, views and clients in Spark's JVM.

Only this module of the package looks up classes of Hudi and Spark. A meta client is Hudi's snapshot
of a table's state; a write client runs table services and rollbacks. A call takes a millisecond, so
instants and file groups are read as a single text. Source: Hudi 1.2, Spark 3.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any, NamedTuple

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from hudi_sink.files import file_system, hadoop_conf, java_class
from hudi_sink.metadata import SERVER

COMPACTIONS = "filterPendingCompactionTimeline"
CLUSTERINGS = "filterPendingReplaceOrClusteringTimeline"


class LatestSlice(NamedTuple):
    """A file slice: `bytes` is the size of its base file, 0 without one."""

    partition: str
    group: str
    bytes: int
    logs: int


class _Work:
    """A Scala function that calls a Python function and keeps the exception it raises."""

    class Java:
        implements = ("scala.Function0",)

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self.error: Exception | None = None

    def apply(self) -> None:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001 - `uninterrupted` raises it
            self.error = error


def uninterrupted(spark: SparkSession, function: Callable[[], None]) -> None:
    """Call a function in a stream's thread, and delay the interrupt of `query.stop()` until then.

    Spark still cancels the jobs of a stopped stream. Source: Spark's `UninterruptibleThread`.
    """
    thread = java_class(spark._jvm, "java.lang.Thread").currentThread()
    stream = "org.apache.spark.util.UninterruptibleThread"
    if not is_instance_of(spark.sparkContext._gateway, thread, stream):
        function()
        return
    work = _Work(function)
    thread.runUninterruptibly(work)
    if work.error is not None:
        raise work.error


def items(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(number) for number in range(sequence.size())]


def file_indexes(query: Any) -> list[Any]:
    """Return Spark's `FileIndex` of each folder that the running batch of a query reads."""
    indexes: list[Any] = []
    for leaf in items(query.lastExecution().logical().collectLeaves()):
        if leaf.isStreaming() and leaf.nodeName().startswith("LogicalRelation"):
            index = leaf.relation().location()
            # A stream that is joined with itself appears twice in its plan.
            if not any(index.equals(other) for other in indexes):
                indexes.append(index)
    return indexes


def running_query(session: SparkSession, query: str) -> Any:
    """Return the running query with an id; None if another session started it."""
    manager: Any = session._jsparkSession
    running = manager.streams().get(query)
    return None if running is None else running.streamingQuery()


def as_batch(session: SparkSession, execution: Any) -> DataFrame:
    """Return a query's rows as Spark passes a stream's batch to `foreachBatch`.

    The query is planned once, so its current_timestamp() stays the same between reads.

    Args:
        execution: Spark's `QueryExecution`.
    """
    java: Any = session._jsparkSession
    rows, schema = execution.toRdd(), execution.analyzed().schema()
    return DataFrame(java.internalCreateDataFrame(rows, schema, False), session)


def cached(rows: DataFrame) -> DataFrame:
    """Return the rows of a query in Spark's cache, with its files listed before that.

    Hudi may list the files of a table in a thread of Spark's, and then removes the table's column
    statistics from the cache. That waits for a query that is just being cached, which waits for the
    files, so neither would end. Source: Hudi 1.2, `HoodieCatalystUtils.withPersistedDataset`.
    """
    return as_batch(rows.sparkSession, rows._jdf.queryExecution()).persist()


def columns_json(rows: DataFrame) -> str:
    """Return the schema as Spark's JSON."""
    return str(rows._jdf.schema().json())


def count_partitions(rows: DataFrame) -> int:
    """Return the number of partitions in which Spark reads the rows."""
    return int(rows._jdf.rdd().getNumPartitions())


def meta_client(spark: SparkSession, table: str) -> Any:
    """Return Hudi's client for the current state of a table."""
    utils = java_class(spark._jvm, "org.apache.hudi.hadoop.fs.HadoopFSUtils")
    client = java_class(spark._jvm, "org.apache.hudi.common.table.HoodieTableMetaClient")
    conf = utils.getStorageConf(hadoop_conf(spark))
    return client.builder().setConf(conf).setBasePath(table).build()


def recover_properties(spark: SparkSession, table: str) -> None:
    """Restore a table's `hoodie.properties` from the backup that Hudi makes to replace the file."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    folder = hudi.storage.StoragePath(f"{table}/.hoodie")
    conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(hadoop_conf(spark))
    storage = hudi.storage.HoodieStorageUtils.getStorage(folder, conf)
    hudi.common.table.HoodieTableConfig.recover(storage, folder)


def table_config(spark: SparkSession, meta: Any) -> str:
    """Return the text of the `hoodie.properties` that a meta client has read."""
    text = java_class(spark._jvm, "java.io.StringWriter")()
    meta.getTableConfig().getProps().store(text, "")
    return str(text.toString())


def throttled(spark: SparkSession, uri: str) -> int:
    """Return how many requests of this JVM to an s3a:// URI got a 503 SlowDown."""
    fs, _ = file_system(spark, uri)
    counters = fs.getIOStatistics().counters()
    return int(counters.getOrDefault("store_io_throttled", 0))


def completed(meta: Any, after: str = "") -> Any:
    """Return the active timeline of completed commits, with `after` of those since that time."""
    timeline = meta.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
    return timeline.findInstantsModifiedAfterByCompletionTime(after) if after else timeline


def archived(meta: Any) -> Any:
    """Return the archived timeline of completed commits."""
    timeline = meta.getArchivedTimeline()
    timeline.loadCompletedInstantDetailsInMemory()
    return timeline.getCommitsTimeline().filterCompletedInstants()


def unfinished_writes(meta: Any) -> set[str]:
    """Return instants of requested or in-flight writes; scheduled table services do not count."""
    timeline = meta.getActiveTimeline().getWriteTimeline().filterInflightsAndRequested()
    return {
        str(instant.requestedTime())
        for instant in timeline.getInstants()
        if str(instant.getAction()) in ("commit", "deltacommit")
    }


def pending(meta: Any, kind: str) -> list[str]:
    """Return the instants of plans that are not executed yet, oldest first."""
    plans = getattr(meta.getActiveTimeline(), kind)()
    return [str(instant.requestedTime()) for instant in plans.getInstants()]


def instants_and_clock(spark: SparkSession, meta: Any) -> tuple[str, str, str]:
    """Return all active instants as a text, the instant of a write now, and their time zone."""
    zone = meta.getTableConfig().getTimelineTimezone()
    generator = java_class(
        spark._jvm, "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator"
    )
    # Hudi applies the zone only in a DataFrame's write, not in table services.
    generator.setCommitTimeZone(zone)
    now = generator.formatDateBasedOnTimeZone(java_class(spark._jvm, "java.util.Date")())
    instants = meta.getActiveTimeline().getInstants()
    return str(instants.toString()), str(now), str(zone.toString())


def table_columns(spark: SparkSession, meta: Any) -> str:
    """Return a table's columns as Spark's JSON, from its newest commit; empty without one."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    schema = hudi.common.table.TableSchemaResolver(meta).getTableSchemaIfPresent(False)
    if not schema.isPresent():
        return ""
    convert = hudi.HoodieSchemaConversionUtils.convertHoodieSchemaToStructType
    return str(convert(schema.get()).json())


def file_groups(spark: SparkSession, meta: Any) -> set[str]:
    """Return the ids of the file groups that readers see."""
    return {str(latest.getFileId()) for latest in _latest_slices(spark, meta)}


def file_slices(spark: SparkSession, meta: Any) -> list[LatestSlice]:
    """Return the file slices that readers see, sorted."""
    slices = []
    for latest in _latest_slices(spark, meta):
        base = latest.getBaseFile()
        size = int(base.get().getFileSize()) if base.isPresent() else 0
        partition, group = str(latest.getPartitionPath()), str(latest.getFileId())
        slices.append(LatestSlice(partition, group, size, int(latest.getLogFiles().count())))
    return sorted(slices)


def _latest_slices(spark: SparkSession, meta: Any) -> Iterator[Any]:
    jsc: Any = spark._jsc
    hudi = java_class(spark._jvm, "org.apache.hudi")
    if str(meta.getBasePath().toString()).startswith("file:"):
        # Listing a disk takes less time than starting a Spark job.
        context = hudi.common.engine.HoodieLocalEngineContext(meta.getStorageConf())
    else:
        context = hudi.client.common.HoodieSparkEngineContext(jsc)
    config = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()
    manager = hudi.common.table.view.FileSystemViewManager
    with closing(manager.createInMemoryFileSystemView(context, meta, config)) as view:
        view.loadAllPartitions()
        to_list = java_class(spark._jvm, "java.util.stream.Collectors").toList()
        for partition in {str(name) for name in view.getPartitionNames()}:
            yield from view.getLatestFileSlices(partition).collect(to_list)


def savepoint_of_restore(spark: SparkSession, meta: Any, instant: Any) -> str:
    """Return the savepoint of an interrupted restore; empty if it has no plan yet."""
    utils = java_class(spark._jvm, "org.apache.hudi.table.action.restore.RestoreUtils")
    try:
        return str(utils.getRestorePlan(meta, instant).getSavepointToRestoreTimestamp())
    except Py4JJavaError as error:
        if "EOFException" not in str(error):  # its file is not empty
            raise
        return ""


def write_client(
    spark: SparkSession, table: str, options: Mapping[str, str]
) -> AbstractContextManager[Any]:
    """Open Hudi's write client for a table, with the session's settings and `options`.

    Unless `options` ask for it, it starts no timeline server.
    """
    jvm: Any = spark._jvm
    options = {SERVER: "false"} | dict(options)
    given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
    client = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient(
        spark._jsparkSession, table, given, jvm.scala.Option.apply(None)
    )
    return closing(client)


def rollback_client(
    spark: SparkSession, table: str, options: Mapping[str, str]
) -> AbstractContextManager[Any]:
    """Open a client that rolls back failed writes, with the options of a write."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.HashMap()
    defaults = jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration
    properties.putAll(defaults.getGlobalProps())
    properties.putAll(dict(options))
    client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(
        spark._jsc, "", table, options["hoodie.table.name"], properties
    )
    return closing(client)


def compact_metadata(spark: SparkSession, client: Any) -> None:
    """Compact the metadata table of a client's table, as Hudi does at the start of a commit."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    none = hudi.common.util.Option.empty()
    config, context = client.getConfig(), client.getEngineContext()
    new_writer = hudi.metadata.SparkHoodieBackedTableMetadataWriter.create
    with closing(new_writer(context.getStorageConf(), config, context, none)) as writer:
        writer.performTableServices(none, True)


def schedule(spark: SparkSession, client: Any, kind: str) -> None:
    """Plan a compaction or a clustering."""
    plan = client.scheduleCompaction if kind == COMPACTIONS else client.scheduleClustering
    plan(java_class(spark._jvm, "org.apache.hudi.common.util.Option").empty())


def count_files_to_clean(spark: SparkSession, client: Any) -> int:
    """Return how many files a cleaning would delete."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    config, context = client.getConfig(), client.getEngineContext()
    table = hudi.table.HoodieSparkTable.create(config, context)
    planner = hudi.table.action.clean.CleanPlanner(context, table, config)
    earliest = planner.getEarliestCommitToRetain()
    partitions = planner.getPartitionPathsToClean(earliest)
    return sum(planner.getDeletePaths(name, earliest).getRight().size() for name in partitions)


def split_compactions(spark: SparkSession, meta: Any, size: int, most: int) -> None:
    """Split each plan of more than `size` file groups into at most `most` plans."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    names, timeline = meta.getInstantGenerator(), meta.getActiveTimeline()
    plus_millis = hudi.common.table.timeline.HoodieInstantTimeGenerator.instantTimePlusMillis
    for instant in pending(meta, COMPACTIONS):
        if timeline.containsInstant(names.getCompactionInflightInstant(instant)):
            continue  # another program is executing it
        plan = hudi.common.util.CompactionUtils.getCompactionPlan(meta, instant)
        operations = plan.getOperations()
        groups = operations.size()
        step = max(size, -(-groups // most))
        if groups <= step:
            continue
        timeline.deleteCompactionRequested(names.getCompactionRequestedInstant(instant))
        for number, first in enumerate(range(0, groups, step)):
            part = hudi.avro.model.HoodieCompactionPlan.newBuilder(plan)
            part.setOperations(operations.subList(first, min(first + step, groups)))
            next_instant = names.getCompactionRequestedInstant(plus_millis(instant, number))
            timeline.saveToCompactionRequested(next_instant, part.build())


def remove_compaction(spark: SparkSession, client: Any, instant: str) -> None:
    """Roll back a compaction and remove its plan, which Hudi's rollback leaves."""
    hudi = java_class(spark._jvm, "org.apache.hudi")
    config, context = client.getConfig(), client.getEngineContext()
    table = hudi.table.HoodieSparkTable.create(config, context)
    meta = table.getMetaClient()
    names = meta.getInstantGenerator()
    inflight = names.getCompactionInflightInstant(instant)
    if table.getActiveTimeline().containsInstant(inflight):
        one_at_a_time = hudi.client.transaction.TransactionManager(config, meta.getStorage())
        table.rollbackInflightCompaction(inflight, one_at_a_time)
    requested = names.getCompactionRequestedInstant(instant)
    meta.reloadActiveTimeline().deleteCompactionRequested(requested)


def table_in_metastore(
    spark: SparkSession,
    meta: Any,
    name: str,
    options: Mapping[str, str],
    hive: Mapping[str, str],
) -> str:
    """Return the location of a registered table if it isn't `meta`'s table, else an empty string.

    `options` are those of Hudi's sync, `hive` those of the client.
    """
    config = _hive_sync(spark, "HiveSyncConfig", options, hive)
    new_client = java_class(spark._jvm, "org.apache.hudi.hive.HoodieHiveSyncClient")
    with closing(new_client(config, meta)) as client:
        if not client.tableExists(name):
            return ""
        location = str(client.getTableLocation(name))
    same = java_class(spark._jvm, "org.apache.hudi.common.fs.FSUtils").comparePathsWithoutScheme
    return "" if same(location, str(meta.getBasePath().toString())) else location


def sync_with_metastore(
    spark: SparkSession, options: Mapping[str, str], hive: Mapping[str, str]
) -> None:
    """Register a table, its columns and its partitions with a Hive metastore."""
    _hive_sync(spark, "HiveSyncTool", options, hive).syncHoodieTable()


def _hive_sync(
    spark: SparkSession, name: str, options: Mapping[str, str], hive: Mapping[str, str]
) -> Any:
    properties = java_class(spark._jvm, "java.util.Properties")()
    properties.putAll(dict(options))
    # A copy, because these settings must not change the session's.
    conf = java_class(spark._jvm, "org.apache.hadoop.conf.Configuration")(hadoop_conf(spark))
    for key, value in hive.items():
        conf.set(key, value)
    return java_class(spark._jvm, f"org.apache.hudi.hive.{name}")(properties, conf)
