"""A micro-batch is a finite list of changes of the store: the table has to survive a stop at each.

`record` keeps the store as it is before each change; `try_state` resumes one such state elsewhere
and compares the table with the generator, by Spark and by hudi-rs.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import boto3
import pyarrow as pa
from clocks import instants, set_ahead, set_newest_ahead
from crash.proxy import Change, Proxy
from kills import read_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink import service_schedule as policy
from hudi_sink.files import exists
from hudi_sink.locks import IN_PROCESS
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import LabError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation, locate
from hudilab.settings import Settings, load_settings
from hudilab.table import METADATA, TableSpec
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain

BAD_EVERY = 10
ROWS, KEYS = 40, 60  # rows a batch; an upsert's batch changes keys of the two before it
SIZES = {"sensors": 2, "seed": 1}
COLUMNS = ("sensor_id", "reading_id", "temperature", "measurement_time")
DEADLINE = 600  # seconds, for a stream of a few small batches
Row = tuple[int, int, str, int]
Rows = Counter[Row]
WriteBatch = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Case:
    """What is written, and which batch is stopped at each of its changes.

    `tidy`: each batch merges and removes files too; `hudi` are settings of Hudi. With
    `recovery` (a kind) the batch is stopped there once, and what is stopped at each change is the
    resume, to the end of the next batch. `shared`: a second stream writes to the table all the
    time, and is stopped and resumed too. `bad`: each tenth row has no key, and has to be in the
    quarantine. `files`: the stream reads a folder of JSON files, one each batch, which its source
    notes in a log in the checkpoint. `first`: the first batch is an initial load; what resumes it
    is another `load`, or the `stream` itself. `beside`: each third batch plans table services,
    which a thread executes while the next batches are written. `clock`: it was ahead, and is set
    right before the resume. `metadata`: the table has a metadata table, as new ones on a disk do;
    on S3, where the batches are recorded, an option asks for it. `must` names the kinds that have
    to be among the changes.
    """

    table_type: str
    operation: str
    batch: int = 2
    tidy: bool = False
    hudi: Mapping[str, str] = field(default_factory=dict)
    recovery: str = ""
    shared: bool = False
    bad: bool = False
    files: bool = False
    first: str = ""
    beside: bool = False
    clock: bool = False
    metadata: bool = False
    must: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The last batch whose changes are recorded: what a stop left may be due in the next."""
        # A resume removes the plan of services beside, and only the third batch makes another.
        resume = BESIDE_EVERY if self.beside else 1
        return self.batch + resume * bool(self.recovery) + 2 * self.beside

    @property
    def batches(self) -> int:
        """The stream's length: a batch more than is recorded has to be right, too."""
        return self.last + 2

    @property
    def spec(self) -> TableSpec:
        upsert = self.operation == "upsert"
        return readings_table(
            table_type=self.table_type,
            operation=self.operation,
            buckets=1 if upsert else None,
        )


def open_on_s3(settings: Settings, case: Case) -> SparkSession:
    """A session whose class path and address are those of S3, with the case's settings of Hudi."""
    on_s3 = replace(settings, is_local=False, warehouse_path="s3a://hudilab/w")
    spark = open_session(on_s3, app="crash")
    jvm: Any = spark._jvm
    for key, value in case.hudi.items():
        jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.addToGlobalProps(key, value)
    return spark


# --- what is written, and what has to be there

BESIDE_EVERY = 3
SECOND = 1000  # the first number of a second stream's readings
# Both streams run in one session; a stopped one's heartbeat expires after three seconds.
SHARING = {
    **IN_PROCESS,
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "3",
}


