"""Keep a table that Hudi wrote as a sample: keep_table.py TABLE NAME, started in tests/.

NAME.tar.xz holds its files, with zeros for the content of data files, which `inspect` does not
read. NAME.json holds the rows and slices that hudi-rs finds in it, and the report.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

from hudi import HudiTableBuilder
from unit.hudi_inspect.tables import SAMPLES, report_of

from hudi_inspect import inspect
from hudi_inspect.store import DiskStore


def keep(table: Path, name: str) -> None:
    with tarfile.open(SAMPLES / f"{name}.tar.xz", "w:xz") as kept:
        for entry in DiskStore(table).files():
            member = tarfile.TarInfo(entry.path)
            member.size, member.mtime = entry.size, int(entry.modified)
            is_data = not entry.path.startswith(".hoodie/")
            data = bytes(entry.size) if is_data else (table / entry.path).read_bytes()
            kept.addfile(member, io.BytesIO(data))
    slices = HudiTableBuilder.from_base_uri(str(table)).build().get_file_slices()
    answers = {
        "rows": inspect(str(table), count=True).table.rows,
        "slices": sorted(
            [part.partition_path, part.file_id, part.base_file_size, len(part.log_file_names)]
            for part in slices
        ),
        "report": report_of(table),
    }
    (SAMPLES / f"{name}.json").write_text(json.dumps(answers, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
