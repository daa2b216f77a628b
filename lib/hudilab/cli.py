"""The `hudilab` command: argument parsing and exit codes, nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hudilab.config import load_settings
from hudilab.errors import LabError
from hudilab.jars import fetch, read_lock
from hudilab.java import find_java

app = typer.Typer(
    name="hudilab",
    help="Hudi Streaming Lab: check this machine, fetch jars, run notebooks headless.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list instead of lines.")] = False,
) -> None:
    """Check Python, Java, jars, warehouse and a Spark worker; a line a check, with the remedy."""
    from hudilab.doctor import run_checks

    checks = run_checks()
    if as_json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            print(check.line())
    if any(check.required and not check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def jars(
    groups: Annotated[list[str] | None, typer.Argument(help="Groups of jars/jars.lock.")] = None,
) -> None:
    """Fetch and verify the jars of the given groups (core when none is given)."""
    settings = load_settings()
    folder, wanted = settings.project / "jars", groups or ["core"]
    read_lock(folder / "jars.lock")
    java = find_java()
    for path in fetch(folder, wanted, java.home, cache=settings.home / "ivy"):
        print(f"verified {path}")


@app.command()
def run(
    notebooks: Annotated[list[str], typer.Argument(help="Paths, or names in notebooks/.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a notebook parameter."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the executed notebooks and their HTML.")
    ] = None,
) -> None:
    """Run notebooks headless with papermill."""
    from hudilab.runner import run_notebooks

    pairs = [(name, value) for name, _, value in (text.partition("=") for text in parameter or [])]
    for line in run_notebooks(notebooks, pairs, load_settings(), out):
        print(line)


def join_pairs(arguments: list[str]) -> list[str]:
    """`-p NAME VALUE` as `-p NAME=VALUE`: Typer has no option of two values that repeats."""
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument in ("-p", "--parameter"):
            name = next(rest, "")
            joined.append(name if "=" in name else f"{name}={next(rest, '')}")
    return joined


def main() -> None:
    """Run the command; an error of the lab is one line on stderr and exit code 1."""
    try:
        app(args=join_pairs(sys.argv[1:]))
    except LabError as error:
        print(f"hudilab: {error}", file=sys.stderr)
        sys.exit(1)