def ledger_writer(spark: SparkSession, case: Case, location: TableLocation) -> WriteBatch:
    """The writer under test."""
    spec = case.spec
    if case.beside:  # compact what few rows have logged
        policy.COMPACT_EVERY, policy.SMALL_LOG = BESIDE_EVERY, 0
    source = {"rows": case.batches * ROWS, "batches": case.batches, **SIZES}
    options: dict[str, Any] = {"quarantine": case.bad}
    if _loads(spark, case, location):
        return ExactlyOnceSink(
            spark, spec, location, source, initial_load=True, **options
        ).write_batch
    metadata = {METADATA: "true"} if case.metadata else {}
    if case.shared:
        options |= {"shared": True, "lock": SHARING}
    else:
        # The ledger decides when to compact, unless its caller does.
        when = {key: value for key, value in case.hudi.items() if key.startswith("hoodie.compact")}
        every = BESIDE_EVERY if case.beside else 1 if case.tidy else case.batches + 1
        options |= {
            "services_every": every,
            "extra": when | metadata,
            "async_services": case.beside,
        }
    sink = ExactlyOnceSink(spark, spec, location, source, case.batches, **options)
    return sink.write_batch


def _loads(spark: SparkSession, case: Case, location: TableLocation) -> bool:
    """Whether an initial load is to be made, or made again after a stop."""
    folder = {"load": "commits", "stream": "offsets"}.get(case.first)
    return folder is not None and not exists(spark, f"{location.checkpoint}/{folder}/0")


def writer_without_stamps(spark: SparkSession, case: Case, location: TableLocation) -> WriteBatch:
    """A known hole: a batch that is replayed is written again."""
    return _appends(case, location, {})


def writer_that_never_looks(spark: SparkSession, case: Case, location: TableLocation) -> WriteBatch:
    """A known hole: each commit says which batch it holds, and nobody asks."""
    return _appends(case, location, {"hoodie.datasource.write.commitmeta.key.prefix": "hudilab."})


def _appends(case: Case, location: TableLocation, options: Mapping[str, str]) -> WriteBatch:
    def write_batch(batch: DataFrame, batch_id: int) -> None:
        if batch_id < case.batches:
            stamp = {"hudilab.batch_id": str(batch_id)} if options else {}
            write_options = case.spec.write_options() | dict(options) | stamp
            batch.write.format("hudi").options(**write_options).mode("append").save(location.table)

    return write_batch


WRITERS = {
    "ledger": ledger_writer,
    "without_stamps": writer_without_stamps,
    "never_looks": writer_that_never_looks,
}


def write(
    spark: SparkSession, case: Case, location: TableLocation, writer: str, batches: int
) -> None:
    """Run the stream from its checkpoint until so many batches are committed.

    The second stream of a shared table runs at the same time, to its end.
    """
    if _loads(spark, case, location):
        first = WRITERS[writer](spark, case, location)
        drain(_start(spark, case, location, first), batches=1, deadline=DEADLINE)
    second = replace(location, checkpoint=f"{location.checkpoint}_second")
    places = [location, second] if case.shared else [location]
    writers = [WRITERS[writer](spark, case, place) for place in places]
    # A stop between a file source's log and the plan makes a batch of two files, and so one fewer.
    whole = case.files and batches == case.batches
    queries = [_start(spark, case, *each, whole) for each in zip(places, writers, strict=True)]
    for query, end in zip(queries, (batches, case.batches), strict=False):
        drain(query, batches=None if whole else end, deadline=DEADLINE)
    if case.beside:
        cast(Any, writers[0]).__self__.close()


def _start(
    spark: SparkSession,
    case: Case,
    location: TableLocation,
    write_batch: WriteBatch,
    whole: bool = False,
) -> StreamingQuery:
    """Start the stream; `whole`: it ends by itself when all files are read."""
    if case.files:
        readings = _stream_from_files(spark, case)
    else:
        readings = sensor_stream(spark, rows_per_batch=ROWS, rows=case.batches * ROWS, **SIZES)
    if case.operation == "upsert":
        readings = readings.withColumn("reading_id", F.col("reading_id") % KEYS)
    if case.bad:
        good = F.col("reading_id") % BAD_EVERY > 0
        for name in case.spec.record_key:
            readings = readings.withColumn(name, F.when(good, F.col(name)))
    if location.checkpoint.endswith("_second"):
        readings = readings.withColumn("reading_id", F.col("reading_id") + SECOND)
    stream = readings.writeStream.foreachBatch(write_batch)
    if whole:
        stream = stream.trigger(availableNow=True)
    return stream.option("checkpointLocation", location.checkpoint).start()


