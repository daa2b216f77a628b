"""Check the options in `source.options`.

Spark silently ignores unknown options, and the lab parses CSV and JSON itself. An option outside
`OPTIONS` is therefore refused with a remedy.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudilab_jobs.pipelines.text_values import literal

Problem = tuple[str, str]  # problem and remedy
Check = Callable[[SparkSession, str], Problem | None]  # of an option's value
_LETTERS = re.compile(r"'[^']*'|([A-Za-z])\1*")
_NAMES = ("MMM", "LLL")  # of months
_GUIDE = "https://spark.apache.org/docs/3.5.7/sql-ref-datetime-pattern.html"


def _form(pattern: str, meaning: str) -> Check:
    """Return a check of a value by a regular expression, described by `meaning`."""

    def check(spark: SparkSession, value: str) -> Problem | None:
        if re.fullmatch(pattern, value, re.DOTALL):
            return None
        return f"is not {meaning}", "correct or remove it"

    return check


def _charset(spark: SparkSession, value: str) -> Problem | None:
    java: Any = spark._jvm
    try:
        codecs.lookup(value)
        if java.java.nio.charset.Charset.forName(value).canEncode():
            return None
    except (LookupError, Py4JError, PySparkException):
        pass
    return (
        "is not an encoding that both Python and Java support",
        "correct it, such as encoding=ISO-8859-1 or encoding=windows-1252",
    )


def _locale(spark: SparkSession, value: str) -> Problem | None:
    java: Any = spark._jvm
    locale = java.java.util.Locale
    if locale.forLanguageTag(value) in [*locale.getAvailableLocales()] and value != "":
        return None
    return "is not a language that Java supports", "write its tag, such as locale=de-DE"


def _pattern(spark: SparkSession, value: str) -> Problem | None:
    """Return the problem of a pattern that is invalid or would lose a part of a time, or None."""
    runs = [match[0] for match in _LETTERS.finditer(value) if match[1]]
    letters = {run[0] for run in runs}
    if letters & set("zV"):
        return (
            "has the name of a zone, whose local times may be ambiguous or not exist",
            "write times with an offset (XXX); or quote a fixed name, such as 'UTC', or read the "
            "column as STRING and convert it in select",
        )
    if any(run[0] in "yu" and len(run) not in (2, 4) for run in runs):
        return "has a year of neither two nor four digits", "write yyyy or yy"
    if letters & set("hK") and "a" not in letters:
        return "has an hour of 1 to 12 without AM or PM", "write HH, or add a"
    if any(run[0] == "S" and len(run) > 6 for run in runs):
        return (
            "has more digits of a second than the six of a TIMESTAMP",
            "write at most SSSSSS, or read the column as STRING and cut it in select",
        )
    try:
        spark.sql(f"SELECT try_to_timestamp('', {literal('[]' + value)})").collect()
    except (Py4JError, PySparkException):
        return (
            "is not a pattern of Spark 3",
            f"write it with yyyy, MM, dd, HH, mm and ss; all letters are in {_GUIDE}",
        )
    if not letters & set("yu"):
        return (
            "has no year, so Spark would assume 1970",
            "add yyyy, or read the column as STRING and convert it in select",
        )
    return None


def _local_pattern(spark: SparkSession, value: str) -> Problem | None:
    if {match[1] for match in _LETTERS.finditer(value)} & set("VzOXxZ"):
        return (
            "has a time zone, which TIMESTAMP_NTZ cannot store",
            "declare the column TIMESTAMP in source.schema, and write timestampFormat=...",
        )
    return _pattern(spark, value)


_TEXT = _form(".*", "a text")
_FILLED = _form(".+", "a text of at least one character")
_MARK = _form(".?", "a single character, or empty")
_BOOLEAN = _form("(?i)true|false", "true or false")
_NUMBER = _form("[1-9][0-9]{0,8}", "a whole number of 1 or more")
_MODE = _form("(?i)FAILFAST|PERMISSIVE|DROPMALFORMED", "FAILFAST, PERMISSIVE or DROPMALFORMED")

_FILES: dict[str, Check] = {"pathGlobFilter": _FILLED}
_VALUES: dict[str, Check] = {
    "encoding": _charset,
    "charset": _charset,
    "dateFormat": _pattern,
    "timestampFormat": _pattern,
    "timestampNTZFormat": _local_pattern,
}
_LINES: dict[str, Check] = {
    "multiLine": _BOOLEAN,
    "lineSep": _FILLED,
    "mode": _MODE,
    "columnNameOfCorruptRecord": _FILLED,
}
_CSV: dict[str, Check] = {
    "header": _BOOLEAN,
    "sep": _FILLED,
    "delimiter": _FILLED,
    "quote": _MARK,
    "escape": _MARK,
    "comment": _MARK,
    "nullValue": _TEXT,
    "nanValue": _FILLED,
    "positiveInf": _FILLED,
    "negativeInf": _FILLED,
    "ignoreLeadingWhiteSpace": _BOOLEAN,
    "ignoreTrailingWhiteSpace": _BOOLEAN,
    "locale": _locale,
}
_KAFKA: dict[str, Check] = {
    "failOnDataLoss": _BOOLEAN,
    "minPartitions": _NUMBER,
    "groupIdPrefix": _FILLED,
    "kafkaConsumer.pollTimeoutMs": _NUMBER,
    "fetchOffset.numRetries": _NUMBER,
    "fetchOffset.retryIntervalMs": _NUMBER,
}
# Format -> the names and checks of its options. A topic with JSON values also has the options
# `_VALUES`, and each topic has the options of Kafka's client, which begin with `kafka.`.
OPTIONS: dict[str, dict[str, Check]] = {
    "csv": _CSV | _VALUES | _LINES | _FILES | {"lineSep": _form(".", "a single character")},
    "json": _VALUES | _LINES | _FILES,
    "parquet": {"mergeSchema": _BOOLEAN} | _FILES,
    "orc": {"mergeSchema": _BOOLEAN} | _FILES,
    "avro": {"mergeSchema": _BOOLEAN} | _FILES,
    "kafka": _KAFKA,
    "hudi": {},
}
OWN = "kafka."  # prefix of the client's options

_IN_SCHEMA = "remove it: source.schema has the names and types of the columns"
_START = '"startup.mode": "earliest-offset" or "latest-offset"'
_READ_ONCE = "remove it: each file is read once, and a lost or damaged one is an error"
_STANDARD = "remove it, and write the files as JSON of RFC 8259"
_BATCH = 'write "files.per.batch"'
# Remedies for options of Spark.
INSTEAD = {
    "timezone": (
        "read the column as TIMESTAMP_NTZ in source.schema, and convert it in select: "
        "to_utc_timestamp(seen, 'Europe/Rome') AS seen"
    ),
    "locale": "declare the column STRING in source.schema, and convert it in select",
    **dict.fromkeys(("inferschema", "preferdate", "samplingratio"), _IN_SCHEMA),
    **dict.fromkeys(
        ("primitivesasstring", "prefersdecimal", "dropfieldifallnull", "avroschema"), _IN_SCHEMA
    ),
    "enforceschema": "remove it: header names the columns of each file, in any order",
    "emptyvalue": 'remove it: "" is an empty string, and an empty field is NULL',
    "enabledatetimeparsingfallback": "write dateFormat=... or timestampFormat=...",
    "recursivefilelookup": "remove it: files in subfolders are always read",
    "compression": "remove it: a file's name, such as a.csv.gz, determines its codec",
    "codec": "remove it: a file's name, such as a.csv.gz, determines its codec",
    "wholetext": "write multiLine=true",
    **dict.fromkeys(
        ("modifiedbefore", "modifiedafter"), "choose files by name: pathGlobFilter=*.csv"
    ),
    **dict.fromkeys(("ignorecorruptfiles", "ignoremissingfiles", "latestfirst"), _READ_ONCE),
    **dict.fromkeys(("filenameonly", "cleansource", "sourcearchivedir"), _READ_ONCE),
    "maxfileage": "remove it: files of any age are read",
    **dict.fromkeys(("maxfilespertrigger", "maxbytespertrigger"), _BATCH),
    "path": 'write "source.path"',
    "basepath": 'write "source.path"',
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), 'write "topic.name"'),
    **dict.fromkeys(("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"), _START),
    "startingoffsetsbytimestampstrategy": _START,
    **dict.fromkeys(
        ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
        "remove it: a stream has no end; hudilab stream NAME --available-now stops",
    ),
    **dict.fromkeys(
        ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
        'write "messages.per.batch"',
    ),
    "includeheaders": "remove it: headers of messages are not read",
    "kafka.bootstrap.servers": 'write "bootstrap.servers"',
    "kafka.security.protocol": 'write "security.protocol"',
    "kafka.isolation.level": "remove it: messages of aborted transactions are never read",
    "kafka.auto.offset.reset": f"write {_START}",
    "kafka.enable.auto.commit": "remove it: offsets are in the checkpoint",
    **dict.fromkeys(
        ("kafka.key.deserializer", "kafka.value.deserializer"),
        'write "key.format" or "value.format"',
    ),
    "kafka.interceptor.classes": "remove it: Spark does not support it",
}


def option_problem(
    spark: SparkSession, options: Mapping[str, str], source: str, *, values: bool = False
) -> Problem | None:
    """Return the first problem of a source's options, or None.

    Args:
        source: `source.format`.
        values: Whether the options of JSON values are valid, too.
    """
    known = OPTIONS[source] | (_VALUES if values else {})
    checks = {name.lower(): check for name, check in known.items()}
    for name, value in options.items():
        if check := checks.get(name.lower()):
            if problem := check(spark, value):
                return f"has {name}={value}, which {problem[0]}", problem[1]
        elif not _is_client_option(spark, source, name.lower()):
            remedy = f"remove it; {source} has: {', '.join(known) or 'none'}"
            if name.startswith("allow"):
                remedy = _STANDARD
            remedy = INSTEAD.get(name.lower(), remedy)
            return f"has {name}, which is not an option of {source} here", remedy
    return _pair_problem({name.lower(): value for name, value in options.items()})


def _pair_problem(options: Mapping[str, str]) -> Problem | None:
    """Return the problem of two options that exclude or need each other, or None.

    Args:
        options: Values by lower-case names.
    """
    is_permissive = options.get("mode", "").upper() == "PERMISSIVE"
    if "columnnameofcorruptrecord" in options and not is_permissive:
        return (
            "has columnNameOfCorruptRecord, which needs mode=PERMISSIVE",
            "add mode=PERMISSIVE, or remove columnNameOfCorruptRecord",
        )
    for one, other in (("sep", "delimiter"), ("encoding", "charset")):
        if one in options and other in options:
            return f"has {one} and {other}, which mean the same", "remove one of them"
    for name in ("dateformat", "timestampformat", "timestampntzformat"):
        runs = (match[0] for match in _LETTERS.finditer(options.get(name, "")) if match[1])
        if "locale" in options and any(run[0] in "EaGB" or run[:3] in _NAMES for run in runs):
            return (
                f"has locale and {name}={options[name]}, but names of months are English here",
                "read the column as STRING, and convert it in select",
            )
    return None


def _is_client_option(spark: SparkSession, source: str, name: str) -> bool:
    """Return whether an option belongs to Kafka's consumer and the lab doesn't set it."""
    if source != "kafka" or not name.startswith(OWN) or name in INSTEAD:
        return False
    jvm: Any = spark._jvm
    known = jvm.org.apache.kafka.clients.consumer.ConsumerConfig.configNames()
    return bool(known.contains(name.removeprefix(OWN)))
