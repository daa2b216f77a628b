"""Check the headers or columns of a batch's files before Spark reads them."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from hudi_sink.files import file_system
from hudi_sink.jvm import file_indexes, running_query
from hudi_sink.schema import casts_exactly
from hudilab.errors import root_cause
from hudilab.paths import local_path

START = 65_536  # bytes that contain a header
THREADS = 16  # concurrent requests
Problem = tuple[str, str]  # problem and remedy
Item = TypeVar("Item")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_OTHER_CODECS = (".deflate", ".snappy", ".lz4", ".zst", ".lzo", ".zlib")


def batch_files(spark: SparkSession, batch: DataFrame) -> list[str]:
    """Return the URIs, unescaped, of the files that the running batch of a stream reads."""
    query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if (running := running_query(spark, str(query))) is None:
        return []
    files: list[str] = []
    for index in file_indexes(running):
        # As a single text, because each element would take a call into the JVM.
        paths = str(index.rootPaths().mkString("\n"))
        files += [re.sub(r"^file:/+", "file:///", path) for path in paths.split("\n")]
    return files


def first_problem(
    check: Callable[[str], Problem | None], uris: Sequence[str]
) -> tuple[str, Problem] | None:
    """Return the first file with a problem, and the problem."""
    with ThreadPoolExecutor(THREADS) as pool:
        for uri, problem in zip(uris, pool.map(check, uris), strict=True):
            if problem is not None:
                return uri, problem
    return None


def first_bytes(spark: SparkSession, uri: str) -> bytes:
    """Return a file's first bytes, decompressed as Spark does; empty if the file is missing."""
    local = local_path(uri)
    if local is not None and not uri.endswith(_OTHER_CODECS):
        try:
            with _OPENERS.get(local.suffix, open)(local, "rb") as file:
                return bytes(file.read(START))
        except FileNotFoundError:
            return b""
    fs, path = file_system(spark, uri)
    if not fs.exists(path):
        return b""
    codec = _codec(spark, fs, path)
    with closing(fs.open(path)) as packed:
        stream = packed if codec is None else codec.createInputStream(packed)
        return bytes(stream.readNBytes(START))


def pack_problem(spark: SparkSession, uri: str) -> Problem | None:
    """Return the problem of a file that can't be decompressed completely, or None."""
    fs, path = file_system(spark, uri)
    codec = _codec(spark, fs, path)
    if codec is None:
        return None
    io: Any = spark._jvm.org.apache.commons.io  # type: ignore[union-attr]
    try:
        with closing(fs.open(path)) as packed:
            io.IOUtils.consume(codec.createInputStream(packed))
    except Py4JError as error:
        return f"it cannot be decompressed: {_plain(error)}", "replace the file"
    return None


def _codec(spark: SparkSession, fs: Any, path: Any) -> Any:
    """Return Hadoop's codec for a file's name; None for an uncompressed file."""
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(fs.getConf()).getCodec(path)


SYNC = 16  # bytes of the marker that ends each block of an Avro file
HEAD = 20  # bytes that contain a block's two numbers


def block_problem(spark: SparkSession, uri: str) -> Problem | None:
    """Return the problem of an Avro file with an incomplete block, or None.

    Avro's reader treats an incomplete block as the end of the file and drops its rows
    (`DataFileStream.hasNext`, Avro 1.11).
    """
    fs, path = file_system(spark, uri)
    avro: Any = spark._jvm.org.apache.avro  # type: ignore[union-attr]
    with closing(avro.mapred.FsInput(path, fs.getConf())) as file:
        size = int(file.length())
        try:
            header = avro.file.DataFileReader(file, avro.generic.GenericDatumReader())
        except Py4JError as error:
            return f"it has no complete Avro header: {_plain(error)}", "replace the file"
        block = int(header.previousSync())
    with _reader(spark, uri) as read:
        sync = read(block - SYNC, SYNC)
        while block < size:
            head = read(block, min(HEAD, size - block))
            _, at = _long(head, 0)
            length, at = _long(head, at)
            end = block + at + length + SYNC
            if length < 0 or end > size or read(end - SYNC, SYNC) != sync:
                return (
                    f"it is damaged or truncated: its block at byte {block:,} has no end, and the "
                    f"file has {size:,} bytes",
                    "replace the file with a complete copy",
                )
            block = end
    return None


@contextmanager
def _reader(spark: SparkSession, uri: str) -> Iterator[Callable[[int, int], bytes]]:
    """Yield a function that reads a number of bytes from a position."""
    if local := local_path(uri):
        with local.open("rb") as file:

            def read_local(position: int, number: int) -> bytes:
                file.seek(position)
                return file.read(number)

            yield read_local
        return
    fs, path = file_system(spark, uri)
    with closing(fs.open(path)) as stream:

        def read(position: int, number: int) -> bytes:
            stream.seek(position)
            return bytes(stream.readNBytes(number))

        yield read


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in Avro's encoding, and its end; -1 if the bytes are no number."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value >> 1 ^ -(value & 1), at + shift + 1
    return -1, at


def is_folder(spark: SparkSession, uri: str) -> bool:
    """Return whether an existing path is a folder."""
    if (local := local_path(uri)) is not None:
        return local.is_dir()
    fs, path = file_system(spark, uri)
    return bool(fs.getFileStatus(path).isDirectory())


