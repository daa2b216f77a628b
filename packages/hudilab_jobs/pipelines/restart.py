"""Find which keys of a pipeline's group have changed since its last start, and whether they may.

Each start keeps the group's keys in the checkpoint, before Spark plans a batch with them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.files import read_text, write_text
from hudi_sink.jvm import items
from hudilab.paths import TableLocation, checkpoint_of_table, rewrite_scheme
from hudilab.table import TableSpec
from hudilab_jobs.groups import Pipeline
from hudilab_jobs.pipelines.sources import Source
from hudilab_spark.conf import SECRET

NOTE = "hudilab-group"  # in the checkpoint, beside the sink's note of its owner
SAFE, NEW, REFUSED = "safe", "needs a new checkpoint", "refused"
_OTHER_SOURCE = (NEW, "the checkpoint's offsets belong to the other source")
_STAYS = (SAFE, "rows that are in the table stay as they are")
# Key -> its verdict, and what a change means. All changes of other keys are safe.
RULES = {
    "source.format": _OTHER_SOURCE,
    "source.path": _OTHER_SOURCE,
    "topic.name": _OTHER_SOURCE,
    "source.table": _OTHER_SOURCE,
    "bootstrap.servers": (SAFE, "if they belong to the same cluster, which the start checks"),
    "startup.mode": (SAFE, "without effect: the checkpoint knows where to continue"),
    "source.options": (SAFE, "they apply to what is read from now on"),
    "source.schema": _STAYS,
    "select": _STAYS,
    "lock.options": (SAFE, "if all writers of the table use the same"),
    "shared": (SAFE, "if all streams into the table use the same"),
    "timestamp.unit": (REFUSED, "the stored times were read in the other unit"),
    "key.format": (REFUSED, "the stored keys are texts of the other format"),
    "tombstones": (REFUSED, "the table has a column _hoodie_is_deleted, which rows would lack"),
    "record.key": (REFUSED, "the stored rows have the other key"),
    "partition": (REFUSED, "the stored rows are in other folders"),
    "ordering": (REFUSED, "the stored rows are compared by the other column"),
    "table.type": (REFUSED, "a table keeps its type"),
    "buckets": (REFUSED, "the stored rows are in other buckets"),
    "operation": (REFUSED, "a new version of a row would be stored beside the old one"),
}
DIGESTS = ("select", "source.schema")  # long texts, of which a literal may be secret
# What goes on no command line, two names of Kafka's, and a login in an address.
_SECRET = re.compile(rf"{SECRET.pattern}|jaas|credential|://[^/]*@")
_PLAIN = ("Project", "Filter", "Generate", "LogicalRDD", "SubqueryAlias", "View")


class Note(NamedTuple):
    """The keys of a start, and digests of the expressions for the columns that identify a row."""

    keys: dict[str, str | None]
    made: dict[str, str]


class Change(NamedTuple):
    """A key that has changed: its old and new value, the verdict, and what the change means."""

    key: str
    old: str | None
    new: str | None
    verdict: str
    meaning: str

    def __str__(self) -> str:
        """Return the line of a check."""
        parts = (self.verdict, self.meaning, "" if self.verdict == SAFE else self.remedy)
        return f"changed: {self.key}{self.values}: {'; '.join(filter(None, parts))}"

    @property
    def values(self) -> str:
        """The old and the new value as text; empty for long texts."""
        if self.key in DIGESTS:
            return ""
        old, new = ("none" if value is None else value for value in (self.old, self.new))
        return f" from {old} to {new}"

    @property
    def remedy(self) -> str:
        """What to do about a change that is not safe."""
        return "set it back, or change table.name: the new table reads its source from the start"


def changes(old: Note, new: Note) -> list[Change]:
    """Return the keys that differ, in the group's order; keys that `old` lacks are ignored."""
    return [
        Change(key, old.keys[key], value, *_judged(key, old, new))
        for key, value in new.keys.items()
        if key in old.keys and old.keys[key] != value
    ]


def _judged(key: str, old: Note, new: Note) -> tuple[str, str]:
    """Return the verdict on a changed key, and what the change means."""
    verdict, meaning = RULES.get(key, (SAFE, ""))
    before, now = old.keys[key], new.keys[key]
    if key == "select":
        # Columns that have got another role are a change of that role's own key.
        others = [name for name, digest in new.made.items() if old.made.get(name, digest) != digest]
        if others:
            return REFUSED, f"it makes {', '.join(others)} in another way than in the stored rows"
    # What was refused before is not in the table.
    harmless = {"timestamp.unit": None in (before, now), "tombstones": before == "refuse"}
    harmless |= {"operation": before != "upsert"}
    return (SAFE, "") if harmless.get(key) else (verdict, meaning)


