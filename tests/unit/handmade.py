"""Tables made by hand: the files that `hudilab inspect` reads, named and filled as Hudi does."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

COUNTS = ("numWrites", "numUpdateWrites", "numDeletes", "numInserts", "totalWriteBytes")
TOKEN = "0-1-1"
SCHEMAS = Path(__file__).parent / "samples" / "hudi" / "schemas"  # parts of Hudi's own


def parsed(name: str) -> Any:
    return fastavro.parse_schema(json.loads((SCHEMAS / f"{name}.avsc").read_text("utf-8")))


COMMIT, CLEAN, PLAN = parsed("commit"), parsed("clean"), parsed("compaction_plan")


def avro(schema: Any, record: Any) -> bytes:
    out = BytesIO()
    fastavro.writer(out, schema, [record])
    return out.getvalue()


def at(second: int) -> str:
    """An instant: so many seconds after midnight."""
    return f"20260101{second // 3600:02}{second // 60 % 60:02}{second % 60:02}000"


class HandMade:
    """A table that grows by one instant a call; times are seconds of 2026-01-01 UTC."""

    def __init__(self, root: Path, *, version: int = 9, **properties: str) -> None:
        self.root, self.version = root, version
        self.kind = "parquet"  # of base files
        self.meta = root / ".hoodie"
        self.timeline = self.meta if version < 8 else self.meta / "timeline"
        self.timeline.mkdir(parents=True)
        self.properties = {
            "hoodie.table.name": "readings",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "1" if version < 8 else "2",
            "hoodie.table.recordkey.fields": "sensor_id,reading_id",
            "hoodie.table.partition.fields": "sensor_id",
            "hoodie.table.timeline.timezone": "UTC",
        } | {f"hoodie.{key.replace('__', '.')}": value for key, value in properties.items()}
        self.save()

    def save(self) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        (self.meta / "hoodie.properties").write_text(f"#saved\n{lines}")

    def instant(
        self, begin: int, end: int | None, action: str, data: bytes = b"", **more: Any
    ) -> str:
        """Write an instant's files; without an end it stays in flight."""
        started = more.get("started", action)
        name = f"{at(begin)}.{started}"
        (self.timeline / f"{name}.requested").write_bytes(more.get("plan", b""))
        flight = f"{at(begin)}.inflight" if started == "commit" else f"{name}.inflight"
        if more.get("inflight", True):
            (self.timeline / flight).write_bytes(b"")
        if end is not None:
            done = (
                f"{at(begin)}.{action}" if self.version < 8 else f"{at(begin)}_{at(end)}.{action}"
            )
            (self.timeline / done).write_bytes(data)
            os.utime(self.timeline / done, (self.seconds(end),) * 2)
        return at(begin)

    @staticmethod
    def seconds(second: int) -> float:
        return 1767225600.0 + second

    def base(self, begin: int, group: str, partition: str = "sensor_id=10", size: int = 100) -> str:
        """Write a base file; return its path."""
        folder = self.root / partition
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{group}_{TOKEN}_{at(begin)}.{self.kind}"
        (folder / name).write_bytes(b"x" * size)
        return f"{partition}/{name}" if partition else name

    def log(
        self,
        begin: int,
        group: str,
        partition: str = "sensor_id=10",
        size: int = 10,
        number: int = 1,
    ) -> str:
        folder = self.root / partition
        folder.mkdir(parents=True, exist_ok=True)
        name = f".{group}_{at(begin)}.log.{number}_{TOKEN}"
        (folder / name).write_bytes(b"x" * size)
        return f"{partition}/{name}"

    def commit(
        self,
        begin: int,
        end: int | None,
        groups: dict[str, int] | None = None,
        *,
        action: str = "commit",
        started: str = "",
        partition: str = "sensor_id=10",
        operation: str = "INSERT",
        extra: dict[str, str] | None = None,
        replaced: tuple[str, ...] = (),
        logs: bool = False,
        size: int = 100,
    ) -> str:
        """A commit that writes one file for each file group, with so many rows."""
        stats = []
        for group, rows in (groups or {}).items():
            write = self.log if logs else self.base
            path = write(begin, group, partition, size)
            counts = dict.fromkeys(COUNTS, 0) | {"numWrites": rows, "totalWriteBytes": size}
            stats.append({"fileId": group, "path": path, **counts})
        record = {
            "partitionToWriteStats": {partition: stats} if stats else {},
            "extraMetadata": {"schema": "{}"} | (extra or {}),
            "operationType": operation,
            "partitionToReplaceFileIds": {partition: list(replaced)} if replaced else {},
        }
        data = json.dumps(record).encode() if self.version < 8 else avro(COMMIT, record)
        return self.instant(begin, end, action, data, started=started or action)

    def clean(self, begin: int, end: int, keep: str, deleted: tuple[str, ...] = ()) -> str:
        partitions = {"sensor_id=10": {"deletePathPatterns": list(deleted)}}
        record = {"earliestCommitToRetain": keep, "partitionMetadata": partitions}
        return self.instant(begin, end, "clean", avro(CLEAN, record))

    def compaction(self, begin: int, *groups: str, partition: str = "sensor_id=10") -> str:
        """A compaction that is planned and not done."""
        plan = {"operations": [{"partitionPath": partition, "fileId": group} for group in groups]}
        return self.instant(begin, None, "compaction", plan=avro(PLAN, plan), inflight=False)

    def archive(self, *rows: tuple[int, int | None, str, dict[str, Any] | None]) -> Path:
        """Write an archive of rows of instant, completion, action, content; return its folder."""
        if self.version < 8:
            folder = self.meta / self.properties.get("hoodie.archivelog.folder", "archived")
            folder.mkdir()
            (folder / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI#")
            return folder
        import pyarrow as pa
        from pyarrow import parquet

        folder = self.timeline / "history"
        folder.mkdir()
        columns = {
            "instantTime": [at(begin) for begin, _, _, _ in rows],
            "completionTime": [end and at(end) for _, end, _, _ in rows],
            "action": [action for _, _, action, _ in rows],
            "metadata": [avro(COMMIT, content) if content else b"" for *_, content in rows],
        }
        file = f"{at(rows[0][0])}_{at(rows[-1][0])}_0.parquet"
        parquet.write_table(pa.table(columns), folder / file)
        manifest = {"files": [{"fileName": file, "fileLen": 1}]}
        (folder / "manifest_1").write_text(json.dumps(manifest))
        (folder / "_version_").write_text("1")
        return folder
