"""`hudi-inspect` on S3: the same report as on a disk, and each fault by its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.handmade import HandMade

from hudi_inspect import inspect
from hudi_inspect.errors import InspectError
from hudilab_cli.servers.s3 import S3Server

A = "aaaaaaaa-0000-0000-0000-000000000000-0"
CHAIN = "AWS_PROFILE and AWS_SHARED_CREDENTIALS_FILE, or AWS_ACCESS_KEY_ID and its secret"


@pytest.fixture
def bucket(used: S3Server) -> Iterator[Path]:
    """The bucket's folder: the server's objects are plain files."""
    folder = used.log.parent / "data" / "hudilab"
    yield folder
    shutil.rmtree(folder / "looked_at", ignore_errors=True)


def tables(bucket: Path) -> HandMade:
    table = HandMade(bucket / "looked_at" / "lab" / "a table ü")
    table.commit(10, 12, {A: 5}, extra={"hudilab.query_id": "q", "hudilab.batch_id": "0"})
    table.commit(20, 22, {A: 6})
    table.commit(30, None, {A: 7})
    return table


def refusal(uri: str) -> str:
    with pytest.raises(InspectError) as caught:
        inspect(uri)
    return str(caught.value)


def test_the_report_is_that_of_the_same_files_on_a_disk(bucket: Path) -> None:
    table = tables(bucket)
    uri = "hudilab/looked_at/lab/a table ü"
    here = inspect(str(table.root)).as_dict()
    here["table"]["uri"] = f"s3://{uri}"
    assert inspect(f"s3://{uri}/").as_dict() == here
    here["table"]["uri"] = f"s3a://{uri}"
    assert inspect(f"s3a://{uri}").as_dict() == here


def test_no_table_and_a_parent_of_tables(bucket: Path) -> None:
    tables(bucket)
    parent = "s3://hudilab/looked_at"
    assert refusal(parent) == (
        f"{parent} is not a table but contains 1: {parent}/lab/a table ü; "
        f"choose one: hudi-inspect '{parent}/lab/a table ü'"
    )
    assert refusal("s3://hudilab/looked_at/none") == (
        "s3://hudilab/looked_at/none is not a Hudi table: it has no .hoodie/hoodie.properties; "
        "give the folder that contains .hoodie: hudi-inspect TABLE"
    )


def test_a_damaged_commit_is_looked_at_with_the_clients_command(bucket: Path) -> None:
    table = tables(bucket)
    file = max(table.timeline.glob("*_*.commit"))
    file.write_bytes(b"")
    uri = f"s3://hudilab/looked_at/lab/a table ü/.hoodie/timeline/{file.name}"
    note = inspect("s3a://hudilab/looked_at/lab/a table ü").notes[0]
    assert f"can't be read: {uri.replace('s3:', 's3a:')} is empty; look at it (aws s3 ls " in note
    assert f"(aws s3 ls '{uri}'), and restore it from a backup" in note


def test_a_wrong_secret(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-is-not-shown")
    message = refusal("s3://hudilab/looked_at/lab/a table ü")
    assert "a-secret" not in message
    assert message.startswith("cannot read bucket 'hudilab': ")
    assert message.endswith(f"fix {CHAIN}, then try again: hudi-inspect TABLE")
