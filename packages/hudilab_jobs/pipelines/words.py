"""Translate the sink's errors into the terms of a pipeline's file: keys, and SQL in `select`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hudi_sink.rows import LOAD, QUARANTINE, STREAM
from hudi_sink.schema import NEW_TABLE
from hudilab.errors import ConfigError, LabError
from hudilab.settings import Settings
from hudilab.table import DELETED
from hudilab_jobs.groups import PREFIX

# Python's term -> the pipeline's term, replaced in this order.
_WORDS = {
    re.escape(QUARANTINE): 'or quarantine such rows: "quarantine": "true"',
    "pass shared=True to the ExactlyOnceSink of both": 'write "shared": "true" into both pipelines',
    "pass shared=True to ExactlyOnceSink": 'write "shared": "true"',
    "pass the options of a lock provider as lock=, or in a pipeline as lock.options": "name the "
    "options of a lock provider in lock.options",
    "omit lock=": "omit lock.options",
    "lock= names": "lock.options names",
    "(another|or) run_id": r"\1 --run-id",
    "differs from its TableSpec": "differs from the pipeline",
    "the spec has": "the pipeline has",
    "use operation upsert": 'write "operation": "upsert"',
    "record_key names": "record.key names",
    'to change the table permanently, set TableSpec.schema="any", else ': "",
    "correct the batch: batch = batch": "correct the columns in select: ",
    re.escape(NEW_TABLE): "convert the values exactly in select, or name a new table in table.name",
    "batch = batch": "in select: ",
    r'[:,]? ?\.where\("([^"]*)"\)': r" (WHERE \1 in select)",
    r'\.withColumn\("([^"]+)", F\.col\("\1"\)\.cast\("([^"]+)"\)\)': r"CAST(\1 AS \2) AS \1, ",
    r'\.withColumn\("([^"]+)", F\.lit\(None\)\.cast\("([^"]+)"\)\)': r"CAST(NULL AS \2) AS \1, ",
    r'\.withColumn\("([^"]+)", F\.when\(F\.lit\(True\), F\.col\("\1"\)\)\)': (
        r"if(true, \1, NULL) AS \1, "
    ),
    r'\.withColumn\("([^"]+)", F\.expr\("([^"]+)"\)\)': r"\2 AS \1, ",
    r'\.withColumn\("([^"]+)", F\.col\("\1"\) \+ F\.lit\(0\.0\)\)': r"\1 + 0.0 AS \1, ",
    r'\.withColumnRenamed\("([^"]+)", "([^"]+)"\)': r"\1 AS \2, ",
    r'\.drop\("([^"]+)"\)': r"omit \1, ",
    ", (?=;|$)": "",
}
_LABELS = {"name": "table.name", "type": "table.type", "record key": "record.key"}
# Pattern of an error -> the key to change; empty if group 1 is the key or its label.
_KEYS = {
    r"differs from its TableSpec: ([a-z ]+):": "",
    r"\b(record_key|partition|ordering) names ": "",
    rf"{DELETED} is true, and {LOAD}": "select",
    rf"{DELETED} is true": "operation",
    r"the record key \(|of the initial load of .* more than once": "record.key",
    r"the (ordering|partition) column ": "",
    r"the partition \(": "partition",
    "lock=": "lock.options",
    "shared=True": "shared",
    "cannot store the batch|rejects the batch": "select",
}


@contextmanager
def in_words_of(settings: Settings, group: str) -> Iterator[None]:
    """Raise an error of the sink in a pipeline's terms, with the file, group and key to change.

    Args:
        group: The pipeline's name in the settings.
    """
    try:
        yield
    except ConfigError:
        raise
    except LabError as error:
        problem, remedy = (_translated(text, group) for text in (error.problem, error.remedy))
        if key := _key_of(str(error)):
            problem = f"{settings.origin(group, key)}: group {group!r}, key {key!r}: {problem}"
        if (problem, remedy) == (error.problem, error.remedy):
            raise
        raise type(error)(problem, remedy) from error


def _translated(text: str, group: str) -> str:
    text = text.replace(STREAM, f"hudilab stream {group.removeprefix(PREFIX)}")
    for python, words in _WORDS.items():
        text = re.sub(python, words, text)
    return text


def _key_of(text: str) -> str:
    for about, key in _KEYS.items():
        if found := re.search(about, text):
            label = key or found[1]
            return _LABELS.get(label, label.replace("_", "."))
    return ""
