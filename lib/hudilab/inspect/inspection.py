"""Inspect a table: the entry point for both the command and notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from hudilab.errors import InspectError
from hudilab.inspect.health import batches, check_health
from hudilab.inspect.model import (
    Event,
    Instant,
    Partition,
    Reach,
    Report,
    Slice,
    Table,
    Writer,
    iso,
)
from hudilab.inspect.store import Store, Vanished, open_store
from hudilab.inspect.table import Facts, read_facts
from hudilab.inspect.timeline import WRITES, moment, parse_content

__all__ = ["Inspection", "inspect"]

STUCK = 600.0  # seconds


def inspect(
    table: str,
    *,
    archived: bool = False,
    count: bool = False,
    since: str = "",
    partition: str = "",
    stuck_after: float = STUCK,
    now: datetime | None = None,
) -> Inspection:
    """Inspect a Hudi table without a JVM; a notebook shows the result as a page.

    Args:
        table: A path, or a URI of `file`, `s3` or `s3a`; the lab's `place.table` is one.
        archived: Include the instants of the archived timeline.
        count: Count the rows with hudi-rs, which reads the data; for tables whose commits do not
            give the number.
        since: Show only instants from this time on: an instant, or ISO 8601 (UTC).
        partition: Include the file slices of this partition.
        stuck_after: Seconds without activity after which a pending instant counts as stuck.

    Raises:
        InspectError: Not a table, damaged, unreadable, or of an unsupported table version.
    """
    store = open_store(table)
    facts = read_facts(store, archived=archived)
    begin = _begin(since, facts)
    found = Inspection(store, facts, now or datetime.now(UTC), stuck_after, begin, partition)
    if partition and partition not in {one.path for one in found.partitions}:
        paths = [one.path for one in found.partitions]
        near = ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
        raise InspectError(
            f"{store.uri} has no partition {partition!r} (it has {near or 'none'}); choose one: "
            f"hudilab inspect '{table}' --partition '{paths[0] if paths else ''}'"
        )
    if count:
        found.counted = _count(store.uri)
    return found


class Inspection:
    """The result; `report` holds what `--json` prints."""

    def __init__(
        self,
        store: Store,
        facts: Facts,
        now: datetime,
        stuck: float = STUCK,
        since: datetime | None = None,
        partition: str = "",
    ) -> None:
        self.facts = facts
        self.now = now
        self.since = since
        self.partition = partition
        self.counted: int | None = None
        self._store, self._stuck = store, stuck

    @cached_property
    def partitions(self) -> list[Partition]:
        """Totals of each partition's latest slices, by path."""
        return self.facts.partitions()

    @property
    def slices(self) -> list[Slice]:
        """The slices of the chosen partition; without one, all slices."""
        slices = self.facts.slices
        return [one for one in slices if not self.partition or one.partition == self.partition]

    @cached_property
    def events(self) -> list[Event]:
        """The instants to show, newest first."""
        both = (*(self.facts.archived or ()), *self.facts.events)
        shown = (one for one in both if self.since is None or _after(one, self.since))
        return sorted(shown, key=lambda one: (one.time, one.action), reverse=True)

    @cached_property
    def report(self) -> Report:
        """The report, with the fields of the JSON."""
        facts = self.facts
        instants = [self.instant(one) for one in self.events]
        pending = [self.instant(one) for one in reversed(facts.events) if not one.is_done]
        last = {query: batch for _, query, batch in batches(facts)}
        report = Report(
            table=_table(facts, self.partitions),
            instants=tuple(instants),
            pending=tuple(pending),
            writers=tuple(Writer(query, batch) for query, batch in sorted(last.items())),
            reach=_reach(facts),
            health=tuple(check_health(facts, self.now, self._stuck)),
        )
        if self.counted is not None:
            report = replace(report, table=replace(report.table, rows=self.counted))
        return report

    @property
    def is_healthy(self) -> bool:
        """Whether every check is ok."""
        return all(one.ok for one in self.report.health)

    def instant(self, event: Event) -> Instant:
        """Return an instant with its row counts."""
        commit = self.facts.commit_of(event)
        stats: Sequence[Any] = commit.stats if commit else ()
        return Instant(
            requested=iso(event.requested_at),
            completed=iso(event.completed_at) if event.is_done else None,
            action=event.action,
            state=event.state,
            operation=commit.operation if commit else None,
            rows_written=sum(one.writes for one in stats) if commit else None,
            rows_updated=sum(one.updates for one in stats) if commit else None,
            rows_deleted=sum(one.deletes for one in stats) if commit else None,
            archived=event.archived,
        )

    def content(self, time: str) -> dict[str, Any]:
        """Return the whole content of an instant's files, as plain values.

        Args:
            time: The instant as in its file name, or its time as in the report.

        Raises:
            InspectError: The instant does not exist, or its file is damaged.
        """
        facts = self.facts
        both = [*reversed(facts.events), *reversed(facts.archived or ())]
        chosen = [one for one in both if time in (one.time, iso(one.requested_at), one.completed)]
        if not chosen:
            newest = both[0].time if both else ""
            older = " or, with --archived, an archived one" if facts.archived is None else ""
            raise InspectError(
                f"{facts.uri} has no instant {time!r}; choose one from its timeline{older}: "
                f"hudilab inspect TABLE --instant {newest}"
            )
        found: dict[str, Any] = {"instant": chosen[0].time}
        found |= vars(self.instant(chosen[0]))
        for one in chosen:
            found |= self._contents(one)
        return found

    def _contents(self, event: Event) -> dict[str, Any]:
        if event.archived:
            content = self.facts.archive.contents([event.time]).get(event.time, {})
            return {event.action: _plain(content)}
        found = {}
        for state, path in event.files.items():
            try:
                data = self._store.read(path)
            except Vanished:
                continue
            # A requested or inflight file is empty if the action has no plan.
            if data or state == "COMPLETED":
                where = f"{self._store.uri}/{path}"
                name = event.action if state == "COMPLETED" else f"{event.action}.{state.lower()}"
                found[name] = _plain(parse_content(data, where))
        return found

    def to_json(self) -> str:
        """Return the report as JSON, with the file slices of the chosen partition."""
        answer: dict[str, Any] = self.report.as_dict()
        if self.partition:
            chosen = next(one for one in self.partitions if one.path == self.partition)
            slices = [one._asdict() for one in self.slices]
            answer["partition"] = {**chosen._asdict(), "slices": slices}
        return json.dumps(answer, indent=2, ensure_ascii=False)

    def to_html(self) -> str:
        """Return one self-contained page, which includes archived instants."""
        from hudilab.inspect.page import page

        return page(self._with_archive())

    def __str__(self) -> str:
        from hudilab.inspect.text import text

        return text(self, width=120, color=False)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from hudilab.inspect.page import embedded

        return embedded(self._with_archive())

    def _with_archive(self) -> Inspection:
        if self.facts.archived is not None or not self.facts.has_history:
            return self
        facts = read_facts(self._store, archived=True)
        found = Inspection(self._store, facts, self.now, self._stuck, self.since, self.partition)
        found.counted = self.counted
        return found


