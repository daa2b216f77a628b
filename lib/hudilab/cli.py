"""The `hudilab` command: argument parsing and exit codes, nothing else."""

from __future__ import annotations

import json
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hudilab.config import load_settings
from hudilab.errors import LabError
from hudilab.jars import fetch, read_lock
from hudilab.java import find_java

PARTITIONS = 3  # per topic

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
    timeout: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="For each cell; 0: no limit.")
    ] = 3600,
) -> None:
    """Run notebooks headless with papermill."""
    from hudilab.runner import run_notebooks

    pairs = [(name, value) for name, _, value in (text.partition("=") for text in parameter or [])]
    for line in run_notebooks(notebooks, pairs, load_settings(), out, timeout):
        print(line)


@app.command()
def bundle(
    out: Annotated[
        Path | None, typer.Option(help="The zip to write; dist/hudilab-bundle.zip when not given.")
    ] = None,
) -> None:
    """Build what spark-submit needs elsewhere: one jar, the package, settings, in one zip."""
    from hudilab.bundle import build_bundle

    print(build_bundle(load_settings(), out))


deploy = typer.Typer(
    help="JSON for the AWS CLI: a job run of EMR Serverless, and its role.", no_args_is_help=True
)
app.add_typer(deploy, name="deploy")
_To = Annotated[str, typer.Option(help="Where the bundle is: s3://bucket/prefix.")]
_Account = Annotated[str, typer.Option(help="The account's twelve digits.")]


@deploy.command("job")
def deploy_job(
    application_id: Annotated[str, typer.Option(help="Of the EMR Serverless application.")],
    role_arn: Annotated[str, typer.Option(help="Of the job's role.")],
    to: _To,
    python: Annotated[
        str, typer.Option(help="Python 3.11: a path in the image, or s3://.../name.tar.gz.")
    ] = "/usr/bin/python3.11",
) -> None:
    """The request StartJobRun, made of the settings for AWS."""
    from hudilab.deploy import job_run

    _print(
        job_run(
            load_settings("AWS"),
            application_id=application_id,
            role_arn=role_arn,
            to=to,
            python=python,
        )
    )


@deploy.command("permissions")
def deploy_permissions(
    account: _Account,
    to: _To,
    cluster_arn: Annotated[str, typer.Option(help="Of the MSK cluster, where there is one.")] = "",
) -> None:
    """The policy of the job's role: no more than the job needs."""
    from hudilab.deploy import permissions

    settings = load_settings("AWS")
    _print(permissions(settings, account=account, to=to, cluster_arn=cluster_arn))


@deploy.command("trust")
def deploy_trust(account: _Account) -> None:
    """The role's trust policy: EMR Serverless may take it."""
    from hudilab.deploy import trust

    _print(trust(account=account))


def _print(value: object) -> None:
    print(json.dumps(value, indent=2))


services = typer.Typer(help="Servers on this machine: start, status, stop.", no_args_is_help=True)
app.add_typer(services, name="services")


start = typer.Typer(help="Start a server, and wait until it answers.", no_args_is_help=True)
services.add_typer(start, name="start")


class Service(StrEnum):
    """The servers that the lab can run."""

    kafka = "kafka"
    s3 = "s3"
    cluster = "cluster"
    history = "history"


@start.command("kafka")
def start_kafka(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, 9092 first.")] = 0,
    user: Annotated[
        str, typer.Option(help="Ask for TLS and this user; password: KAFKA_PASSWORD[_FILE].")
    ] = "",
) -> None:
    """Start a Kafka broker, and create the settings' topics."""
    from hudilab.kafka import create_topics, password
    from hudilab.services.kafka import start_broker

    settings = load_settings()
    secret = password(os.environ) if user else None
    broker = start_broker(settings, port=port, users={user: secret} if secret else None)
    print(broker.describe())
    client = broker.access()
    topics = [group.topic_name for group in (settings.consumer, settings.producer) if group]
    topics += [settings.producer.dead_letter_topic_name] if settings.producer else []
    create_topics(client, dict.fromkeys(topics, PARTITIONS))
    print(f"topics: {', '.join(topics) or 'none'}; export BOOTSTRAP_SERVERS={broker.bootstrap}")
    tools = f"--bootstrap-server {client.servers} --command-config"
    print(f"Kafka's own tools: {tools} {shlex.quote(str(broker.client_file))}")