class Columns:
    """The columns of Parquet, ORC and Avro files, compared with a schema."""

    def __init__(self, spark: SparkSession, file_format: str, schema: T.StructType) -> None:
        self._spark, self._format, self._schema = spark, file_format, schema
        self._compare = lru_cache(maxsize=None)(self._differences)

    def problem(self, uri: str, *, may_lack: bool) -> Problem | None:
        """Return the first difference between a file's columns and the schema, or None.

        Args:
            may_lack: Whether a missing column is NULL; else it is a problem.
        """
        fs, path = file_system(self._spark, uri)
        if not fs.exists(path) or not fs.getFileStatus(path).getLen():
            return None
        if self._format == "avro" and (problem := block_problem(self._spark, uri)):
            return problem
        try:
            text = self._columns(uri, path)
        except (Py4JError, PySparkException) as error:
            return (
                f"it cannot be read as {self._format}: {_plain(error)}",
                "replace the file, or write its columns with types that Spark 3.5 reads "
                "(timestamps in microseconds, floats of 32 or 64 bits)",
            )
        return self._compare(text, may_lack)

    def _columns(self, uri: str, path: Any) -> str:
        """Return a file's columns, as Spark's JSON."""
        if self._format != "parquet":
            reader = self._spark.read.format(self._format).option("__globPaths__", "false")
            return str(reader.load(uri).schema.json())
        jvm: Any = self._spark._jvm
        jsc: Any = self._spark._jsc
        hadoop = jvm.org.apache.parquet.hadoop
        file = hadoop.util.HadoopInputFile.fromPath(path, jsc.hadoopConfiguration())
        with closing(hadoop.ParquetFileReader.open(file)) as reader:
            columns = reader.getFooter().getFileMetaData().getSchema()
        parquet = jvm.org.apache.spark.sql.execution.datasources.parquet
        session: Any = self._spark._jsparkSession
        converter = parquet.ParquetToSparkSchemaConverter(session.sessionState().conf())
        return str(converter.convert(columns).json())

    def _differences(self, text: str, may_lack: bool) -> Problem | None:
        columns = T.StructType.fromJson(json.loads(text))
        by_name = {field.name.lower(): field.dataType for field in columns}
        for field in self._schema:
            kind = by_name.get(field.name.lower())
            if kind is None and not may_lack:
                return (
                    f"it has no column {field.name}",
                    "correct the file or source.schema; with mergeSchema=true in source.options, "
                    "a missing column is NULL",
                )
            # Spark reads a time without a zone as UTC, except from Avro.
            as_utc = self._format != "avro"
            if kind is not None and not fits(kind, field.dataType, as_utc=as_utc):
                stored, declared = (each.simpleString().upper() for each in (kind, field.dataType))
                return (
                    f"its column {field.name} is {stored}, and source.schema has {declared}",
                    f"write {field.name} {stored} into source.schema"
                    + _conversion(field.name, kind, field.dataType),
                )
        return None


def _conversion(name: str, stored: T.DataType, declared: T.DataType) -> str:
    """Return the remedy that converts a column in the query; a cast only if it is exact."""
    if isinstance(stored, T.LongType) and isinstance(declared, T.TimestampType):
        return (
            f", and in select convert its unit: timestamp_seconds({name}), timestamp_millis({name})"
            f" or timestamp_micros({name}), or timestamp_micros({name} div 1000) of nanoseconds"
        )
    kind = declared.simpleString().upper()
    if casts_exactly(json.loads(declared.json()), json.loads(stored.json())):
        return f", and in select CAST({name} AS {kind}) AS {name}"
    return f"; a cast to {kind} in select would change or refuse values"


def fits(stored: T.DataType, declared: T.DataType, *, as_utc: bool = True) -> bool:
    """Return whether Spark reads a stored type as the declared type without loss.

    Args:
        as_utc: Whether a TIMESTAMP_NTZ may be read as a TIMESTAMP.
    """
    same = partial(fits, as_utc=as_utc)
    if isinstance(stored, T.StructType) and isinstance(declared, T.StructType):
        fields = {field.name.lower(): field.dataType for field in stored}
        pairs = ((fields.get(field.name.lower()), field.dataType) for field in declared)
        return all(kind is not None and same(kind, wanted) for kind, wanted in pairs)
    if isinstance(stored, T.ArrayType) and isinstance(declared, T.ArrayType):
        return same(stored.elementType, declared.elementType)
    if isinstance(stored, T.MapType) and isinstance(declared, T.MapType):
        return same(stored.keyType, declared.keyType) and same(stored.valueType, declared.valueType)
    if isinstance(stored, T.DecimalType) and isinstance(declared, T.DecimalType):
        return stored.scale == declared.scale and stored.precision <= declared.precision
    texts = (T.StringType, T.VarcharType, T.CharType)
    if isinstance(declared, texts):
        return isinstance(stored, (*texts, T.BinaryType))
    if isinstance(declared, T.IntegerType):
        return isinstance(stored, (T.ByteType, T.ShortType, T.IntegerType))
    if isinstance(declared, T.TimestampType) and isinstance(stored, T.TimestampNTZType):
        return as_utc
    return type(stored) is type(declared)


def _plain(error: Exception) -> str:
    """Return the cause of a Java error without the name of its class."""
    cause = re.sub(r"^[\w.$]+(?:Exception|Error)\b[: ]*", "", root_cause(str(error)))
    return cause.partition(", in ")[0] or "it has a type that Spark does not support"


def folder_columns(paths: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each path, relative to the source folder, with the columns in its folder names."""
    for path in paths:
        parts = (part.partition("=") for part in path.split("/")[:-1])
        yield path, frozenset(name for name, equals, _ in parts if equals and name)
