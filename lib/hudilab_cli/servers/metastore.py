"""Run Apache Hive's metastore on loopback, from pyspark's own jars: a catalog of tables by name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from hudi_sink.metastore import SCHEME, trouble
from hudilab.groups import METASTORE_GROUP
from hudilab.settings import Settings, load_settings
from hudilab_cli.servers import process
from hudilab_cli.servers.folder import check_disk
from hudilab_cli.servers.spark import LOGGING
from hudilab_jobs import server_locks
from hudilab_spark.java import spark_home

NAME, HOST = "metastore", process.HOST
USUAL_PORT = 9083
LEAST_FREE = 50_000_000  # bytes; a new database has 5 MB
PROGRAM = Path(__file__).with_suffix(".java")
_why = partial(process.why_ended, "the metastore", "the metastore's port")
# Of Spark's jars, those that Hive's metastore needs: with all of them it starts more slowly.
JARS = (
    *("antlr-runtime", "bonecp", "commons-", "datanucleus-", "derby-", "guava", "hadoop-client-"),
    *("hive-", "HikariCP", "jackson-", "jakarta.servlet", "janino", "javax.jdo", "jcl-", "jdo-"),
    *("libfb303", "libthrift", "log4j-", "slf4j-", "transaction-api"),
)
# These jars come with a package whose hash is pinned: Java need not verify their classes again,
# which is a fifth of the start.
TRUSTED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
# Thrift's server logs each client that just hangs up, with a stack trace.
QUIET = """logger.thrift.name = org.apache.thrift.server.TThreadPoolServer
logger.thrift.level = off
"""


@dataclass(frozen=True)
class Metastore:
    """A running metastore; `uri` is what clients take: thrift://host:port."""

    uri: str
    pid: int
    log: Path

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return self.uri

    def describe(self) -> str:
        """Return one line: where it listens and logs."""
        return f"metastore at {self.uri}, process {self.pid}, log {self.log}"


def start_metastore(settings: Settings, *, port: int = 0) -> Metastore:
    """Start a metastore, or return the running one, once it answers a request.

    Its database, an embedded Derby, is kept in `<home>/services/metastore`. Port 0 tries the last
    port used, then 9083, then any free port.

    Raises:
        ServiceError: the port is in use, the disk is full, the server is not ready in time, or the
            running one has another port.
        JavaError: no suitable Java is found.
    """
    folder = settings.home / "services" / NAME

    def begin() -> None:
        check_disk(folder, "the metastore's database", LEAST_FREE)
        number = process.choose_port(port, _last_port(folder), USUAL_PORT)
        (folder / "port").write_text(str(number), encoding="utf-8")
        log = folder / "metastore.log"
        _wait(process.launch(folder, _command(folder, number), log), number)

    return process.start(folder, port, lambda: find_metastore(settings), begin)


def find_metastore(settings: Settings) -> Metastore | None:
    """Return the metastore that runs in this home, or None."""
    folder = settings.home / "services" / NAME
    found = server_locks.find(folder)
    if found is None:
        return None
    return Metastore(f"{SCHEME}{HOST}:{_last_port(folder)}", found.pid, folder / "metastore.log")


def stop_metastore(settings: Settings) -> int | None:
    """Stop the metastore, keeping its database; return its process id, or None if none ran."""
    return process.stop(settings.home / "services" / NAME)


def _last_port(folder: Path) -> int:
    file = folder / "port"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return int(text) if text.isdecimal() else 0


def _command(folder: Path, port: int) -> list[str]:
    """Return the server's command, and write the files that it reads."""
    (folder / "log4j2.properties").write_text(LOGGING + QUIET, encoding="utf-8")
    shutil.copyfile(PROGRAM, folder / PROGRAM.name)
    jars = (jar for jar in sorted((spark_home() / "jars").iterdir()) if jar.name.startswith(JARS))
    # File names are relative to the folder, where the server runs: no path can clash with the
    # syntax of Derby's and log4j2's URLs.
    options = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=data;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{folder}/warehouse",
        "java.net.preferIPv4Stack": "true",
        "derby.stream.error.file": "derby.log",
        "log4j2.configurationFile": "log4j2.properties",
    }
    return [
        *process.java_command(jars, *TRUSTED),
        *(f"-D{name}={value}" for name, value in options.items()),
        "org.codehaus.commons.compiler.samples.ClassBodyDemo",
        *(f"@{PROGRAM.name}", str(port)),
    ]


def _wait(server: process.Launched, port: int, patience: float = process.PATIENCE) -> None:
    uri = f"{SCHEME}{HOST}:{port}"
    what = f"the metastore did not answer at {uri}"
    process.wait_until(lambda: not trouble(uri), [server], why=_why, what=what, patience=patience)


def command(port: Annotated[int, process.port_option(USUAL_PORT)] = 0) -> None:
    """Start a Hive metastore, in which other programs find the tables by name."""
    server = start_metastore(load_settings(), port=port)
    print(server.describe())
    print(f'group {METASTORE_GROUP!r} of the settings: "uri": "{server.uri}"')


SERVICE = process.Service(command, find_metastore, stop_metastore)
