"""Keep tables that Hudi made, and what Spark says of them, for tests without Spark.

Each becomes two files in tests/unit/samples/hudi/tables: the table, with zeros for the content of
its data files, which `inspect` does not read; and a JSON with Spark's answers and the report.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from pathlib import Path

from spark.programs.foreign import TABLES, Steps, said
from unit.hudi_inspect.tables import SAMPLES

from hudilab.settings import load_settings
from hudilab_spark.session import open_session

KEPT = (
    "all deleted, MOR",
    "archived, MOR",
    "archived, version 6",
    "avro logs",
    "bootstrapped, metadata only, and written",
    "clustered",
    "clustering pending",
    "compaction pending",
    "custom key",
    "overwritten table",
    "record index",
    "rolled back, MOR",
    "savepoint, and back",
    "SQL",
    "version 6, MOR, compacted",
)
# Folders that `inspect` skips.
SKIPPED = (".hoodie/metadata", ".hoodie/.temp", ".hoodie/.aux", ".hoodie/.schema")


def keep(table: Steps, file: Path) -> None:
    """Write a table's files, dated as they are, with data of zeros."""
    with tarfile.open(file, "w:xz") as kept:
        for path in sorted(table.path.rglob("*")):
            name = str(path.relative_to(table.path))
            if path.suffix == ".crc" or name.startswith(SKIPPED) or not path.is_file():
                continue
            member = tarfile.TarInfo(name)
            member.size, member.mtime = path.stat().st_size, int(path.stat().st_mtime)
            data = path.read_bytes() if name.startswith(".hoodie/") else bytes(member.size)
            kept.addfile(member, io.BytesIO(data))


def main() -> None:
    SAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["HUDILAB_HOME"] = home
        spark = open_session(load_settings(), app="samples")
        for name in KEPT:
            stem = name.replace(",", "").replace(" ", "_").lower()
            table = Steps(spark, Path(home, stem), TABLES[name])
            keep(table, SAMPLES / f"{stem}.tar.xz")
            answers = said(table)
            (SAMPLES / f"{stem}.json").write_text(json.dumps(answers, indent=1) + "\n")
            print(stem, (SAMPLES / f"{stem}.tar.xz").stat().st_size)
        spark.stop()


if __name__ == "__main__":
    main()
