"""Inspect a table: the entry point for both the command and notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from hudi_inspect.errors import InspectError, missing_package
from hudi_inspect.health import batches, check_health
from hudi_inspect.model import Event, Instant, Partition, Report, Slice, Stat, Table, Writer, iso
from hudi_inspect.options import Options
from hudi_inspect.rows import count_snapshot
from hudi_inspect.store import Store, Vanished, open_store
from hudi_inspect.table import Facts, read_facts
from hudi_inspect.timeline import moment, parse_content
from hudi_inspect.window import find_reach


def inspect(table: str, options: Options | None = None, **fields: Any) -> Inspection:
    """Inspect a Hudi table without a JVM; a notebook shows the result as a page.

    Args:
        table: A path, or a URI of `file`, `s3` or `s3a`; the lab's `place.table` is one.
        options: What to inspect, see `Options`.
        fields: Fields of `Options` by name, for example `archived=True`.

    Raises:
        InspectError: Not a table, damaged, unreadable, or of an unsupported table version.
    """
    chosen = replace(options or Options(), **fields)
    store = open_store(table, chosen.s3)
    with _one_line(store.uri):
        found = Inspection(store, read_facts(store, archived=chosen.archived), chosen)
    paths = [partition.path for partition in found.partitions]
    if chosen.partition and chosen.partition not in paths:
        near = ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
        raise InspectError(
            f"{store.uri} has no partition {chosen.partition!r} (it has {near or 'none'})",
            f"choose one: hudilab inspect '{table}' --partition '{paths[0] if paths else ''}'",
        )
    if chosen.count:
        with _one_line(store.uri):
            found.counted = count_snapshot(store, len(found.facts.latest()))
    return found


@contextmanager
def _one_line(uri: str) -> Iterator[None]:
    """Turn what says nothing of the table's files into an InspectError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(f"reading {uri}", error) from None
    except MemoryError:
        raise InspectError(
            f"there is not enough memory to read {uri}",
            "end other programs, then try again: hudilab inspect TABLE",
        ) from None
    except Vanished as error:
        raise InspectError(
            f"{uri}/{error} was deleted during the read: the table has changed",
            "try again: hudilab inspect TABLE",
        ) from None


