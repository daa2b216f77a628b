"""Tables whose writer had a clock that was ahead."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from running import folder


def instants(table: str) -> list[str]:
    """All times in the names of a timeline's files."""
    timeline = folder(table) / ".hoodie" / "timeline"
    return re.findall(r"\d{17}", " ".join(file.name for file in timeline.iterdir()))


def set_ahead(table: str, seconds: float) -> None:
    """Rename all instants, as if the clock of the table's writer had been ahead."""

    def later(found: re.Match[bytes]) -> bytes:
        moment = datetime.strptime(found[0].decode(), "%Y%m%d%H%M%S%f")
        return f"{moment + timedelta(seconds=seconds):%Y%m%d%H%M%S%f}"[:17].encode()

    time = re.compile(rb"20\d{15}")
    for file in [file for file in folder(table).rglob("*") if file.is_file()]:
        if file.suffix == ".crc":
            file.unlink()
            continue
        if ".hoodie" in file.parts:
            file.write_bytes(time.sub(later, file.read_bytes()))
        file.rename(file.with_name(time.sub(later, file.name.encode()).decode()))
