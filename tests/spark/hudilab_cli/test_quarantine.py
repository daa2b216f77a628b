"""`hudilab quarantine` shows what a stream has quarantined: for a reader, and for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import hudilab
from pyspark.sql import SparkSession
from spark.hudilab_jobs.test_files import TIME, Inbox

from hudilab_cli.quarantine_command import blocks, json_lines, quarantined
from hudilab_spark import session

LONG = f'x,{TIME},"{"ab, " * 400}"'
ODD = 'y\x1b[31m,"\U0001f680\u2028",\\'


@pytest.fixture
def shared(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command finds the pipeline's settings, and uses the tests' session."""
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    monkeypatch.setenv("HUDILAB_CONF", str(tmp_path / "conf"))
    monkeypatch.setattr(session, "open_session", lambda *_, **__: spark)
    monkeypatch.setattr(session, "close_session", lambda _: None)
    return tmp_path


def test_rows_with_reason_and_text(
    spark: SparkSession,
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    inbox = Inbox(spark, shared, quarantine="true")
    inbox.put("a.csv", f"id,seen,name\n1,{TIME},good\n{LONG}\n,{TIME},no key\n")
    inbox.write()
    inbox.put("b.csv", f"id,seen,name\n{ODD}\nz,{TIME},\n2,{TIME},good\n")
    inbox.write()
    capsys.readouterr()
    assert hudilab(monkeypatch, "quarantine", "own") == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert max(map(len, lines)) < 300
    assert "\x1b" not in shown
    assert lines[:6] == [
        "own_quarantine: 4 rows",
        "",
        "3  column id is not BIGINT",
        "1  the record key (id) is null",
        "",
        "batch 1, number 0",
    ]
    assert f"  file    file://{inbox.folder}/b.csv" in lines
    assert '  line    y\\x1b[31m,"\U0001f680\\u2028",\\' in lines
    assert any(line.startswith("  line    x,2026") for line in lines)
    assert any(line.endswith(f"… ({len(LONG):,} characters)") for line in lines)
    assert '  row     {"id":null,"seen":"2026-01-01T00:00:00.000000Z","name":"no key"}' in lines
    assert lines.index("batch 1, number 1") < lines.index("batch 0, number 0")
    assert hudilab(monkeypatch, "quarantine", "own", "--limit", "1") == 0
    shown = capsys.readouterr().out
    assert shown.count("\nbatch ") == 1
    assert shown.endswith("3 more rows; add --limit N, or print all rows with --json\n")
    assert hudilab(monkeypatch, "quarantine", "own", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["table"], row["batch"], row["number"]) for row in rows] == [
        ("own_quarantine", 1, 0),
        ("own_quarantine", 1, 1),
        ("own_quarantine", 0, 0),
        ("own_quarantine", 0, 1),
    ]
    texts = [row["row"].get("line") or row["row"]["name"] for row in rows]
    assert texts == [ODD, f"z,{TIME},", LONG, "no key"]
    assert rows[0]["row"]["file"] == f"file://{inbox.folder}/b.csv"
    stored = spark.read.format("hudi").load(inbox.pipeline().location.quarantine).collect()
    reasons = {(row.query_id, row.batch, row.number): row.reason for row in stored}
    assert {(r["query_id"], r["batch"], r["number"]): r["reason"] for r in rows} == reasons


def test_a_quarantine_without_rows_says_so(
    spark: SparkSession,
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Inbox(spark, shared)
    assert hudilab(monkeypatch, "quarantine", "own") == 0
    assert capsys.readouterr().out == (
        'own has quarantined no row; to quarantine rows, add "quarantine": "true" to pipeline own\n'
    )
    inbox = Inbox(spark, shared, quarantine="true")
    assert hudilab(monkeypatch, "quarantine", "own", "--json") == 0
    assert capsys.readouterr() == ("", "own has quarantined no row\n")
    inbox.put("a.csv", f"id,seen,name\nx,{TIME},good\n")
    inbox.write()
    rows = quarantined(spark, inbox.pipeline().location.quarantine)
    assert rows is not None
    assert rows.count() == 1
    assert list(blocks(rows.where("false"), "own_quarantine", 20)) == ["own_quarantine is empty"]
    assert list(json_lines(rows.where("false"), "own_quarantine")) == []


def test_a_message_is_shown_with_its_partition_and_offset(spark: SparkSession) -> None:
    message = {
        "kafka_key": "k",
        "kafka_partition": 3,
        "kafka_offset": 17,
        "kafka_timestamp": "2026-01-01T00:00:00.123000Z",
        "kafka_value": None,
    }
    read = {"id": None, "wide": 12345678901234567890.5} | message
    texts = [json.dumps(message), json.dumps(read).replace("1.2345678901234567e+19", "1" * 38)]
    rows = spark.createDataFrame(
        [("q", 0, n, "it is not JSON; correct it", text) for n, text in enumerate(texts)],
        "query_id STRING, batch BIGINT, number BIGINT, reason STRING, row STRING",
    )
    lines = list(blocks(rows, "t", 20))
    assert lines[2] == "2  it is not JSON"
    assert lines[5:10] == [
        "  reason     it is not JSON; correct it",
        "  partition  3",
        "  offset     17",
        "  key        k",
        "  time       2026-01-01T00:00:00.123000Z",
    ]
    assert lines[10] == "  value      NULL"
    assert any(line.startswith('  row        {"id": null, "wide": 1111') for line in lines)
    assert [json.loads(line)["row"]["kafka_offset"] for line in json_lines(rows, "t")] == [17, 17]
    assert f'"wide": {"1" * 38}' in list(json_lines(rows, "t"))[1]