def _plain(value: Any) -> Any:
    """Return an Avro value as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _begin(since: str, facts: Facts) -> datetime | None:
    if not since:
        return None
    if re.fullmatch(r"\d{14,17}", since) and (found := moment(since, facts.is_utc)):
        return found
    try:
        found = datetime.fromisoformat(since)
    except ValueError:
        raise InspectError(
            f"--since {since!r} is not a time; give an instant or an ISO 8601 time: "
            "hudilab inspect TABLE --since 2026-01-31T12:00:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _after(event: Event, since: datetime) -> bool:
    last = event.completed_at or event.requested_at
    return last is not None and last >= since


def _fields(properties: Any, *names: str) -> tuple[str, ...]:
    text = next((properties[name] for name in names if properties.get(name)), "")
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _table(facts: Facts, partitions: list[Partition]) -> Table:
    its, rows = facts.properties, [one.rows for one in partitions]
    return Table(
        uri=facts.uri,
        name=its["hoodie.table.name"],
        type=its["hoodie.table.type"],
        version=facts.version,
        record_key=_fields(its, "hoodie.table.recordkey.fields"),
        partition=_fields(its, "hoodie.table.partition.fields"),
        index=_index(facts),
        rows=None if None in rows else sum(one for one in rows if one is not None),
        bytes=sum(one.bytes for one in partitions),
        files=sum(one.files for one in partitions),
        file_groups=sum(one.groups for one in partitions),
        partitions=len(partitions),
    )


def _index(facts: Facts) -> str | None:
    """Return the index that the files reveal; the properties do not record a writer's index."""
    indexes = facts.properties.get("hoodie.table.metadata.partitions", "").split(",")
    if "record_index" in indexes:
        return "RECORD_INDEX"
    return "BUCKET" if facts.has_buckets() else None