def _stream_from_files(spark: SparkSession, case: Case) -> DataFrame:
    """The same readings in a folder beside the store: it stays as it is when a stream stops."""
    inbox = load_settings().home / "inbox"
    columns = sensor_readings(spark, 0, **SIZES).schema
    if not inbox.exists():
        inbox.mkdir()
        for number in range(case.batches):
            rows = sensor_readings(spark, (number + 1) * ROWS, first=number * ROWS, **SIZES)
            lines = [row[0] for row in rows.select(F.to_json(F.struct("*"))).collect()]
            file = inbox / f"{number:03}.json"
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            os.utime(file, (number, number))  # Spark reads the oldest first
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(inbox))


def expectations(spark: SparkSession, case: Case) -> list[Rows]:
    """What a stream has written after no batch, after one, after two ..."""
    rows = sensor_readings(spark, case.batches * ROWS, **SIZES)
    numbered = rows.select(*COLUMNS[:3], F.unix_micros("measurement_time")).orderBy("reading_id")
    kept: dict[tuple[int, int], Row] = {}
    versions = [Rows()]
    for sensor, number, temperature, moment in numbered.collect():
        key = number % KEYS if case.operation == "upsert" else number
        if not (case.bad and key % BAD_EVERY == 0):
            kept[sensor, key] = (sensor, key, str(temperature), moment)
        if number % ROWS == ROWS - 1:
            versions.append(Rows(kept.values()))
    return versions


# --- what is there


def rows_of_spark(spark: SparkSession, table: str) -> Rows:
    rows = spark.read.format("hudi").load(table)
    rows = rows.select(*COLUMNS[:3], F.unix_micros("measurement_time"))
    return Rows((row[0], row[1], str(row[2]), row[3]) for row in rows.collect())


