"""The `hudilab` command: argument parsing and exit codes, nothing else."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hudilab import __version__
from hudilab.errors import LabError
from hudilab.python_path import take_over_path

try:  # before imports that a module on PYTHONPATH may hide
    take_over_path()
except LabError as error:
    sys.exit(f"hudilab: {error}")

import typer

from hudi_inspect.cli import ABOUT
from hudi_inspect.errors import InspectError
from hudilab_cli import (
    inspect_command,
    progress_command,
    quarantine_command,
    rewind_command,
    savepoint_command,
    sql_command,
    topics_command,
)
from hudilab_cli.missing import install_command
from hudilab_cli.servers import NAMES, SPECS, Name, service
from hudilab_jobs import load, stream, tidy

if TYPE_CHECKING:
    from hudilab.settings import Settings

# The groups of `hudilab --help`.
LESSONS, TABLES, MACHINE, CLUSTER = "Lessons", "Streams and tables", "This machine", "Spark cluster"

app = typer.Typer(
    name="hudilab",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hudilab {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Hudi Streaming Lab: lessons, streams into Hudi tables, and the servers they need."""


def _settings() -> Settings:
    """Load the settings on demand, because this is slow and `hudilab inspect` needs none."""
    from hudilab_jobs.settings import load_settings

    return load_settings()


@app.command(rich_help_panel=MACHINE)
def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list instead of lines.")
    ] = False,
) -> None:
    """Check Python, Java, jars, warehouse and Spark; print one line per check, with the remedy."""
    from hudilab_cli.doctor import run_checks

    checks = run_checks()
    if as_json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            print(check.line())
    if any(check.required and not check.ok for check in checks):
        raise typer.Exit(1)


@app.command(rich_help_panel=MACHINE)
def jars(
    groups: Annotated[list[str] | None, typer.Argument(help="Groups in jars/jars.lock.")] = None,
    archive: Annotated[
        bool, typer.Option(help="Archive the classes of core, so that sessions start faster.")
    ] = True,
) -> None:
    """Fetch and verify the jars of the given groups (default: core)."""
    from hudilab.files import close_home
    from hudilab_spark.fetch import fetch
    from hudilab_spark.preflight import problems

    settings, wanted = _settings(), groups or ["core"]
    folder = settings.project / "jars"
    # This is the last step of the set-up, so check what would keep a session from starting.
    for problem in problems(settings.home):
        print(f"hudilab: {problem}", file=sys.stderr)
    if settings.home.is_dir() and (open_home := close_home(settings.home)):
        print(f"hudilab: {open_home}", file=sys.stderr)
    paths = fetch(folder, wanted)
    for path in paths:
        print(f"verified {path}")
    if archive and "core" in wanted:
        from hudilab_spark.class_archive import make_archive
        from hudilab_spark.java import find_java

        core = [path for path in paths if path.parent.name == "core"]
        if line := make_archive(folder, core, find_java()):
            print(line)


@app.command(rich_help_panel=LESSONS)
def run(
    notebooks: Annotated[
        list[str], typer.Argument(help="Paths, or names or numbers in notebooks/.")
    ],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set a notebook parameter."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the executed notebooks and their HTML.")
    ] = None,
    timeout: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="Time limit per cell; 0: no limit.")
    ] = 3600,
    exercises: Annotated[
        bool, typer.Option("--exercises", help="Also run the exercises and their solutions.")
    ] = False,
) -> None:
    """Run notebooks headless with papermill."""
    from hudilab_spark.environment import take_over_home

    settings = _settings()
    take_over_home(settings.home)  # before Jupyter's modules look for it
    from hudilab_cli.parameters import split_pairs
    from hudilab_cli.runner import run_notebooks

    pairs = split_pairs(parameter or ())
    for line in run_notebooks(notebooks, pairs, settings, out, timeout, exercises):
        print(line)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    rich_help_panel=LESSONS,
)
def lab(
    arguments: Annotated[list[str] | None, typer.Argument(help="Options of JupyterLab.")] = None,
) -> None:
    """Open JupyterLab on copies of the notebooks, like make lab but without a set-up."""
    from hudilab_cli.lab_command import open_lab

    open_lab(_settings().project, arguments or ())


app.command("progress", rich_help_panel=LESSONS)(progress_command.command)
for_tables = partial(app.command, rich_help_panel=TABLES)
for_tables("load")(load.command)
for_tables("stream")(stream.command)
for_tables("sql")(sql_command.command)
for_tables("quarantine")(quarantine_command.command)
for_tables("tidy")(tidy.command)
for_tables("savepoint")(savepoint_command.command)
for_tables("rewind")(rewind_command.command)
for_tables("topics")(topics_command.command)
for_tables("inspect", help=ABOUT)(inspect_command.command)


@app.command(rich_help_panel=CLUSTER)
def bundle(
    out: Annotated[
        Path | None, typer.Option(help="Zip file to write; default: dist/hudilab-bundle.zip.")
    ] = None,
) -> None:
    """Build a zip to deploy with spark-submit: one jar, the package, and the settings."""
    from hudilab_cli.bundle import build_bundle

    print(build_bundle(_settings(), out))


services = typer.Typer(help="Start, show and stop servers on this machine.", no_args_is_help=True)
app.add_typer(services, name="services", rich_help_panel=MACHINE)
start = typer.Typer(help="Start a server and wait until it answers.", no_args_is_help=True)
services.add_typer(start, name="start")


