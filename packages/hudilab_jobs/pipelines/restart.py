"""Find the keys of a pipeline's group that have changed since its last start.

Each start stores the group's keys in the checkpoint before Spark plans a batch. Some changes are
safe, others need a new checkpoint or are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.files import read_text, write_text
from hudilab.paths import TableLocation, checkpoint_of_table, rewrite_scheme
from hudilab_jobs.groups import Pipeline
from hudilab_jobs.pipelines.sources import Source
from hudilab_spark.conf import SECRET

NOTE = "hudilab-group"  # a file in the checkpoint
SAFE, NEW, REFUSED = "safe", "needs a new checkpoint", "refused"
_OTHER_SOURCE = (NEW, "the checkpoint's offsets belong to the other source")
_STAYS = (SAFE, "stored rows don't change")
# Key -> verdict and consequence of a change. Changes of other keys are safe.
RULES = {
    "source.format": _OTHER_SOURCE,
    "source.path": _OTHER_SOURCE,
    "topic.name": _OTHER_SOURCE,
    "source.table": _OTHER_SOURCE,
    "bootstrap.servers": (SAFE, "if they belong to the same cluster, which the start checks"),
    "startup.mode": (SAFE, "no effect: the stream continues from its checkpoint"),
    "source.options": (SAFE, "they apply to the next batches"),
    "source.schema": _STAYS,
    "select": (REFUSED, "the key, partition or ordering of a row may differ from the stored row's"),
    "lock.options": (SAFE, "if all writers of the table use the same"),
    "tuned": (SAFE, "the table keeps its metadata table, or stays without one"),
    "shared": (SAFE, "if all streams into the table use the same"),
    "timestamp.unit": (REFUSED, "the stored times were read in the other unit"),
    "key.format": (REFUSED, "the stored keys are texts of the other format"),
    "tombstones": (REFUSED, "the table has a column _hoodie_is_deleted, which rows would lack"),
    "record.key": (REFUSED, "the stored rows have the other key"),
    "partition": (REFUSED, "the stored rows are in other folders"),
    "ordering": (REFUSED, "the stored rows are compared by the other column"),
    "table.type": (REFUSED, "a table keeps its type"),
    "buckets": (REFUSED, "the stored rows are in other buckets"),
    "operation": (REFUSED, "a new version of a row would be stored as a second row"),
}
DIGESTS = ("select", "source.schema")  # long texts, which may contain a secret literal
# Secrets: the settings' own patterns, two names of Kafka's, and a login in an address.
_SECRET = re.compile(rf"{SECRET.pattern}|jaas|credential|://[^/]*@")
ACCEPT = "--accept-select"
Keys = dict[str, str | None]  # values at a start; None for a key that the group lacks


class Change(NamedTuple):
    """A changed key: its old and new value, the verdict, and the consequence."""

    key: str
    old: str | None
    new: str | None
    verdict: str
    meaning: str

    def __str__(self) -> str:
        """Return the change as a line of `--check`."""
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
        """The remedy for a change that is not safe."""
        remedy = "set it back, or change table.name: the new table reads its source from the start"
        if self.key == "select":
            remedy += f"; if it still computes these columns as before, accept it with {ACCEPT}"
        return remedy


def changes(old: Keys, new: Keys) -> list[Change]:
    """Return the keys that differ, in the group's order; keys that `old` lacks are ignored."""
    return [
        Change(key, old[key], value, *_judged(key, old[key], value))
        for key, value in new.items()
        if key in old and old[key] != value
    ]


def _judged(key: str, before: str | None, now: str | None) -> tuple[str, str]:
    """Return the verdict on a changed key, and the consequence."""
    # The table contains no rows that were refused before.
    harmless = {"timestamp.unit": None in (before, now), "tombstones": before == "refuse"}
    harmless |= {"operation": before != "upsert"}
    return (SAFE, "") if harmless.get(key) else RULES.get(key, (SAFE, ""))


def keys_of_start(group: Pipeline) -> Keys:
    """Return a group's keys with their effective values as text, without possible secrets."""
    keys: Keys = {}
    for key, value in group.model_dump(by_alias=True, exclude={"table_name"}).items():
        text = str(value).lower() if isinstance(value, bool) else value
        keys[key] = _digest(text) if key in DIGESTS and text is not None else text
    keys["table.services"] = "async" if group.async_services else "inline"
    columns = group.table()
    keys |= {"record.key": ", ".join(columns["record_key"])}
    keys |= {"partition": ", ".join(columns["partition"]) or None}
    if path := keys.get("source.path"):
        keys["source.path"] = rewrite_scheme(path)
    used = (group.select or "", *columns["record_key"], *columns["partition"], columns["ordering"])
    if not any("kafka_key" in text for text in used):
        keys.pop("key.format", None)  # no stored column depends on it
    pairs = {"source.options": group.options(), "lock.options": group.lock() or {}}
    return keys | {key: _without_secrets(options) for key, options in pairs.items()}


def _without_secrets(options: Mapping[str, str]) -> str | None:
    pairs = (f"{name}={value}" for name, value in sorted(options.items()))
    return " ".join(pair for pair in pairs if not _SECRET.search(pair)) or None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def last_start(spark: SparkSession, location: TableLocation) -> Keys | None:
    """Return the keys of the last start that planned a batch, or None.

    The file is incomplete only if a start was killed during the write, after its check.
    """
    if not CheckpointFiles(spark, location.checkpoint).batches("offsets"):
        return None
    try:
        return dict(json.loads(read_text(spark, _file(location)))["keys"])
    except (Py4JJavaError, KeyError, TypeError, ValueError):
        return None


def keep(spark: SparkSession, location: TableLocation, keys: Keys) -> None:
    """Store the keys of this start in the checkpoint."""
    write_text(spark, _file(location), json.dumps({"keys": keys}, sort_keys=True))


def refuse(source: Source[Any], changed: list[Change], *, accept_select: bool = False) -> None:
    """Raise ConfigError for the first change that is not safe; a `select` may be accepted."""
    for change in changed:
        if change.verdict == SAFE or (accept_select and change.key == "select"):
            continue
        problem = f"has changed{change.values} since the last start; {change.meaning}"
        raise source.error(change.key, problem, change.remedy)


def _file(location: TableLocation) -> str:
    # A query that writes several tables stores a file for each.
    is_own = location.checkpoint == checkpoint_of_table(location.table)
    return f"{location.checkpoint}/{NOTE}" + ("" if is_own else f"-{location.name}")