def note_of(spark: SparkSession, source: Source[Any], spec: TableSpec) -> Note:
    """Return what a start stores about its group, without secrets; `source` has been checked."""
    made = _made(spark, source, spec)
    keys = keys_of_start(source.group)
    if not any("kafka_key" in text for text in made.values()):
        keys.pop("key.format", None)
    return Note(keys, {name: _digest(text) for name, text in made.items()})


def keys_of_start(group: Pipeline) -> dict[str, str | None]:
    """Return a group's keys with the values in effect, as text; without what may be secret."""
    keys: dict[str, str | None] = {}
    for key, value in group.model_dump(by_alias=True, exclude={"table_name"}).items():
        text = str(value).lower() if isinstance(value, bool) else value
        keys[key] = _digest(text) if key in DIGESTS and text is not None else text
    keys["table.services"] = "async" if group.async_services else "inline"
    columns = group.table()
    keys |= {"record.key": ", ".join(columns["record_key"])}
    keys |= {"partition": ", ".join(columns["partition"]) or None}
    if path := keys.get("source.path"):
        keys["source.path"] = rewrite_scheme(path)
    pairs = {"source.options": group.options(), "lock.options": group.lock() or {}}
    return keys | {key: _without_secrets(options) for key, options in pairs.items()}


def _without_secrets(options: Mapping[str, str]) -> str | None:
    pairs = (f"{name}={value}" for name, value in sorted(options.items()))
    return " ".join(pair for pair in pairs if not _SECRET.search(pair)) or None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _made(spark: SparkSession, source: Source[Any], spec: TableSpec) -> dict[str, str]:
    """Return how the query makes the columns of key, partition and ordering, as text."""
    names = list(dict.fromkeys([*spec.record_key, *spec.partition, spec.ordering]))
    if source.group.select is None:
        return {name: name for name in names}
    # Without rows, the plan is only the query's.
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), source.columns)
    rows = source.selected(empty)
    return made_of(rows.select(*(f"`{name}`" for name in names if name in rows.columns)))


def made_of(rows: DataFrame) -> dict[str, str]:
    """Return the expression of each column of a query, in terms of the columns that it reads.

    If a query joins, groups or limits rows, it is the text of the whole plan, because Spark keeps a
    state for it.
    """
    optimizer: Any = rows.sparkSession._jvm
    inline = optimizer.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True)
    plan = inline.apply(rows._jdf.queryExecution().analyzed())
    nodes = list(plan_nodes(plan))
    if any(str(node.nodeName()) not in _PLAIN for node in nodes):
        return dict.fromkeys(rows.columns, re.sub(r"#\d+L?", "", str(plan.toString())))
    defined: dict[str, str] = {}
    for node in nodes:
        if node.nodeName() == "Project":
            texts = [str(expression.toString()) for expression in items(node.projectList())]
            found = (re.fullmatch(r"(?s)(.*) AS .*#(\d+)L?", text) for text in texts)
            defined |= {match[2]: match[1] for match in found if match}
        elif node.nodeName() == "Generate":
            for number, column in enumerate(items(node.generatorOutput())):
                text = f"{node.generator().toString()} {number}"
                defined[str(column.exprId().id())] = text

    def expanded(text: str) -> str:
        def definition(match: re.Match[str]) -> str:
            return f"({expanded(defined[match[1]])})" if match[1] in defined else ""

        return re.sub(r"#(\d+)L?", definition, text)

    columns = [str(column.toString()) for column in items(plan.output())]
    return {name: expanded(text) for name, text in zip(rows.columns, columns, strict=True)}


def plan_nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan of Spark, and all plans below it."""
    yield plan
    for child in items(plan.children()):
        yield from plan_nodes(child)


def last_start(spark: SparkSession, location: TableLocation) -> Note | None:
    """Return the note of the last start that planned a batch; None without one.

    A note is incomplete only if its start was killed while writing it, so its changes were safe.
    """
    if not CheckpointFiles(spark, location.checkpoint).batches("offsets"):
        return None
    try:
        return Note(**json.loads(read_text(spark, _file(location))))
    except (Py4JJavaError, TypeError, ValueError):
        return None


def keep(spark: SparkSession, location: TableLocation, note: Note) -> None:
    """Keep the note of this start in the checkpoint."""
    write_text(spark, _file(location), json.dumps(note._asdict(), sort_keys=True))


def refuse(source: Source[Any], location: TableLocation, changed: list[Change]) -> None:
    """Raise ConfigError for the first change that is not safe."""
    for change in changed:
        if change.verdict == SAFE:
            continue
        remedy = change.remedy
        if change.key == "select":
            remedy += f"; if both queries make equal values, delete {_file(location)}"
        problem = f"has changed{change.values} since the last start; {change.meaning}"
        raise source.error(change.key, problem, remedy)


def _file(location: TableLocation) -> str:
    # A query that writes several tables keeps a note for each.
    is_own = location.checkpoint == checkpoint_of_table(location.table)
    return f"{location.checkpoint}/{NOTE}" + ("" if is_own else f"-{location.name}")
