"""`hudilab sql` splits its input into statements, and refuses what it cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudilab_cli import sql_command
from hudilab_cli.sql_command import command, split


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1; SELECT 2;\n", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT ';', \";\", `;` FROM t; x", ["SELECT ';', \";\", `;` FROM t"], "x"),
        ("SELECT 'it\\'s; ''', 2;", ["SELECT 'it\\'s; ''', 2"], ""),
        ("-- a; b\nSELECT 1 /* ; */ - 2;;", ["SELECT 1  - 2"], ""),
        ("SELECT /*+ BROADCAST(t) */ 1 / 2;", ["SELECT /*+ BROADCAST(t) */ 1 / 2"], ""),
        ("SELECT 'a\nb';", ["SELECT 'a\nb'"], ""),
    ],
)
def test_statements(text: str, statements: list[str], rest: str) -> None:
    assert split(text) == (statements, rest)


def test_a_prompt_reads_until_a_semicolon(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: Iterator[str | type[BaseException]] = iter(
        ["SELECT", "1;SELECT 2;", "SELECT 3", KeyboardInterrupt, "SELECT 4;", "quit"]
    )
    prompts = []

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", typed)
    assert list(sql_command._typed()) == ["SELECT\n1", "SELECT 2", "SELECT 4"]
    assert prompts == ["sql> ", "...> ", "sql> ", "...> ", "sql> ", "sql> "]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            {"execute": "SELECT 1", "file": Path("a.sql")},
            'the argument SQL, -e and -f exclude each other; give one of them: hudilab sql "SQL"',
        ),
        (
            {"sql": "SELECT 1", "execute": "SELECT 1"},
            'the argument SQL, -e and -f exclude each other; give one of them: hudilab sql "SQL"',
        ),
        (
            {"file": Path("none.sql")},
            "cannot read none.sql ([Errno 2] No such file or directory: 'none.sql'); give a file "
            "with SQL",
        ),
        (
            {"execute": "SELECT 1", "run_id": "../a"},
            "parameter run_id='../a' is not a valid directory name; use 1 to 64 letters, digits, "
            "'_', '-' and '.', not starting with '.' or '_', and without '..'",
        ),
    ],
)
def test_a_bad_argument(
    words: dict[str, object],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RUNTIME_ENV", raising=False)
    with pytest.raises(SystemExit):
        command(**words)  # type: ignore[arg-type]
    assert capsys.readouterr().err == f"hudilab: {text}\n"