@start.command("s3")
def start_s3_server(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, 9000 first.")] = 0,
) -> None:
    """Start an S3 server, with keys and a bucket of its own."""
    from hudilab.services.s3 import start_s3

    server = start_s3(load_settings(), port=port)
    print(server.describe())
    print("export", *(f"{key}={shlex.quote(value)}" for key, value in server.env().items()))


@start.command("cluster")
def start_spark_cluster(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, 7077 first.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="How many.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Of each worker.")] = 2,
    memory: Annotated[str, typer.Option(help="Of each worker: 512m, 2g.")] = "2g",
) -> None:
    """Start a Spark standalone cluster."""
    from hudilab.services.cluster import start_cluster

    found = start_cluster(load_settings(), workers=workers, cores=cores, memory=memory, port=port)
    print(found.describe())
    print(f"export RUNTIME_ENV=DOCKER SPARK_MASTER_URL={found.master}")


@start.command("history")
def start_history_server(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, 18080 first.")] = 0,
    events: Annotated[str, typer.Option(help="Folder of event logs; else the lab's own.")] = "",
) -> None:
    """Start Spark's history server, for applications that have ended."""
    from hudilab.services.history import start_history

    print(start_history(load_settings(), events, port=port).describe())


@services.command()
def status(
    name: Annotated[Service | None, typer.Argument(help="One of them only.")] = None,
) -> None:
    """What runs, a line each; exit code 1 when nothing does."""
    from hudilab.services.cluster import find_cluster
    from hudilab.services.history import find_history
    from hudilab.services.kafka import find_broker
    from hudilab.services.s3 import find_s3

    settings = load_settings()
    found = {
        Service.kafka: find_broker(settings),
        Service.s3: find_s3(settings),
        Service.cluster: find_cluster(settings),
        Service.history: find_history(settings),
    }
    found = {name: found[name]} if name else found
    for one, server in found.items():
        print(server.describe() if server else f"{one} is not running")
    if not any(found.values()):
        raise typer.Exit(1)


@services.command()
def stop(name: Service) -> None:
    """Stop a server; its data stay."""
    from hudilab.services import process
    from hudilab.services.cluster import stop_cluster

    settings = load_settings()
    if name is Service.cluster:
        pid = stop_cluster(settings)
    else:
        pid = process.stop(settings.home / "services" / name)
    print(f"{name} was not running" if pid is None else f"{name} stopped, process {pid}")


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def submit(
    job: Annotated[str, typer.Argument(help="A pipeline of the lab, or a Python file.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="The job's own.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when the application has started.")
    ] = False,
    bundle: Annotated[
        Path | None, typer.Option(help="Its code and jar, not this folder's: make bundle.")
    ] = None,
) -> None:
    """Run a job with spark-submit where the settings say: on this machine, or on a cluster."""
    from hudilab.submit import submit, submit_and_wait

    settings = load_settings()
    if not detach:
        raise typer.Exit(submit_and_wait(settings, job, arguments or (), bundle))
    found = submit(settings, job, arguments or (), bundle)
    name = found.id or f"{job} runs, its application is not known yet"
    print(f"{name}, driver's process {found.pid}, log {found.log}")


@app.command()
def apps() -> None:
    """The cluster's running and finished applications and drivers, the newest first."""
    from hudilab.master import application_rows
    from hudilab.submit import master_of

    master = master_of(load_settings())
    rows = application_rows(master)
    print("none" if rows.empty else rows.to_string(index=False))


@app.command()
def kill(id: Annotated[str, typer.Argument(help="As hudilab apps shows it.")]) -> None:
    """End an application, and wait until its driver is gone."""
    from hudilab.master import kill
    from hudilab.submit import master_of

    settings = load_settings()
    print(f"{id} has ended, its state is {kill(master_of(settings), id, settings.home)}")


def join_pairs(arguments: list[str]) -> list[str]:
    """Rewrite `-p NAME VALUE` as `-p NAME=VALUE`: Typer cannot repeat an option with two values."""
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument in ("-p", "--parameter"):
            name = next(rest, "")
            joined.append(name if "=" in name else f"{name}={next(rest, '')}")
    return joined


def main() -> None:
    """Run the command; print a LabError as one line on stderr, and exit with code 1."""
    try:
        words = sys.argv[1:]
        app(args=join_pairs(words) if words[:1] == ["run"] else words)
    except LabError as error:
        print(f"hudilab: {error}", file=sys.stderr)
        sys.exit(1)