class Inspection:
    """The result; `report` holds what `--json` prints."""

    def __init__(self, store: Store, facts: Facts, options: Options) -> None:
        self.facts = facts
        self.now = options.now
        self.since = _begin(options.since, facts)
        self.partition = options.partition
        self.counted: int | None = None
        self._store, self._options = store, options

    @cached_property
    def partitions(self) -> list[Partition]:
        """Totals of each partition's latest slices, by path."""
        return self.facts.partitions()

    @property
    def slices(self) -> list[Slice]:
        """The slices of the chosen partition; without one, all slices."""
        if not self.partition:
            return list(self.facts.slices)
        return [part for part in self.facts.slices if part.partition == self.partition]

    @cached_property
    def events(self) -> list[Event]:
        """The instants to show, newest first."""
        both = (*(self.facts.archived or ()), *self.facts.events)
        shown = (event for event in both if self.since is None or _after(event, self.since))
        return sorted(shown, key=lambda event: (event.time, event.action), reverse=True)

    @cached_property
    def report(self) -> Report:
        """The report, with the fields of the JSON."""
        facts = self.facts
        pending = (event for event in reversed(facts.events) if not event.is_done)
        last = {query: batch for _, query, batch in batches(facts)}
        report = Report(
            table=_table(facts, self.partitions),
            instants=tuple(self.instant(event) for event in self.events),
            pending=tuple(self.instant(event) for event in pending),
            writers=tuple(Writer(query, batch) for query, batch in sorted(last.items())),
            reach=find_reach(facts),
            health=tuple(check_health(facts, self.now, self._options.stuck_after)),
            notes=_notes(facts),
        )
        if self.counted is not None:
            report = replace(report, table=replace(report.table, rows=self.counted))
        return report

    @property
    def is_healthy(self) -> bool:
        """Whether every check is ok."""
        return all(check.ok for check in self.report.health)

    def instant(self, event: Event) -> Instant:
        """Return an instant with its row counts."""
        commit = self.facts.commit_of(event)
        stats: Sequence[Stat] = commit.stats if commit else ()
        return Instant(
            requested=iso(event.requested_at),
            completed=iso(event.completed_at) if event.is_done else None,
            action=event.action,
            state=event.state,
            operation=commit.operation if commit else None,
            rows_written=sum(stat.writes for stat in stats) if commit else None,
            rows_updated=sum(stat.updates for stat in stats) if commit else None,
            rows_deleted=sum(stat.deletes for stat in stats) if commit else None,
            archived=event.archived,
        )

    def content(self, time: str) -> dict[str, Any]:
        """Return the whole content of an instant's files, as plain values.

        `time` is the instant as in its file name, or its time as in the report.

        Raises:
            InspectError: The instant does not exist, or its file is damaged.
        """
        facts = self.facts
        both = [*reversed(facts.events), *reversed(facts.archived or ())]
        chosen = [
            event
            for event in both
            if time in (event.time, iso(event.requested_at), event.completed)
        ]
        if not chosen:
            newest = both[0].time if both else ""
            older = " or, with --archived, an archived one" if facts.archived is None else ""
            raise InspectError(
                f"{facts.uri} has no instant {time!r}",
                f"choose one from its timeline{older}: hudilab inspect TABLE --instant {newest}",
            )
        found: dict[str, Any] = {"instant": chosen[0].time}
        found |= vars(self.instant(chosen[0]))
        with _one_line(facts.uri):
            for event in chosen:
                found |= self._contents(event)
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
            chosen = next(each for each in self.partitions if each.path == self.partition)
            slices = [part._asdict() for part in self.slices]
            answer["partition"] = {**chosen._asdict(), "slices": slices}
            answer["notes"] = answer.pop("notes")  # last: its name was the last to be added
        return json.dumps(answer, indent=2, ensure_ascii=False)

    def to_html(self) -> str:
        """Return one self-contained page, which includes archived instants."""
        from hudi_inspect.html import page

        return page(self._with_archive())

    def __str__(self) -> str:
        from hudi_inspect.text import text

        return text(self, width=120, color=False)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from hudi_inspect.html import embedded

        return embedded(self._with_archive())

    def _with_archive(self) -> Inspection:
        if self.facts.archived is not None or not self.facts.has_history:
            return self
        with _one_line(self.facts.uri):
            facts = read_facts(self._store, archived=True)
        found = Inspection(self._store, facts, self._options)
        found.counted = self.counted
        return found


def _plain(value: Any) -> Any:
    """Return an Avro value as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
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
            f"--since {since!r} is not a time",
            "give an instant or an ISO 8601 time: "
            "hudilab inspect TABLE --since 2026-01-31T12:00:00Z",
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _after(event: Event, since: datetime) -> bool:
    last = event.completed_at or event.requested_at
    return last is not None and last >= since


def _fields(properties: Any, *names: str) -> tuple[str, ...]:
    text = next((properties[name] for name in names if properties.get(name)), "")
    # A custom key generator notes the kind, too: "city:simple,at:timestamp".
    return tuple(name.partition(":")[0].strip() for name in text.split(",") if name.strip())


def _table(facts: Facts, partitions: list[Partition]) -> Table:
    properties, rows = facts.properties, [partition.rows for partition in partitions]
    return Table(
        uri=facts.uri,
        name=properties["hoodie.table.name"],
        type=properties["hoodie.table.type"],
        version=facts.version,
        record_key=_fields(properties, "hoodie.table.recordkey.fields"),
        partition=_fields(properties, "hoodie.table.partition.fields"),
        index=_index(facts),
        rows=None if None in rows else sum(count for count in rows if count is not None),
        bytes=sum(partition.bytes for partition in partitions),
        files=sum(partition.files for partition in partitions),
        file_groups=sum(partition.groups for partition in partitions),
        partitions=len(partitions),
    )


def _notes(facts: Facts) -> tuple[str, ...]:
    """Return what the report lacks."""
    if not facts.unread:
        return ()
    return (
        f"the archive {facts.unread} is not read, because the table has version {facts.version}: "
        "its instants are missing here, and queries may reach further back; list its commits with "
        f"CALL show_archived_commits(table => '{facts.properties['hoodie.table.name']}')",
    )


def _index(facts: Facts) -> str | None:
    """Return the index that the files reveal; the properties do not record a writer's index."""
    indexes = facts.properties.get("hoodie.table.metadata.partitions", "").split(",")
    if "record_index" in indexes:
        return "RECORD_INDEX"
    return "BUCKET" if facts.has_buckets() else None
