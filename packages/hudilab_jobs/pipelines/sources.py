"""The sources of a pipeline: a folder of files, or the changes of a Hudi table.

`topic.py` has the third source.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from operator import and_
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from hudi_sink.commits import Commits
from hudi_sink.files import FileInfo, exists, list_files
from hudi_sink.jvm import as_batch, cached, completed
from hudi_sink.rows import REFUSED, refuse, refused_row
from hudilab.errors import ConfigError, many, root_cause
from hudilab.paths import TableLocation, local_path
from hudilab.settings import Settings
from hudilab_jobs.groups import PREFIX, FilePipeline, Pipeline, TablePipeline
from hudilab_jobs.pipelines.csv_text import PROBLEM as CSV_PROBLEM
from hudilab_jobs.pipelines.csv_text import ROW as CSV_ROW
from hudilab_jobs.pipelines.csv_text import TEXT as CSV_TEXT
from hudilab_jobs.pipelines.csv_text import Dialect, Form
from hudilab_jobs.pipelines.files import (
    Columns,
    Problem,
    batch_files,
    first_bytes,
    first_problem,
    folder_columns,
    is_folder,
    pack_problem,
)
from hudilab_jobs.pipelines.json_text import LINE as JSON_LINE
from hudilab_jobs.pipelines.json_text import PROBLEM as JSON_PROBLEM
from hudilab_jobs.pipelines.json_text import ROW as JSON_ROW
from hudilab_jobs.pipelines.json_text import lines_are_whole, with_json
from hudilab_jobs.pipelines.listing import (
    HIDDEN,
    MODIFIED,
    SINK,
    UNLISTED,
    SourceLog,
    committed_files,
    is_hidden,
    unread_line,
)
from hudilab_jobs.pipelines.options import option_problem
from hudilab_jobs.pipelines.query_values import ansi_rules, value_problem
from hudilab_jobs.pipelines.text_values import (
    PROBLEM_TYPE,
    Numbers,
    Texts,
    both,
    literal,
    one_line,
    quoted,
)
from hudilab_jobs.pipelines.words import in_words_of

ROWS = "hudilab_rows"  # name of Spark's row count of a batch
SAMPLE = 1_000  # rows that a check reads from large files
FILES = 20  # newest files whose columns a check reads
SMALL, SMALL_FILES = 16_384, 200  # maximum bytes and number of the files that a check reads whole
ANY_AGE = f"{2**63 - 1}ms"
PATTERN = frozenset("[]{}*?\\")  # characters of a path that make it a pattern
FAILED = (Py4JError, PySparkException)
META = ("_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
OR_QUARANTINE = ', or quarantine such lines: "quarantine": "true"'
NO_QUARANTINE = (
    ", because the quarantine stores lines, and multiLine=true or this encoding reads a file as a "
    "whole"
)
Group = TypeVar("Group", bound=Pipeline)


class Sample(NamedTuple):
    """The first rows of a source, in memory, with a description of their origin.

    `refused` contains the problems of the source's unreadable rows, each with a count.
    """

    origin: str
    rows: DataFrame
    refused: Sequence[tuple[str, int]] = ()


class Source(ABC, Generic[Group]):
    """A pipeline's source, as a stream or as a sample; errors name file, group and key."""

    unit: ClassVar[str]  # counted by `behind`
    columns = T.StructType()  # of the view `source`, after the query was checked

    def __init__(self, spark: SparkSession, settings: Settings, name: str, group: Group) -> None:
        self._spark, self._settings, self._name = spark, settings, PREFIX + name
        self.group = group

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return the properties that must not change between the runs of a checkpoint."""

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Return descriptions of the source's current size and of a batch's maximum."""

    def check_options(self, source: str, *, values: bool = False) -> None:
        """Raise ConfigError for an unknown option or a wrong value.

        Args:
            source: `source.format`.
            values: Whether the values of messages are JSON.
        """
        problem = option_problem(self._spark, self.group.options(), source, values=values)
        if problem is not None:
            raise self.error("source.options", *problem)

    @abstractmethod
    def check(self) -> list[str]:
        """Return the columns after the query.

        Raises:
            LabError: The source does not exist, or the schema or the query is wrong.
        """

    @abstractmethod
    def stream(self, *, whole: bool = False) -> DataFrame:
        """Return the rows as a stream; with `whole`, the first batch reads the whole source."""

    def selected_stream(self) -> DataFrame:
        """Return the stream's rows after the query, to examine the plan.

        If rows bypass the query, it runs in each batch instead of the stream. The bypassing rows
        would be a second source of the stream, and a checkpoint can't change its number of sources.
        """
        return self.stream()

    @contextmanager
    def batch(self, rows: DataFrame) -> Iterator[DataFrame]:
        """Yield a batch as the rows to write; raise LabError if it cannot be read."""
        yield rows

    def misnamed(self, error: str) -> Sequence[str]:
        """Return the running batch's files whose names caused this error.

        Spark reads a renamed file as a new file, and has read no row under the old name.
        """
        return ()

    def rows_read(self) -> int | None:
        """Return the newest batch's number of rows, if the stream's own plan did not read it."""
        return None

    def check_offsets(self, checkpoint: str, batch: int | None = None) -> None:
        """Raise LabError if the offsets of a planned batch don't order its rows.

        Without a batch, check all planned batches that aren't done, and the source now.

        Args:
            checkpoint: The checkpoint's URI.
        """

    @abstractmethod
    def sample(self) -> Sample | None:
        """Return the first rows, or None if the source is empty; an invalid row raises an error."""

    def unread(self, location: TableLocation) -> str:
        """Return a line about newly ignored files; empty if there are none."""
        return ""

    @abstractmethod
    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return the number of `unit`s that remain unread after a batch with this progress."""

    def selected(self, rows: DataFrame) -> DataFrame:
        """Return the rows after the group's query, with the rows that bypass it."""
        if self.group.select is None:
            return rows
        marks, kept = self._bypassing(rows)
        if not marks:
            return self._queried(rows, self.group.select)
        through = reduce(and_, (mark.isNull() for mark in marks.values()))
        chosen = self._queried(rows.where(through).drop(*marks), self.group.select)
        others = rows.where(~through).select(*kept, *marks)
        return chosen.unionByName(others, allowMissingColumns=True)

    def _bypassing(self, rows: DataFrame) -> tuple[dict[str, Column], Sequence[str]]:
        """Return markers of the rows that must not pass the query, and the columns they keep.

        The markers are additional columns, hidden from the query, that are NULL in all other rows.
        """
        return ({REFUSED: F.col(f"{REFUSED}.reason")} if REFUSED in rows.columns else {}), ()

    def _checked(self, rows: DataFrame) -> DataFrame:
        """Return the rows after the group's query; raise ConfigError for an invalid query.

        Spark evaluates constants during planning, outside of `batch`, so they are checked here.
        """
        if self.group.select is not None:
            nothing = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), rows.schema)
            with self._in_select():
                self.selected(nothing)._jdf.queryExecution().optimizedPlan()
        return self.selected(rows)

    @contextmanager
    def _in_select(self) -> Iterator[None]:
        """Raise ConfigError if the query cannot compute a value."""
        try:
            yield
        except FAILED as error:
            problem = "" if self.group.select is None else value_problem(str(error))
            if not problem:
                raise
            raise self.error(
                "select", problem, "correct the expression, or use try_cast where NULL is wanted"
            ) from error

    def _check_streams(self, rows: DataFrame) -> None:
        """Raise ConfigError if the group's query cannot run in each batch separately."""
        sql: Any = self._spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
        checker = sql.catalyst.analysis.UnsupportedOperationChecker
        plan = rows._jdf.queryExecution().analyzed()
        try:
            checker.checkForStreaming(plan, sql.streaming.OutputMode.Append())
        except FAILED as error:
            raise self.error("select", root_cause(str(error)), "fix the query") from error

    def _queried(self, rows: DataFrame, query: str) -> DataFrame:
        rows.createOrReplaceTempView("source")
        self.columns = rows.schema
        try:
            with ansi_rules(rows.sparkSession):
                return rows.sparkSession.sql(query)
        except FAILED as error:
            raise self.error(
                "select", root_cause(str(error)), "fix the query; it reads the view source"
            ) from error

    def error(self, key: str, problem: str, remedy: str) -> ConfigError:
        """Return the error for a key of the group."""
        file = self._settings.origin(self._name, key)
        return ConfigError(f"{file}: group {self._name!r}, key {key!r}: {problem}", remedy)

    def check_names(self, kind: T.DataType, place: str = "") -> None:
        """Raise ConfigError if two columns, or two fields of a struct, have the same name."""
        if isinstance(kind, T.ArrayType):
            self.check_names(kind.elementType, place)
        elif isinstance(kind, T.MapType):
            self.check_names(kind.valueType, place)
        elif isinstance(kind, T.StructType):
            names: dict[str, str] = {}
            for field in kind:
                if first := names.get(field.name.lower()):
                    raise self.error(
                        "source.schema",
                        f"names a column twice: {place}{first} and {place}{field.name} (capitals "
                        "make no difference)",
                        "rename or remove one of them",
                    )
                names[field.name.lower()] = field.name
                self.check_names(field.dataType, f"{place}{field.name}.")

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Raise errors of the sink and the query in the group's terms, see `in_words_of`."""
        with in_words_of(self._settings, self._name), self._in_select():
            yield

    def first(self, origin: str, rows: DataFrame) -> Sample:
        """Return the first rows after the query, read once."""
        with self._in_select():
            return sample_of(origin, self._few(rows, SAMPLE))

    def _few(self, rows: DataFrame, most: int | None) -> DataFrame:
        """Return the first rows after the query; with None, return all rows."""
        if most is None:
            return self.selected(rows)
        return self.selected(rows.limit(most) if REFUSED in rows.columns else rows).limit(most)