@services.command()
def status(
    name: Annotated[Name | None, typer.Argument(help="Show only this server.")] = None,
) -> None:
    """Show which servers are running; exit code 1 if none is."""
    settings = _settings()
    servers = {each: service(each).find(settings) for each in ([name] if name else NAMES)}
    for each, server in servers.items():
        print(server.describe() if server else f"{each} is not running")
    if not any(servers.values()):
        raise typer.Exit(1)


@services.command()
def stop(name: Name) -> None:
    """Stop a server; its data is kept."""
    pid = service(name).stop(_settings())
    print(f"{name} was not running" if pid is None else f"{name} stopped, process {pid}")


def _port(name: Name) -> Any:
    """Return the option of a command that starts a server; 0 is its default."""
    port = SPECS[name].port
    return typer.Option(min=0, max=65535, help=f"Port; 0 picks {port} or a free one.")


@start.command("kafka")
def start_kafka(
    port: Annotated[int, _port("kafka")] = 0,
    user: Annotated[
        str, typer.Option(help="Require TLS and add this user; password: KAFKA_PASSWORD[_FILE].")
    ] = "",
) -> None:
    """Start a Kafka broker and create the topics named in the settings."""
    from hudilab_cli.servers.kafka import command

    command(port, user)


@start.command("s3")
def start_s3(port: Annotated[int, _port("s3")] = 0) -> None:
    """Start an S3 server with its own keys and bucket."""
    from hudilab_cli.servers.s3 import command

    command(port)


@start.command("cluster")
def start_cluster(
    port: Annotated[int, _port("cluster")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores per worker.")] = 2,
    memory: Annotated[str, typer.Option(help="Memory per worker: 512m, 2g.")] = "2g",
) -> None:
    """Start a Spark standalone cluster."""
    from hudilab_cli.servers.cluster import command

    command(port, workers, cores, memory)


@start.command("history")
def start_history(
    port: Annotated[int, _port("history")] = 0,
    events: Annotated[str, typer.Option(help="Folder of event logs; default: the lab's own.")] = "",
) -> None:
    """Start Spark's history server, which shows finished applications."""
    from hudilab_cli.servers.history import command

    command(port, events)


@start.command("metastore")
def start_metastore(port: Annotated[int, _port("metastore")] = 0) -> None:
    """Start a Hive metastore, which registers the tables for other programs."""
    from hudilab_cli.servers.metastore import command

    command(port)


@start.command("database")
def start_database(port: Annotated[int, _port("database")] = 0) -> None:
    """Start PostgreSQL with a database for change data capture."""
    from hudilab_cli.servers.database import command

    command(port)


@start.command("connect")
def start_connect(port: Annotated[int, _port("connect")] = 0) -> None:
    """Start Kafka Connect, which sends a database's changes to Kafka with Debezium."""
    from hudilab_cli.servers.connect import command

    command(port)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    rich_help_panel=CLUSTER,
)
def submit(
    job: Annotated[str, typer.Argument(help="A job of the lab, or a Python file.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the job.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return as soon as the application has started.")
    ] = False,
    bundle: Annotated[
        Path | None, typer.Option(help="Run the code and jar of this zip, built by make bundle.")
    ] = None,
) -> None:
    """Run a job with spark-submit on the settings' runtime: this machine or a cluster."""
    from hudilab_cli.submit import submit, submit_and_wait

    settings = _settings()
    if not detach:
        raise typer.Exit(submit_and_wait(settings, job, arguments or (), bundle))
    submitted = submit(settings, job, arguments or (), bundle)
    name = submitted.id or f"{job} is running without an application id so far"
    print(f"{name}, driver's process {submitted.pid}, log {submitted.log}")


@app.command(rich_help_panel=CLUSTER)
def apps() -> None:
    """List the cluster's running and finished applications and drivers, newest first."""
    from hudilab_cli.applications import application_rows
    from hudilab_cli.submit import master_of

    master = master_of(_settings())
    rows = application_rows(master)
    print("none" if rows.empty else rows.to_string(index=False))


@app.command(rich_help_panel=CLUSTER)
def kill(
    id: Annotated[str, typer.Argument(help="Application or driver ID, as shown by hudilab apps.")],
) -> None:
    """Kill an application and wait until its driver has ended."""
    from hudilab_cli.applications import kill
    from hudilab_cli.submit import master_of

    settings = _settings()
    print(f"{id} has ended, its state is {kill(master_of(settings), id, settings.home)}")


def join_pairs(arguments: list[str]) -> list[str]:
    """Rewrite `-p NAME VALUE` as `-p NAME=VALUE`, because Typer can't repeat two-value options."""
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument in ("-p", "--parameter"):
            name, value = next(rest, ""), None
            if "=" not in name:
                value = next(rest, None)
            joined.append(name if value is None else f"{name}={value}")
    return joined


def main() -> None:
    """Run the command; print an error of the lab as a line on stderr, and exit with code 1.

    A package that a light installation lacks is such an error, too.
    """
    words = sys.argv[1:]
    try:
        app(args=join_pairs(words) if words[:1] == ["run"] else words, prog_name="hudilab")
    except (LabError, InspectError) as error:
        remedy = error.remedy.replace("hudi-inspect ", "hudilab inspect ")
        print(f"hudilab: {LabError(error.problem, remedy)}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if (error.name or "hudilab").partition(".")[0] == "hudilab":
            raise
        module = (error.name or "").partition(".")[0]
        print(
            f"hudilab: {words[0]} needs {module}, which is not installed; install it with: "
            f"{install_command()}",
            file=sys.stderr,
        )
        sys.exit(1)