def _reach(facts: Facts) -> Reach:
    """Return the oldest times for which queries are complete.

    Time travel: the earliest commit that the last clean retained, or the first commit. If cleans
    retain file versions rather than commits: the first commit that needs no deleted file.
    """
    writes = [one for one in facts.events if one.is_done and one.action in WRITES]
    if not writes:
        return Reach(None, None)
    oldest = facts.clean_begin or facts.first_commit or writes[0].time
    if facts.cleaned:
        oldest = max(oldest, _after_deleted(facts))
    kept = [one for one in writes if one.time >= oldest]
    begin = None
    if kept:
        # The begin of an incremental query is exclusive, and is a completion time.
        begin = kept[0].requested_at
        first = min(one.completed_at for one in kept if one.completed_at)
        ends = (one.completed_at for one in writes if one.time < oldest)
        begin = max((end for end in ends if end and begin and begin < end < first), default=begin)
    return Reach(iso(moment(oldest, facts.is_utc)), iso(begin))


def _after_deleted(facts: Facts) -> str:
    """Return the oldest instant that needs no file deleted by a clean."""
    kept: dict[tuple[str, str], list[str]] = {}
    for one in facts.slices:
        kept.setdefault((one.partition, one.group), []).append(one.instant)
    replaced = {pair: time for time, commit in facts.commits.items() for pair in commit.replaced}
    needed = ""
    for partition, name in facts.cleaned:
        match = re.match(r"\.?(?P<group>[^_]+)_(?:[^_]+_)?(?P<time>\d{14,})\.", name)
        if match:
            pair = partition, match["group"]
            newer = [time for time in kept.get(pair, ()) if time > match["time"]]
            needed = max(needed, min(newer, default=replaced.get(pair, "")))
    return needed


def _count(uri: str) -> int:
    """Count the rows of a snapshot query with hudi-rs, batch by batch."""
    from hudi import HudiReadOptions, HudiTableBuilder

    options, place = {}, uri
    if uri.startswith("file://"):
        place = uri.removeprefix("file://")  # hudi-rs percent-decodes URIs, but not paths
    else:
        from hudilab.runtime.s3 import storage_options
        from hudilab.runtime.settings import load_settings

        options = storage_options(load_settings())
    try:
        builder = HudiTableBuilder.from_base_uri(place).with_storage_options(options)
        stream = builder.build().read_stream(HudiReadOptions())
        return sum(batch.num_rows for batch in stream)
    except Exception as error:  # any failure of hudi-rs
        why = " ".join(str(error).split())[:200]
        raise InspectError(
            f"hudi-rs cannot count the rows of {uri}: {why}; omit --count: hudilab inspect '{uri}'"
        ) from None
