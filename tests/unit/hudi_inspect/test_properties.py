"""What is no table, or a table that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import read_cases
from unit.handmade import HandMade
from unit.hudi_inspect.tables import A, look, refusal

from hudi_inspect import health, snapshot, store
from hudi_inspect.about import about
from hudi_inspect.properties import parse_properties
from hudi_sink import metadata
from hudilab.files import read_properties

CASES = read_cases(__file__)


def test_no_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("lab/b", "lab/a", "deep/er/still/c"):
        HandMade(tmp_path / name)
    folder = "give the table's folder: hudi-inspect TABLE"
    for location, error in {
        f"{tmp_path}/empty": f"file://{tmp_path}/empty is not a Hudi table: it has no "
        ".hoodie/hoodie.properties; give the folder that contains .hoodie: hudi-inspect TABLE",
        f"{tmp_path}/none": f"{tmp_path}/none does not exist; {folder}",
        f"{tmp_path}/file": f"{tmp_path}/file is a file; {folder}",
        "gs://bucket/table": "cannot read gs:// URIs; give a path, or a file://, s3:// or s3a:// "
        "URI: hudi-inspect TABLE",
        "s3://": "s3:// has no bucket name; write it as s3://BUCKET/PATH/TO/TABLE",
        str(tmp_path): f"file://{tmp_path} is not a table but contains 2: {tmp_path}/lab/a, "
        f"{tmp_path}/lab/b; choose one: hudi-inspect {tmp_path}/lab/a",
    }.items():
        assert refusal(location) == error


@pytest.mark.parametrize(
    ("text", "what"),
    CASES["damaged"],
)
def test_damaged_properties(table: HandMade, text: str, what: str) -> None:
    file = table.meta / "hoodie.properties"
    file.write_text(text)
    assert refusal(table) == (
        f"file://{file} {what}; compare it with its backup, if there is one (ls -l '{file}.backup')"
        f", and restore it from there: cp '{file}.backup' '{file}'"
    )


def test_the_properties_are_read_as_java_and_the_lab_do() -> None:
    text = "#c\na = 1\nb:2\nc d\ne=\\u00fc\\ud83d\\ude00\nf=x\\\n  y\n!n\ng\\=h=i\\tj\nk\nl=z\\"
    pairs = {"a": "1", "b": "2", "c": "d", "e": "ü😀", "f": "xy", "g=h": "i\tj", "k": "", "l": "z"}
    assert parse_properties(text) == read_properties(text) == pairs


def test_the_constants_are_those_of_the_sink() -> None:
    assert (health.QUERY, health.BATCH) == (metadata.QUERY, metadata.BATCH)
    assert (snapshot.SOURCE, snapshot.MOST_BUCKETS) == (metadata.SOURCE, metadata.MOST_BUCKETS)
    assert store.PROPERTIES == metadata.PROPERTIES


def test_another_version(tmp_path: Path) -> None:
    for version, limit, remedy in (
        (10, "newer than 9", "use the Hudi release that wrote it: CALL show_timeline(table => "),
        (5, "older than 6", "upgrade the table: CALL upgrade_table(table => "),
    ):
        table = HandMade(tmp_path / str(version), version=version)
        assert refusal(table).startswith(
            f"file://{table.root} has table version {version}, but inspect supports no version "
            f"{limit}; {remedy}"
        )


@pytest.mark.parametrize(("version", "oldest"), [(6, "0.14"), (7, "1.0"), (8, "1.0"), (9, "1.1")])
def test_the_releases_that_read_a_version(tmp_path: Path, version: int, oldest: str) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    assert dict(about(look(table)))["read by"] == f"Hudi {oldest} and later, hudi-rs 0.5"
