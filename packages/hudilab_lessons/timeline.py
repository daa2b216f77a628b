"""List the instants and files of a Hudi table, parsed from file names."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd
from pyspark.sql import SparkSession

from hudi_inspect.names import Entry, Instant, instants_of, parse_file
from hudi_sink.files import list_files


def parse_instants(names: Iterable[str]) -> list[Instant]:
    """Parse the file names of `.hoodie/timeline` (layout 2) into instants, oldest first."""
    instants = instants_of([Entry(name, 0, 0.0) for name in names], "", utc=True)
    # A metadata table has instants that are no times.
    return [instant for instant in instants if instant.requested]


def instants(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return the active timeline, oldest first: action, state, requested, completed (UTC)."""
    names = (file.path for file in list_files(spark, f"{table}/.hoodie/timeline"))
    rows = [
        (instant.action, instant.state, instant.requested, instant.completed)
        for instant in parse_instants(names)
    ]
    return pd.DataFrame(rows, columns=["action", "state", "requested", "completed"])


def data_files(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return all slices' files: partition, file_group, kind (base, log), instant, size in bytes."""
    rows = []
    for entry in list_files(spark, table):
        file = parse_file(entry.path)
        if file and not entry.path.endswith(".cdc"):
            kind = "base" if file.is_base else "log"
            rows.append((file.partition, file.group, kind, file.instant, entry.size))
    return pd.DataFrame(rows, columns=["partition", "file_group", "kind", "instant", "size"])


GROUP = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?")
METADATA = re.compile(r"(?<=\.hoodie/metadata/).+|(?<=^metadata/).+")
TOKEN, INSTANT = re.compile(r"(?<=_)\d+-\d+-\d+(?=[_.]|$)"), re.compile(r"\d{17}")


def tree_of(paths: Iterable[str], folder: str = "") -> str:
    """Return the paths of a table's files as a tree, with short labels for what each run changes.

    Instants become t1, t2 ... in their order, ids of file groups A, B ..., and write tokens w.
    Checksum files are left out, and the metadata table is one line. With `folder`, the tree
    contains only that folder, with the labels of the whole table.
    """
    kept = sorted({METADATA.sub("", path) for path in paths if not path.endswith(".crc")})
    instants = sorted({instant for path in kept for instant in INSTANT.findall(path)})
    times = {instant: f"t{number}" for number, instant in enumerate(instants, 1)}
    named = [TOKEN.sub("w", INSTANT.sub(lambda match: times[match[0]], path)) for path in kept]
    # The ids are random, so the labels follow what else a group's files are called.
    files: dict[str, list[str]] = {}
    for path in named:
        for group in GROUP.findall(path):
            files.setdefault(group, []).append(path.replace(group, ""))
    groups = sorted(files, key=lambda group: sorted(map(_natural, files[group])))
    labels = {group: _letters(number) for number, group in enumerate(groups)}
    labelled = (GROUP.sub(lambda match: labels[match[0]], path) for path in named)
    below = f"{folder}/" if folder else ""
    shown = [path.removeprefix(below) for path in labelled if path.startswith(below)]
    lines, open_folders = [], list[str]()
    for path in sorted(shown, key=_natural):
        *folders, name = path.split("/")
        for depth, part in enumerate(folders):
            if open_folders[: depth + 1] != folders[: depth + 1]:
                lines.append(f"{'  ' * depth}{part}/")
                open_folders = folders[: depth + 1]
        open_folders = folders
        if name:
            lines.append(f"{'  ' * len(folders)}{name}")
        else:
            lines[-1] += " (the metadata table)"
    return "\n".join(lines)


def _natural(path: str) -> list[tuple[bool, int, str]]:
    """Sort t2 before t10."""
    parts = re.split(r"(\d+)", path)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _letters(number: int) -> str:
    """Return the name of a file group by its number, from 0: A to Z, then AA, AB ..."""
    rest, letter = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("A") + letter)