def sample_of(origin: str, rows: DataFrame) -> Sample:
    """Return rows of the table as a sample, with the problems of refused rows."""
    rows = cached(rows)
    rows.count()
    if REFUSED not in rows.columns:
        return Sample(origin, rows)
    reason = F.col(f"{REFUSED}.reason")
    refused = rows.groupBy(reason.alias("reason")).count().dropna().collect()
    return Sample(
        origin,
        rows.where(reason.isNull()).drop(REFUSED),
        [(row["reason"], row["count"]) for row in refused],
    )


class Folder(Source[FilePipeline]):
    """A folder of files: CSV, JSON, Parquet, ORC or Avro."""

    unit = "file"

    _log: SourceLog | None = None
    # The reasons and paths that `unread` has reported, and those of its last call.
    _named: frozenset[tuple[str, str]] = frozenset()
    _ignored: set[tuple[str, str]] | None = None
    _batch: Sequence[str] = ()  # the URIs of the newest batch's files
    _misnamed: Sequence[str] = ()  # files whose names caused its refusal
    _reads: Any = None  # the second plan that reads the newest batch, if any

    def identity(self) -> Mapping[str, Any]:
        """Return the files' format and the folder."""
        return {"source": f"{self.group.source_format} of {self.group.uri}"}

    def describe(self) -> tuple[str, str]:
        """Return the number and size of all files, and of one batch's files."""
        files = self._files()
        first = files[: int(self.group.files_per_batch)]
        size, first_size = (sum(file.size for file in chosen) for chosen in (files, first))
        return (
            f"{many(len(files), 'file')}, {size:,} bytes, in {self.group.uri}",
            f"{many(len(first), 'file')} ({first_size:,} bytes)",
        )

    def check(self) -> list[str]:
        """Return the columns; raise LabError without the folder, or if schema or query is wrong."""
        self.check_options(self.group.source_format)
        self._check_folder()
        if self.group.source_schema is None:
            raise self._without_schema()
        if "columnnameofcorruptrecord" in self._options and self._corrupt not in self._schema.names:
            raise self.error(
                "source.options",
                f"has columnNameOfCorruptRecord={self._corrupt}, which is no column",
                f"add {self._corrupt} STRING to source.schema, or remove the option",
            )
        try:
            rows = self._rows(self._spark.read, self.group.uri)
        except FAILED as error:
            problem = root_cause(str(error))
            raise self.error("source.schema", problem, "declare such a column as STRING") from error
        return self._checked(rows).columns

    def _check_folder(self) -> None:
        uri = self.group.uri
        if not exists(self._spark, uri):
            raise self.error(
                "source.path", f"the folder {uri} does not exist", "create it, or choose another"
            )
        if not is_folder(self._spark, uri):
            raise self.error(
                "source.path",
                f"{uri} is a file",
                "name its folder; pathGlobFilter=NAME in source.options chooses files in it",
            )
        if marks := sorted(set(uri) & PATTERN):
            raise self.error(
                "source.path",
                f"{uri} contains {' '.join(marks)}, which Spark reads as a pattern",
                "rename the folder; pathGlobFilter=... in source.options chooses files in it",
            )

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read new files, in a batch at most `files.per.batch` unless `whole`."""
        # Spark compares ages with the newest file, so a future date would exclude other files.
        reader = self._spark.readStream.option("maxFileAge", ANY_AGE)
        if not whole:
            reader = reader.option("maxFilesPerTrigger", self.group.files_per_batch)
        # Spark counts lines, and a line may be a header or contain several rows.
        rows = self._rows(reader, self.group.uri)
        rows = rows if self._by_batch else self.selected(rows)
        return rows.observe(ROWS, F.count("*").alias("rows"))

    @property
    def _by_batch(self) -> bool:
        return self.group.select is not None and self._quarantines

    @override
    def selected_stream(self) -> DataFrame:
        rows = self.selected(self._rows(self._spark.readStream, self.group.uri))
        if self._by_batch:
            self._check_streams(rows)
        return rows

    def sample(self) -> Sample | None:
        """Read small files and the first rows of the newest large files.

        It checks the header or the columns of each file first.
        """
        files = self._files()
        if not files:
            return None
        forms = self._check_files([f"{self.group.uri}/{file.path}" for file in files])
        newest = [*reversed(files)]
        newest = newest[:FILES] + [file for file in newest[FILES:SMALL_FILES] if file.size <= SMALL]
        small = [file for file in newest if file.size <= SMALL]
        parts = [[file] for file in newest if file.size > SMALL]
        most = SAMPLE // max(len(parts), 1)
        rows: list[DataFrame] = []
        try:
            for part in [*parts, *([small] if small else [])]:
                uris = [f"{self.group.uri}/{file.path}" for file in part]
                read = self._read(self._spark, {uri: forms.get(uri, Form()) for uri in uris})
                rows.append(self._few(read, None if part is small else most))
            with self._in_select():
                return sample_of(_origin(newest, len(files)), reduce(DataFrame.union, rows))
        except FAILED as error:
            raise self._unreadable([file.path for file in newest], error) from error

    @contextmanager
    def batch(self, rows: DataFrame) -> Iterator[DataFrame]:
        """Yield the batch; raise LabError if a file has another header or other columns.

        The stream's plan reads all files in the same way. If a file has another order of columns or
        other line ends, a second plan reads the whole batch.
        """
        self._reads, self._misnamed = None, []
        self._batch = files = batch_files(self._spark, rows)
        forms = self._check_files(files)
        own = rows if self._by_batch else None
        if any(form.order or form.line_end.strip("\n") for form in forms.values()):
            own = self._read(rows.sparkSession, forms)
        if own is not None:
            own = self.selected(own).observe(ROWS, F.count("*").alias("rows"))
            self._reads = own._jdf.queryExecution()
            rows = as_batch(rows.sparkSession, self._reads)
        try:
            yield rows
        except Exception as error:  # explained and raised again
            # Spark's error doesn't contain the file.
            if self._is_text and re.search(r"java[.](io[.](IO|EOF)|util[.]zip[.])", str(error)):
                self._raise_first(lambda uri: pack_problem(self._spark, uri), files)
            if not self._is_text and isinstance(error, FAILED):
                self._raise_first(self._reading_problem, files)
            raise

    def _reading_problem(self, uri: str) -> Problem | None:
        """Return the problem of a file with unreadable rows, or None."""
        try:
            self._rows(self._spark.read, [uri]).write.format("noop").mode("overwrite").save()
        except FAILED as error:
            problem = f"it cannot be read as {self.group.source_format}: {root_cause(str(error))}"
            return problem, "correct the file or source.schema"
        return None

    @override
    def misnamed(self, error: str) -> Sequence[str]:
        if refused := _WRONG_FOLDER.search(error):
            above, mark, below = refused["uri"].partition(f"/{refused['name']}=")
            folder = f"{above}{mark}{below.partition('/')[0]}/"
            return [uri for uri in self._batch if uri.startswith(folder)]
        return self._misnamed

    def rows_read(self) -> int | None:
        """Return the newest batch's number of rows, if a second plan has read it."""
        if self._reads is None:
            return None
        counted = self._reads.observedMetrics().get(ROWS)
        return int(counted.get().getLong(0)) if counted.isDefined() else 0

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return the number of files that no batch has read, from the source's own log."""
        log, end = self._source_log(location), int(progress["sources"][0]["endOffset"]["logOffset"])
        log.read(end)
        # The log may already contain the next batch.
        return sum(
            (entry := log.files.get(f"{self.group.uri}/{file.path}")) is None or entry.number > end
            for file in self._files()
        )

    @override
    def unread(self, location: TableLocation) -> str:
        log = self._source_log(location)
        log.read()
        listed = self._listed()
        unread = {why: [file.path for file in files] for why, files in listed.items() if why}
        unread[MODIFIED] = log.modified_since(listed.get("", ()), self.group.uri)
        current = {(why, path) for why, paths in unread.items() for path in paths}
        new = current - self._named
        if self._ignored is not None:
            new &= self._ignored  # a program may write a hidden file and rename it afterwards
        self._named, self._ignored = self._named | new, current
        fresh = {
            why: [path for path in paths if (why, path) in new] for why, paths in unread.items()
        }
        return unread_line(self.group.uri, fresh)

    def sizes(self) -> dict[str, int]:
        """Return sizes by the unescaped URIs of the files that Spark would read."""
        return {f"{self.group.uri}/{file.path}": file.size for file in self._files()}

    def _source_log(self, location: TableLocation) -> SourceLog:
        if self._log is None:
            self._log = SourceLog(self._spark, location.checkpoint)
        return self._log

    @cached_property
    def _options(self) -> dict[str, str]:
        """The group's options, with lower-case names."""
        return {name.lower(): value for name, value in self.group.options().items()}

    @cached_property
    def _schema(self) -> T.StructType:
        """The group's columns, including those in folder names."""
        try:
            schema = T._parse_datatype_string(str(self.group.source_schema))
        except FAILED as error:
            raise self.error(
                "source.schema", root_cause(str(error)), "write it as in CREATE TABLE"
            ) from error
        if not isinstance(schema, T.StructType):
            raise self.error("source.schema", "has no names", "write it as in CREATE TABLE")
        self.check_names(schema)
        return schema

    @cached_property
    def _folder_columns(self) -> frozenset[str]:
        """The columns in folder names such as `shop=01/`."""
        for path, names in folder_columns(file.path for file in self._files()):
            if unknown := sorted(names - set(self._schema.names)):
                raise self.error(
                    "source.schema",
                    f"{path} is in a folder {unknown[0]}=..., but the schema lacks {unknown[0]}",
                    f"add it with its type, such as {unknown[0]} STRING, or rename the folders",
                )
            return names
        return frozenset()

    @cached_property
    def _file_schema(self) -> T.StructType:
        """The columns in the files themselves."""
        left_out = set(self._folder_columns)
        if self._mode == "PERMISSIVE":
            left_out.add(self._corrupt)
        return T.StructType([field for field in self._schema if field.name not in left_out])

    @cached_property
    def _texts(self) -> Texts:
        numbers = None
        if locale := self._options.get("locale"):
            java: Any = self._spark._jvm
            symbols = java.java.text.DecimalFormatSymbols(
                java.java.util.Locale.forLanguageTag(locale)
            )
            numbers = Numbers(
                str(symbols.getGroupingSeparator()), str(symbols.getDecimalSeparator())
            )
        return Texts(self._options, self.group.timestamp_unit, numbers)

    @property
    def _mode(self) -> str:
        return self._options.get("mode", "FAILFAST").upper()

    @property
    def _is_text(self) -> bool:
        return self.group.source_format in ("csv", "json")

    @cached_property
    def _has_lines(self) -> bool:
        """Whether Spark reads the files line by line, so that an invalid line can be removed."""
        is_whole = self._options.get("multiline", "false").lower() == "true"
        if self.group.source_format == "csv":
            is_whole = Dialect(self._texts).whole
        return self._is_text and not is_whole

    @property
    def _quarantines(self) -> bool:
        """Whether invalid lines are quarantined."""
        return self.group.quarantine and self._has_lines and self._mode == "FAILFAST"

    @property
    def _corrupt(self) -> str:
        return self._options.get("columnnameofcorruptrecord", "_corrupt_record")

    def _files(self) -> list[FileInfo]:
        """Return the files that Spark would read, oldest first."""
        return self._listed().get("", [])

    def _listed(self) -> dict[str, list[FileInfo]]:
        """Return the folder's files, oldest first, by the reason why Spark ignores them.

        The reason is empty for files that Spark reads. Other files without rows are omitted.
        """
        try:
            files = list_files(self._spark, self.group.uri)
        except PermissionError as error:
            raise self._closed(error.filename) from None
        committed = None
        if any(file.path.startswith(f"{SINK}/") for file in files):
            committed = committed_files(self._spark, self.group.uri)
        listed: dict[str, list[FileInfo]] = {}
        for file in sorted(files, key=lambda file: (file.modified_ms, file.path)):
            why = ""
            if is_hidden(file.path):
                why = HIDDEN
            elif self._chosen and not self._chosen.fullmatch(file.path.rpartition("/")[2]):
                why = f"not matched by pathGlobFilter={self._options['pathglobfilter']}"
            elif committed is not None and f"{self.group.uri}/{file.path}" not in committed:
                why = UNLISTED
            if not why or (file.size and not file.path.startswith(f"{SINK}/")):
                listed.setdefault(why, []).append(file)
        return listed

    @cached_property
    def _chosen(self) -> re.Pattern[str] | None:
        """A pattern of the file names that `pathGlobFilter` matches."""
        if (pattern := self._options.get("pathglobfilter")) is None:
            return None
        jvm: Any = self._spark._jvm
        return re.compile(str(jvm.org.apache.hadoop.fs.GlobPattern(pattern).compiled().pattern()))

    def _closed(self, path: str) -> ConfigError:
        return self.error(
            "source.path",
            f"this account may not read {path}",
            "grant it read access, or run as the account that owns it",
        )

    def _check_files(self, uris: Sequence[str]) -> dict[str, Form]:
        """Return the form of each CSV file.

        Raises:
            LabError: A file has another header, other columns, or another kind of folder.
        """
        self._check_names(uris)
        for uri in uris:
            if file := local_path(uri):
                try:
                    file.open("rb").close()
                except FileNotFoundError:
                    pass  # deleted since the listing
                except PermissionError as error:
                    raise self._closed(error.filename) from None
        forms: dict[str, Form] = {}
        if self.group.source_format == "json":
            return forms  # each line is checked separately
        self._raise_first(lambda uri: self._problem(uri, forms), uris)
        return {uri: forms[uri] for uri in uris if uri in forms}  # in the order of the list

    def _check_names(self, uris: Sequence[str]) -> None:
        """Raise LabError for the first file that must be renamed or moved."""
        base = f"{self.group.uri}/"
        problems: dict[str, Problem] = {}
        for path, names in folder_columns(uri.removeprefix(base) for uri in uris):
            uri = f"{base}{path}"
            if uri.startswith("file:") and ":" in path.rpartition("/")[2]:
                problem = f"{path} has a colon, which Hadoop cannot read on a disk"
                problems[uri] = problem, "rename the file"
            elif names != self._folder_columns:
                own, others = map(_folders, (names, self._folder_columns))
                problem = f"{path} is in {own}, and other files are in {others}"
                problems[uri] = problem, f"move the file into {others}"
        if not problems:
            return
        self._misnamed = [*problems]
        problem, remedy = next(iter(problems.values()))
        more = many(len(problems) - 1, "more file") if len(problems) > 1 else ""
        raise self.error("source.path", problem + (f" ({more} to rename)" if more else ""), remedy)

    def _raise_first(self, check: Callable[[str], Problem | None], uris: Sequence[str]) -> None:
        """Raise LabError for the first file with a problem."""
        if problem := first_problem(check, uris):
            uri, (what, remedy) = problem
            raise self.error(
                "source.schema", f"{uri.removeprefix(f'{self.group.uri}/')}: {what}", remedy
            )

    def _problem(self, uri: str, forms: dict[str, Form]) -> Problem | None:
        """Return a file's problem before its rows are read, or None.

        Add the form of a valid CSV file with a header to `forms`.
        """
        if self.group.source_format == "csv":
            try:
                start = first_bytes(self._spark, uri)
            except (OSError, EOFError, zlib.error, *FAILED) as error:
                return f"it cannot be decompressed: {error}", "replace the file"
            dialect, names = Dialect(self._texts), self._file_schema.names
            if (problem := dialect.header_problem(start, names)) is None and start:
                forms[uri] = dialect.form(start, names)
            return problem
        may_lack = self._options.get("mergeschema", "false").lower() == "true"
        return self._columns.problem(uri, may_lack=may_lack)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self._spark, self.group.source_format, self._file_schema)

    def _read(self, session: SparkSession, forms: Mapping[str, Form]) -> DataFrame:
        """Read files, each in its form."""
        line_ends = sorted({form.line_end for form in forms.values()})
        parts = []
        for line_end in line_ends:
            alike = {uri: form for uri, form in forms.items() if form.line_end == line_end}
            parts.append(self._rows(session.read, [*alike], alike))
        return reduce(DataFrame.union, parts)

    def _rows(
        self, reader: Any, path: str | list[str], forms: Mapping[str, Form] | None = None
    ) -> DataFrame:
        """Read a path with a reader or a stream reader.

        By default, a line that does not fit the schema raises an error.

        Args:
            forms: The forms of CSV files, all with the same line end.
        """
        # Spark treats each file's path as a pattern again, unless this option is set.
        reader = reader.options(**self._options)
        reader = reader.option("recursiveFileLookup", "true").option("__globPaths__", "false")
        # Overrides the session's settings.
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        schema = self._file_schema
        if self.group.source_format == "csv":
            if nested := [
                field for field in schema if not isinstance(field.dataType, T.AtomicType)
            ]:
                name, kind = nested[0].name, nested[0].dataType.simpleString()
                raise self.error(
                    "source.schema",
                    f"{name} is {kind.upper()}, which CSV does not support",
                    f"declare {name} STRING, and parse it in select: from_json({name}, '{kind}', "
                    f"map('mode', 'FAILFAST')) AS {name}",
                )
            orders: dict[tuple[int, ...], list[str]] = {}
            line_end = ""
            for uri, form in (forms or {}).items():
                line_end = form.line_end
                if form.order:
                    orders.setdefault(form.order, []).append(uri)
            rows = Dialect(self._texts).rows(
                reader, path, schema, line_end=line_end, orders=orders, file=FILE
            )
            return self._columns_of(rows, CSV_ROW, CSV_PROBLEM, CSV_TEXT, Dialect(self._texts).line)
        if self.group.source_format == "json":
            whole = self._options.get("multiline", "false").lower() == "true"
            rows = reader.format("text").option("wholetext", whole).load(path)
            if not whole:
                rows = rows.where(lines_are_whole("value", self._texts, FILE))
            rows = with_json(
                rows, "value", schema, self._texts, arrays=True, lines=self._quarantines
            )
            rows = rows.where(f"{JSON_ROW} IS NOT NULL OR {JSON_PROBLEM} IS NOT NULL")
            return self._columns_of(rows, JSON_ROW, JSON_PROBLEM, "value", JSON_LINE)
        if self.group.source_format == "avro":
            # Dates follow ISO 8601, whichever program wrote the file.
            reader = reader.option("datetimeRebaseMode", "CORRECTED")
        rows = reader.format(self.group.source_format).schema(schema).load(path)
        if not self._folder_columns:
            return cast(DataFrame, rows)
        rows = rows.select(F.struct(*(F.col(quoted(name)) for name in schema.names)).alias("row"))
        rows = rows.withColumn("problem", F.lit(None).cast(PROBLEM_TYPE))
        return self._columns_of(rows, "row", "problem", "''", "''")

    def _columns_of(
        self, rows: DataFrame, row: str, problem: str, text: str, line: str
    ) -> DataFrame:
        """Return the group's columns; by default, a row with a problem raises an error.

        Args:
            problem: SQL of a `PROBLEM_TYPE`, NULL for a row without a problem.
            text: SQL of the text for the column of corrupt records.
            line: SQL of the text for the quarantine.
        """
        parts = {field.name: f"{row}.{quoted(field.name)}" for field in self._file_schema}
        problems = [problem]
        if self._folder_columns:
            rows = rows.withColumn("_path", F.expr(FILE))
        for name in sorted(self._folder_columns):
            kind = self._schema[name].dataType
            # Spark escapes a path, and the program that named the folder may have done so before.
            form = literal(f"/{re.escape(name)}=([^/]*)/")
            value = f"regexp_extract(_path, {form}, 1)"
            value = f"if({value} RLIKE '{_NOT_ESCAPED}', {value}, {_unescaped(value)})"
            value = f"nullif({value}, '__HIVE_DEFAULT_PARTITION__')"
            parts[name] = self._texts.value(value, kind)
            wrong = literal(f"the folder {name}=... is not {kind.simpleString().upper()}")
            texts = both(wrong, literal("correct source.schema, or rename the folder"))
            is_wrong = f"{value} IS NOT NULL AND {parts[name]} IS NULL"
            problems.append(f"if({is_wrong}, {texts}, NULL)")
        if self._mode == "PERMISSIVE" and self._corrupt in self._schema.names:
            parts[self._corrupt] = f"if({problem} IS NULL, NULL, {text})"
        columns = [F.expr(parts[name]).alias(name) for name in self._schema.names]
        first = f"coalesce({', '.join(problems)})"
        if self._mode == "PERMISSIVE":
            return rows.select(*columns)
        # The file's name keeps Spark from pushing later filters below this one, where they would
        # read each line again.
        if self._quarantines:
            place = f"named_struct('file', {FILE}, 'line', {line})"
            place = f"if({first} IS NULL, NULL, {place})"
            refused = F.expr(f"named_struct('reason', {one_line(first)}, 'row', {place})")
            return rows.select(*columns, refused.alias(REFUSED))
        other = ""
        if self._has_lines:
            other = OR_QUARANTINE
        elif self.group.quarantine and self._is_text:
            other = NO_QUARANTINE
        texts = both(
            f"concat({FILE}, ': ', {first}.problem)", f"concat({first}.remedy, {literal(other)})"
        )
        rows = rows.select(
            *columns, F.expr(f"if({first} IS NULL, NULL, {texts})").alias("_refused")
        )
        refused = F.col("_refused")
        if self._mode == "DROPMALFORMED":
            return rows.where(refused.isNull()).drop("_refused")
        error = refuse(refused["problem"], refused["remedy"])
        return rows.where(F.when(refused.isNull(), True).otherwise(error)).drop("_refused")

    def _without_schema(self) -> ConfigError:
        """Return the error for the missing schema, with the columns of the newest files."""
        newest = [file.path for file in self._files()[-FILES:]]
        if self.group.source_format == "csv" and Dialect(self._texts).has_header:
            # Spark would use the header of a single file for all files.
            starts = [first_bytes(self._spark, f"{self.group.uri}/{file}") for file in newest]
            heads = [re.split(rb"[\r\n]", start, maxsplit=1)[0] for start in starts]
            newest = [name for name, head in zip(newest, heads, strict=True) if head == heads[-1]]
        if not newest:
            return self.error(
                "source.schema",
                "is missing, and the folder has no file to infer it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        reader = self._spark.read.format(self.group.source_format).option("__globPaths__", "false")
        options = {"inferSchema": "true", "header": "true", "escape": '"'} | self._options
        try:
            rows = reader.options(**options).load([f"{self.group.uri}/{file}" for file in newest])
        except FAILED as error:
            return self._unreadable(newest[::-1], error)
        return self.error(
            "source.schema",
            f"is missing; the newest files have these columns ({newest[-1]})",
            f'add "source.schema": "{rows._jdf.schema().toDDL()}"',
        )

    def _unreadable(self, files: Sequence[str], error: Exception) -> ConfigError:
        """Return the error for the file in the cause's text, else for the first file."""
        named = (file for file in files if f"/{quote(file)}" in str(error) or file in str(error))
        file = next(named, files[0])
        cause = root_cause(str(error))
        remedy = "fix the key, source.schema, source.options or the file"
        if refused := refused_row("", str(error)):
            cause, remedy = refused.problem, f"{refused.remedy}; {remedy}"
        return self.error(
            "source.format",
            f"{file} cannot be read as {self.group.source_format} with this schema: {cause}",
            remedy,
        )


class Changes(Source[TablePipeline]):
    """The rows that the commits of a Hudi table add or change, with `commit_time`."""

    unit = "commit"

    def identity(self) -> Mapping[str, Any]:
        """Return the table."""
        return {"source": f"hudi of {self.group.uri}"}

    def describe(self) -> tuple[str, str]:
        """Return the number of commits; a batch reads all of them."""
        commits = Commits(self._spark, self.group.uri).count()
        return f"table of {many(commits, 'commit')}, {self.group.uri}", "all commits"

    def check(self) -> list[str]:
        """Return the columns; raise LabError without a table, or if the query is wrong."""
        self.check_options(self.group.source_format)
        if not Commits(self._spark, self.group.uri).is_there():
            raise self.error(
                "source.path", f"{self.group.uri} is no Hudi table", "choose another folder"
            )
        return self._checked(self._snapshot()).columns

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read the rows of new commits."""
        return self.selected(self._rows(self._spark.readStream))

    def sample(self) -> Sample | None:
        """Read rows of the current table."""
        sample = self.first(self.group.uri, self._snapshot())
        return sample if sample.rows.take(1) else None

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return the number of commits of the table since the last one that the batch has read."""
        read = progress["sources"][0]["endOffset"]["offsetCommitTime"]
        timeline = Commits(self._spark, self.group.uri).meta()
        return int(completed(timeline, read).countInstants())

    def _snapshot(self) -> DataFrame:
        try:
            return self._rows(self._spark.read)
        except FAILED as error:
            raise self.error(
                "source.path",
                f"the table {self.group.uri} cannot be read: {root_cause(str(error))}",
                "fix the table, or choose another folder",
            ) from error

    def _rows(self, reader: Any) -> DataFrame:
        """Read the table with a reader or a stream reader."""
        rows: DataFrame = reader.format("hudi").options(**self.group.options()).load(self.group.uri)
        return rows.withColumnRenamed("_hoodie_commit_time", "commit_time").drop(*META)


def _origin(files: Sequence[FileInfo], count: int) -> str:
    """Return a description of a sample's files."""
    if count == 1:
        return files[0].path
    return many(count, "file") if len(files) == count else f"{len(files):,} of {count:,} files"


def _folders(names: Iterable[str]) -> str:
    """Return a description of folders whose names have these columns."""
    texts = [f"{name}=..." for name in sorted(names)]
    return f"a folder {'/'.join(texts)}" if texts else "no folder with = in its name"


def _unescaped(text: str) -> str:
    """Return SQL that unescapes a part of a URI, but keeps plus signs."""
    return f"url_decode(replace({text}, '+', '%2B'))"


_NOT_ESCAPED = "%(?![0-9A-Fa-f]{2})"  # a literal percent sign
# The error of `_columns_of`.
_WRONG_FOLDER = re.compile(
    r"(?P<uri>[a-z0-9]+:/+[^\n]*?): the folder (?P<name>[^\n]*?)=[.]{3} is not "
)
FILE = _unescaped("input_file_name()")
