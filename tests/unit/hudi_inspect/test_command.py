"""The command `hudilab inspect`."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.handmade import COMMIT, COUNTS, HandMade, at, avro
from unit.hudi_inspect.tables import A, look, write

from hudi_inspect.units import plain
from hudilab_cli import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hudilab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `hudilab inspect`; return its exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hudilab", "inspect", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return int(caught.value.code or 0), *capsys.readouterr()

    return run


def test_check_is_an_exit_code(table: HandMade, hudilab: Run) -> None:
    write(table, "a", "b")
    code, out, _ = hudilab(table.root, "--check")
    assert (code, [text[:4] for text in out.splitlines()]) == (0, ["ok  "] * 8)
    write(table, "a", "b", "a")
    code, out, _ = hudilab(table.root, "--check")
    assert (code, out.count("FAIL two writers")) == (1, 1)
    code, out, _ = hudilab(table.root)
    assert (code, out.count("FAIL two writers")) == (0, 1)


def test_json_has_the_partition_and_the_instant_that_were_asked_for(
    table: HandMade, hudilab: Run
) -> None:
    table.commit(10, 12, {A: 5})
    report = json.loads(hudilab(table.root, "--json", "--partition", "sensor_id=10")[1])
    names = "table instants pending writers reach health partition notes"
    assert " ".join(report) == names
    assert report["partition"]["slices"][0]["group"] == A
    code, out, _ = hudilab(table.root, "--instant", at(10))
    assert (code, json.loads(out)["commit"]["operationType"]) == (0, "INSERT")


def test_html_goes_anywhere_but_into_the_table(table: HandMade, hudilab: Run) -> None:
    table.commit(10, 12, {A: 5})
    inside, nowhere = table.root / "page.html", table.root.parent / "none" / "page.html"
    for page, problem, remedy in (
        (inside, f"--html {inside} is inside the table's folder", "choose a file outside it"),
        (nowhere, f"cannot write {nowhere}: No such file or directory", "choose another file"),
    ):
        error = f"hudilab: {problem}; {remedy}: hudilab inspect TABLE --html FILE\n"
        assert hudilab(table.root, "--html", page) == (1, "", error)
    page = table.root.parent / "page.html"
    assert hudilab(table.root, "--html", page)[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_the_text(table: HandMade, hudilab: Run) -> None:
    write(table, "a")
    shutil.rmtree(table.root / "sensor_id=10")
    table.base(10, A)
    assert hudilab(table.root)[1].splitlines()[:13] == [
        "table           readings, COPY_ON_WRITE, version 9",
        "read by         Hudi 1.1 and later, hudi-rs 0.5",
        f"location        file://{table.root}",
        "key             sensor_id, reading_id; for duplicate keys, the last write wins",
        "partitioned by  sensor_id",
        "index           not recorded in the table; metadata table: off",
        "services        no archive",
        "rows            5",
        "size            100 B in 1 file, 1 file group",
        "reach           time travel back to 2026-01-01T00:00:10.000Z, "
        "incremental from 2026-01-01T00:00:10.000Z",
        "written by      stream a, last batch 0 at 2026-01-01T00:00:10.000Z",
        "",
        "Instants, newest first (1 of 1)",
    ]


def test_a_narrow_terminal_shows_whole_columns(table: HandMade) -> None:
    from hudi_inspect.text import text

    table.commit(10, 12, {A: 5_000_000})
    for partition in ("", "sensor_id=10"):
        shown = text(look(table, partition=partition), width=80)
        assert max(len(row) for row in shown.splitlines() if "file://" not in row) <= 80
        assert f"{at(10)}  commit" in shown or f"{at(10)} commit" in shown
        assert "5,000,000" in shown


@pytest.mark.parametrize(
    "operation", ["[/x]", "[link=http://x]y[/link]", "\x1b]0;x\x07", "\u202e", "a\nok", "\ud800"]
)
def test_text_of_a_table_is_data(table: HandMade, hudilab: Run, operation: str) -> None:
    name = table.instant(10, 12, "commit", json.dumps({"operationType": operation}).encode())
    odd = table.root / "p\x1b[31m'\nx"
    odd.mkdir()
    (odd / f"g_0-1-1_{name}.orc").touch()
    for options in (["--json"], ["--check"], ["--instant", name], []):
        code, out, _ = hudilab(table.root, *options)
        assert code == 0
        assert out.replace("\n", "").isprintable()
    assert plain(operation.lower()) in out
    code, _, error = hudilab(table.root, "--partition", "none")
    assert (code, error.partition("choose one: ")[2]) == (
        1,
        f"hudilab inspect '{table.root}' --partition=$'p\\x1b[31m\\'\\x0ax'\n",
    )


@pytest.mark.parametrize("option", ["", "--json", "--check", "--html", "--instant"])
def test_what_cannot_be_read_is_a_line_and_exit_code_1(
    table: HandMade, hudilab: Run, option: str
) -> None:
    table.commit(10, 12, {A: 5})
    table.instant(20, 22, "commit", b"[]")
    values = {"--html": str(table.root.parent / "page.html"), "--instant": at(10)}
    options = filter(None, (option, values.get(option)))
    code, out, error = hudilab(table.root, *options)
    assert code == 1
    where = out if option in ("", "--json") else error
    assert where.count(f"the commit {at(20)} can't be read: ") == 1


@pytest.mark.deep
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("option", ["--limit=9", "--json", "--html=/dev/null"])
def test_a_hundred_thousand_instants(tmp_path: Path, version: int, option: str) -> None:
    table = HandMade(tmp_path / "t", version=version)
    for i in range(100_000):
        time = f"{20260101000000 + i // 60 % 60 * 100 + i // 3600 * 10000 + i % 60}000"
        partition = f"sensor_id={i % 1000}"
        path = f"{partition}/{i:08x}-0000-0000-0000-000000000000-0_0-1-1_{time}.parquet"
        (table.root / partition).mkdir(exist_ok=True)
        (table.root / path).touch()
        stat = {"fileId": path[-40:], "path": path, **dict.fromkeys(COUNTS, 1)}
        record = {"partitionToWriteStats": {partition: [stat]}, "operationType": "INSERT"}
        content = json.dumps(record).encode() if version < 8 else avro(COMMIT, record)
        end = "" if version < 8 else f"_{time}"
        (table.timeline / f"{time}{end}.commit").write_bytes(content)
    command = [sys.executable, "-m", "hudi_inspect", str(table.root), option]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{seconds:.1f} s of a processor, {after.ru_maxrss / 1000:.0f} MB")
    assert seconds < 20  # twice what it takes: a busy machine is slower
    assert after.ru_maxrss < 500_000