def rows_of_hudi_rs(table: Path) -> Rows:
    """The same by the second engine, which shares no code with Spark."""
    if not (batches := read_batches(table)):
        return Rows()
    rows = pa.Table.from_batches(batches).select(COLUMNS)
    moments = rows["measurement_time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = [rows[name].to_pylist() for name in COLUMNS[:3]]
    columns[2] = [str(value) for value in columns[2]]
    return Rows(zip(*columns, moments.to_pylist(), strict=True))


class History(NamedTuple):
    """Completed instants: writes of each batch by their stamps, and how many of each action."""

    writes: Counter[int]
    actions: Counter[str]


def history_of(spark: SparkSession, table: str) -> History:
    if not exists(spark, f"{table}/.hoodie/hoodie.properties"):
        return History(Counter(), Counter())
    jvm: Any = spark._jvm
    jsc: Any = spark._jsc
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(jsc.hadoopConfiguration())
    builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
    meta = builder.setConf(conf).setBasePath(table).build()
    old, active = meta.getArchivedTimeline(), meta.getActiveTimeline()
    old.loadCompletedInstantDetailsInMemory()
    writes, actions, seen = Counter[int](), Counter[str](), set[str]()
    for timeline in (active, old):
        for instant in timeline.filterCompletedInstants().getInstants():
            name = f"{instant.requestedTime()} {instant.getAction()}"
            if name in seen:  # a stop in the middle of archiving: it is in both
                continue
            seen.add(name)
            actions[instant.getAction()] += 1
            if instant.getAction() not in ("commit", "deltacommit"):
                continue
            commit = timeline.readCommitMetadata(instant)
            # What merges files carries the stamp of the batch that scheduled it.
            if str(commit.getOperationType()) in ("BULK_INSERT", "INSERT", "UPSERT"):
                batch = commit.getMetadata("hudilab.batch_id")
                writes[-1 if batch is None else int(batch)] += 1
    return History(writes, actions)


# --- which change a request makes

_TIMELINE = re.compile(r"\d{17}(_\d{17})?\.(.+)")


def kind_of(change: Change) -> str:
    """The change in words, without names that differ from run to run: "put inflight"."""
    key = change.keys[0]
    where = " of the quarantine" * ("_quarantine/" in key)
    table, _, inside = key.partition("/.hoodie/metadata/")
    if inside:
        key, where = f"{table}/{inside}", f"{where} of the metadata table"
    return f"{change.verb} {_what(key.rstrip('/'))}{' folder' * key.endswith('/')}{where}"


def _what(key: str) -> str:
    folder, _, name = key.rpartition("/")
    if "/_checkpoints/" in key:
        log = folder.rpartition("/")[2]
        if "/sources/" in key:
            log = "source compacted" if ".compact" in name else "source"
        elif log not in ("offsets", "commits", "sources"):
            log = ""
        return f"checkpoint {log or name}{' temporary' * name.endswith('.tmp')}"
    if "/.hoodie/timeline" in folder:
        match = _TIMELINE.fullmatch(name)
        where = "history " if "/history" in folder else ""
        if match is None:
            return f"{where or 'timeline '}{re.sub(r'[0-9]+', 'N', name)}"
        return f"{where}{match[2]}{' completed' * bool(match[1])}"
    if "/.hoodie/.temp" in key:
        return "marker"
    if "/.hoodie" in key:
        return name
    if ".log." in name:
        return "log file"
    return "base file" if name.endswith(("parquet", "hfile")) else name


# --- recording


class State(NamedTuple):
    """The store before a change: the change's kind and key, and a copy of the store."""

    kind: str
    key: str
    files: Path


class Recorder:
    """Keeps the store before each change of the batches `first` to `last`, and after them.

    A batch begins with its plan in the checkpoint, one of files with the entry in their log;
    `at_once`: before anything is asked for. The S3 server replaces files and never writes into
    one, so the copies are hard links.
    """

    def __init__(self, store: Path, folder: Path, first: int, last: int, *, at_once: bool) -> None:
        self.store, self.folder, self.first, self.last = store, folder, first, last
        self.states: list[State] = []
        self.on, self.ended = at_once, False

    def __call__(self, change: Change) -> None:
        self.on = self.on or self._plans(change, self.first)
        if self.on and not self.ended:
            if self._plans(change, self.last + 1):
                self.end()
            else:
                self._keep(kind_of(change), change.keys[0])

    def end(self) -> None:
        """Keep what the batches leave behind when nothing stops them."""
        if not self.ended:
            self.ended = True
            self._keep("nothing", "")

    @staticmethod
    def _plans(change: Change, batch: int) -> bool:
        plan = re.compile(rf"/readings/(offsets|sources/0)/\.?{batch}(\.|$)")
        return any(plan.search(key) for key in change.keys)

    def _keep(self, kind: str, key: str) -> None:
        files = self.folder / f"{len(self.states):04}"
        shutil.copytree(self.store, files, copy_function=os.link)
        self.states.append(State(kind, key.partition("/")[2], files))


def torn(states: list[State]) -> list[State]:
    """What S3 never shows and a disk does: half of a data file that was being written."""
    results = []
    for before, after in pairwise(states):
        if before.kind in ("put base file", "put log file"):
            files = before.files.with_name(f"{before.files.name}-half")
            shutil.copytree(after.files, files, copy_function=os.link)
            whole = (files / before.key).read_bytes()
            (files / before.key).unlink()  # the other copies have the same file
            (files / before.key).write_bytes(whole[: len(whole) // 2])
            results.append(State(f"{before.kind}, half", before.key, files))
    return results


class Trap:
    """Holds the n-th change of a kind: before it is passed on, or (`late`) before its answer."""

    def __init__(self, proxy: Proxy, kind: str, nth: int, *, late: bool) -> None:
        self.proxy, self.kind, self.left = proxy, kind, nth
        self.sprung, self._free = threading.Event(), threading.Event()
        if late:
            proxy.after = self
        else:
            proxy.before = self

    def __call__(self, change: Change) -> None:
        self.left -= kind_of(change) == self.kind
        if self.left == 0 and not self.sprung.is_set():
            self.sprung.set()
            self._free.wait()

    def remove(self) -> None:
        """Drop the change, or its answer, and all that stands behind it; the client is dead."""
        self.proxy.cut()
        self._free.set()
        with self.proxy.one_at_a_time:
            self.proxy.before = self.proxy.after = lambda change: None


def _second(row: Row) -> Row:
    return row[0], row[1] + SECOND, row[2], row[3]


class Lab:
    """A live session whose S3 is the proxy, and the folders of one case.

    Roots are as long as each other, so that absolute paths inside of Hudi's plans can be replaced.
    """

    def __init__(self, spark: SparkSession, case: Case, writer: str, home: Path) -> None:
        self.spark, self.case, self.writer, self.home = spark, case, writer, home
        self.store = home / "services" / "s3" / "data" / "hudilab"
        self.expected = expectations(spark, case)
        self.seconds = [Rows({_second(row): 1 for row in rows}) for rows in self.expected]
        self.client: Any = boto3.Session().client("s3", region_name="us-east-1")
        local = f"file://{home}/tried/0000"
        self.prefix = "w" * (len(local) - len("s3a://hudilab/000"))

    def s3(self, number: int) -> tuple[TableLocation, Path]:
        """A place on S3, and the folder with its objects."""
        name = f"{self.prefix}{number:03}"
        uri = f"s3a://hudilab/{name}"
        return self._location(uri, is_local=False), self.store / name

    def disk(self, number: int) -> tuple[TableLocation, Path]:
        folder = self.home / "tried" / f"{number:04}"
        return self._location(f"file://{folder}", is_local=True), folder

    def _location(self, uri: str, *, is_local: bool) -> TableLocation:
        return locate(uri, "lab", "readings", is_local=is_local, home=self.home)

    def batches_in(self, rows: Rows) -> int | str:
        """How many whole batches these rows are; in words what else they are."""
        of_second = Rows({row: count for row, count in rows.items() if row[1] >= SECOND})
        problems = [
            next((n for n, expected in enumerate(series) if some == expected), None)
            for some, series in ((rows - of_second, self.expected), (of_second, self.seconds))
        ]
        if None in problems:
            return f"{rows.total()} rows, no whole batches,"
        return sum(batches for batches in problems if batches is not None)

    def problems(self, location: TableLocation, table: Path, after: History) -> list[str]:
        """What is wrong with a table at the end of its stream, in words."""
        results, expected = [], self.expected[-1]
        if self.case.shared:
            expected = expected + self.seconds[-1]
        readings = {
            "Spark": rows_of_spark(self.spark, location.table),
            "hudi-rs": rows_of_hudi_rs(table),
        }
        for engine, rows in readings.items():
            lost, twice = (expected - rows).total(), (rows - expected).total()
            if lost or twice:
                results.append(f"{engine} reads {lost} lost, {twice} twice or wrong")
        if self.case.bad and (text := self._wrong_in_quarantine(location)):
            results.append(text)
        batches = self.case.batches
        if self.case.files and len(after.writes) == batches - 1:
            batches -= 1  # stopped between a source's log and the plan: a batch has two files
        if after.writes != Counter([*range(batches)] * (1 + self.case.shared)):
            results.append(f"commits of each batch: {dict(sorted(after.writes.items()))}")
        return results

    def _wrong_in_quarantine(self, location: TableLocation) -> str:
        table = self.spark.read.format("hudi").load(location.quarantine)
        rows_read = Counter((row.batch, row.reason) for row in table.collect())
        reason = f"the record key ({', '.join(self.case.spec.record_key)}) is null"
        wanted = {(batch, reason): ROWS // BAD_EVERY for batch in range(self.case.batches)}
        return "" if rows_read == wanted else f"the quarantine has {sorted(rows_read.items())}"

    def record(self, proxy: Proxy) -> tuple[list[State], TableLocation]:
        """The states of the case, and the place where they arose."""
        case, (location, store) = self.case, self.s3(0)
        # A thread executes the plan of this batch beside the next two.
        last = case.batch + 2 * case.beside
        states = self._record(proxy, location, store, last, at_once=False)
        if case.recovery:
            crashed = next(state for state in states if state.kind == case.recovery)
            again, store = self.s3(1)
            self.restore(crashed, location, again, store)
            states, location = self._record(proxy, again, store, case.last, at_once=True), again
        return states + torn(states), location

    def restore(
        self, state: State, origin: TableLocation, location: TableLocation, store: Path
    ) -> None:
        """Copy a state to another root; plans of Hudi hold absolute paths, which follow it."""
        old, new = origin.warehouse.encode(), location.warehouse.encode()
        assert len(old) == len(new)  # texts in Avro stand behind their lengths
        for path in sorted(state.files.rglob("*")):
            if path.is_dir() and any(path.iterdir()):
                continue
            to = store / path.relative_to(state.files)
            content = b"" if path.is_dir() else path.read_bytes().replace(old, new)
            if location.warehouse.startswith("s3a:"):
                key = f"{to.relative_to(self.store)}{'/' * path.is_dir()}"
                self.client.put_object(Bucket="hudilab", Key=key, Body=content)
            elif path.is_dir():
                to.mkdir(parents=True)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(content)

    def _record(
        self, proxy: Proxy, location: TableLocation, store: Path, last: int, *, at_once: bool
    ) -> list[State]:
        folder = self.home / "states" / store.name
        recorder = Recorder(store, folder, self.case.batch, last, at_once=at_once)
        proxy.before = recorder
        write(self.spark, self.case, location, self.writer, last + 1)
        with proxy.one_at_a_time:
            recorder.end()
            proxy.before = lambda change: None
        return recorder.states


# --- trying


class Tried(NamedTuple):
    """What became of a state: `outcome` and, for one that is wrong or refused, why."""

    kind: str
    outcome: str
    why: str = ""


def set_clock_back(lab: Lab, location: TableLocation, store: Path) -> None:
    """By an hour: a resume is refused and changes nothing. Then by two seconds: it will wait."""
    tables = [uri for uri in (location.table, location.quarantine) if instants(uri)]
    for uri in tables:
        set_ahead(uri, 3600)
    if location.table in tables:
        before = contents(store)
        try:
            write(lab.spark, lab.case, location, lab.writer, lab.case.batches)
        except LabError as error:
            if not str(error).startswith(f"the clock is behind the table {location.table}"):
                raise
        else:
            raise AssertionError("it was not refused while the clock was an hour behind")
        assert contents(store) == before, "what was refused has changed something"
    for uri in tables:
        set_newest_ahead(uri, 2)


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def try_state(
    lab: Lab, state: State, origin: TableLocation, location: TableLocation, store: Path
) -> Tried:
    """Read the state, resume the stream on it to its end, and compare; removes it afterwards."""
    lab.restore(state, origin, location, store)
    table = store / "lab" / "readings"
    try:
        seen = lab.batches_in(rows_of_hudi_rs(table))
        before = history_of(lab.spark, location.table)
        if lab.case.clock:
            set_clock_back(lab, location, store)
        write(lab.spark, lab.case, location, lab.writer, lab.case.batches)
        after = history_of(lab.spark, location.table)
        problems = lab.problems(location, table, after)
        if seen != before.writes.total():
            problems.append(f"a reader saw {seen} of {before.writes.total()} batches before")
    except LabError as error:
        # Any other error is none that says what to do, even in a line of the lab's.
        clear = "the stream ended" not in str(error) or "hudilab.errors." in str(error)
        return Tried(state.kind, "refused" if clear else "wrong", str(error))
    except Exception as error:  # whatever it is, this state has no right table
        return Tried(state.kind, "wrong", f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(store)
    if problems:
        return Tried(state.kind, "wrong", "; ".join(problems))
    rolled_back = after.actions["rollback"] > before.actions["rollback"]
    skipped = before.writes[lab.case.batch] > 0
    outcome = "rolled back" if rolled_back else "skipped" if skipped else "replayed"
    return Tried(state.kind, outcome)
