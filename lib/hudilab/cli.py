"""The `hudilab` command: argument parsing and exit codes, nothing else."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hudilab.config import load_settings
from hudilab.errors import LabError
from hudilab.jars import fetch, read_lock
from hudilab.java import find_java

PARTITIONS = 3  # of each topic

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


services = typer.Typer(help="Servers on this machine: start, status, stop.", no_args_is_help=True)
app.add_typer(services, name="services")


class Service(StrEnum):
    """The servers that the lab can run."""

    kafka = "kafka"


@services.command()
def start(
    name: Service,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, 9092 first.")] = 0,
    user: Annotated[
        str, typer.Option(help="Ask for TLS and this user; password: KAFKA_PASSWORD[_FILE].")
    ] = "",
) -> None:
    """Start a server, wait until it answers, and create the settings' topics."""
    from hudilab.kafka import Access, create_topics, password
    from hudilab.services.kafka import start_broker

    settings = load_settings()
    secret = password(os.environ) if user else None
    broker = start_broker(settings, port=port, users={user: secret} if secret else None)
    print(broker.describe())
    ca = str(broker.ca) if broker.ca else None
    client = Access(broker.bootstrap, "SASL_SSL" if ca else "PLAINTEXT", user, secret, ca)
    topics = [group.topic_name for group in (settings.consumer, settings.producer) if group]
    topics += [settings.producer.dead_letter_topic_name] if settings.producer else []
    create_topics(client, dict.fromkeys(topics, PARTITIONS))
    print(f"topics: {', '.join(topics) or 'none'}; export BOOTSTRAP_SERVERS={broker.bootstrap}")


@services.command()
def status() -> None:
    """What runs, a line each; exit code 1 when nothing does."""
    from hudilab.services.kafka import find_broker

    broker = find_broker(load_settings())
    print(broker.describe() if broker else f"{Service.kafka} is not running")
    if broker is None:
        raise typer.Exit(1)


@services.command()
def stop(name: Service) -> None:
    """Stop a server; its data stay."""
    from hudilab.services.kafka import stop_broker

    pid = stop_broker(load_settings())
    print(f"{name} was not running" if pid is None else f"{name} stopped, process {pid}")


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
