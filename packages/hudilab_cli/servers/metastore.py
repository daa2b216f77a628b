"""Run Apache Hive's metastore on loopback from pyspark's own jars."""

from __future__ import annotations

import shutil
from pathlib import Path

from hudi_sink.metastore import SCHEME, trouble
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_jobs.settings import load_settings
from hudilab_spark.conf import METASTORE_GROUP
from hudilab_spark.java import spark_home
from hudilab_spark.server_records import running_process

PROGRAM = Path(__file__).with_name("Metastore.java")
# The metastore's own part of Spark's jars; with all jars, it starts more slowly.
JARS = (
    *("antlr-runtime", "bonecp", "commons-", "datanucleus-", "derby-", "guava", "hadoop-client-"),
    *("hive-", "HikariCP", "jackson-", "jakarta.servlet", "janino", "javax.jdo", "jcl-", "jdo-"),
    *("libfb303", "libthrift", "log4j-", "slf4j-", "transaction-api"),
)
# The hash of the jars' package is pinned, so Java needn't verify their classes, which takes a fifth
# of the start.
TRUSTED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


class Metastore(process.Server):
    """A running metastore."""

    name = "metastore"

    def stop(self) -> None:
        """Stop it and keep its database."""
        process.end(running_process(self.about))


def start_metastore(settings: Settings, *, port: int = 0) -> Metastore:
    """Start a metastore, or return the running one, once it answers a request.

    Its embedded Derby database is in `<home>/services/metastore`. Port 0 tries the last port, then
    9083, then any free port.

    Raises:
        ServiceError: the port is in use, the disk is full, the server is not ready in time, or the
            running one has another port.
        JavaError: no suitable Java is found.
    """

    def prepare(folder: Path) -> process.Launch:
        process.check_disk(settings, "metastore", folder)
        number = process.server_port(settings, "metastore", port)
        uri = f"{SCHEME}{process.HOST}:{number}"
        return process.Launch(_command(settings, folder, number), uri, lambda: not trouble(uri))

    return process.start(settings, Metastore, port, prepare)


def find_metastore(settings: Settings) -> Metastore | None:
    """Return this home's running metastore, or None."""
    return process.find(settings, Metastore)


def stop_metastore(settings: Settings) -> int | None:
    """Stop the metastore and keep its database; return its process id, or None if none ran."""
    return process.stop(settings, "metastore")


def _command(settings: Settings, folder: Path, port: int) -> list[str]:
    """Write the server's files, and return its command."""
    process.copy_settings(settings, "log4j2.properties", folder)
    shutil.copyfile(PROGRAM, folder / PROGRAM.name)
    jars = (jar for jar in sorted((spark_home() / "jars").iterdir()) if jar.name.startswith(JARS))
    options = process.render(settings, "metastore.properties", folder=folder)
    return [
        *process.java_command(jars, *TRUSTED),
        *(f"-D{name}={value}" for name, value in options.items()),
        # The Java runtime that the lab installs contains no compiler.
        *("org.codehaus.janino.SimpleCompiler", PROGRAM.name, PROGRAM.stem, str(port)),
    ]


def command(port: int) -> None:
    """Start a Hive metastore, which registers the tables for other programs."""
    server = start_metastore(load_settings(), port=port)
    print(server.describe())
    print(f'group {METASTORE_GROUP!r} of the settings: "uri": "{server.address}"')


SERVICE = process.Service(start_metastore, find_metastore, stop_metastore)
