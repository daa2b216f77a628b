"""A dataclass of options makes a command: its fields are options, its docstring is the help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hudilab.errors import ParameterError
from hudilab_jobs import DryRun, RunId, as_command


@dataclass(frozen=True, kw_only=True)
class Options:
    """Count the words."""

    words: Annotated[list[str], typer.Argument(help="What to count.")]
    least: Annotated[int, typer.Option(help="Fewest words.")] = 1
    run_id: RunId = ""
    dry_run: DryRun = False


def run(options: Options) -> Iterator[str]:
    yield f"{options}"
    if len(options.words) < options.least:
        raise ParameterError(f"--least {options.least} is more than the words; give more words")


app = typer.Typer()
app.command()(as_command(Options, run))


def test_its_options_reach_the_job_and_its_lines_are_printed() -> None:
    done = CliRunner().invoke(app, ["a", "b", "--least", "2", "--dry-run"])
    assert (done.exit_code, done.stdout) == (
        0,
        f"{Options(words=['a', 'b'], least=2, run_id='', dry_run=True)}\n",
    )


def test_an_error_is_one_line_after_what_was_printed() -> None:
    done = CliRunner().invoke(app, ["a", "--least", "2"])
    assert (done.exit_code, done.stdout) == (1, f"{Options(words=['a'], least=2)}\n")
    assert done.stderr == "hudilab: --least 2 is more than the words; give more words\n"


def test_the_docstring_is_the_help() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert "Count the words." in done.stdout
    assert "Fewest words." in done.stdout


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("sensor_readings", ("--rows", "--table-type", "--run-id", "--runtime", "--database")),
        ("stock_prices", ("--available-now", "--no-fail-on-data-loss", "--rows-per-batch")),
        ("stock_producer", ("--seed", "--wait-seconds")),
        ("load", ("--json", "--run-id")),
        ("stream", ("--check", "--available-now", "--trigger-seconds", "--json", "--run-id")),
    ],
)
def test_a_job_can_be_started_by_its_file(job: str, options: tuple[str, ...]) -> None:
    """As spark-submit does."""
    spec = find_spec(f"hudilab_jobs.{job}")
    assert spec is not None
    done = subprocess.run(
        [sys.executable, str(spec.origin), "--help"],
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [name for name in options if name not in done.stdout] == []
