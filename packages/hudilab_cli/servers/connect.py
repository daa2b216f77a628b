"""Run Kafka Connect with Debezium's connector for PostgreSQL, from the jars of group `connect`."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from hudilab.errors import ServiceError
from hudilab.files import write_private
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.kafka import find_broker
from hudilab_cli.servers.process import HOST
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import open_directly
from hudilab_spark.fetch import fetch
from hudilab_spark.jars import problem, wanted
from hudilab_spark.server_records import read_record

USER = "hudilab"
_LOGIN = (
    "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule "
    'required file="users.properties"; };\n'
)
# Prefixes of the worker's own clients and of those that it starts for connectors.
_CLIENTS = ("", "producer.", "consumer.", "admin.")


class Connect(process.Server):
    """A running worker of Kafka Connect."""

    name = "connect"

    @property
    def netrc(self) -> Path:
        """Return the file with the login of the REST API, for `curl --netrc-file`; mode 0600."""
        return self.folder / "netrc"

    def describe(self) -> str:
        """Return a line with address, broker and log."""
        where = f"Kafka {self.about['broker']}, process {self.pid}, log {self.log}"
        return (
            f"connect at {self.address} (curl --netrc-file {shlex.quote(str(self.netrc))}), {where}"
        )

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the parsed answer of the REST API.

        Raises:
            HTTPError: the worker refuses the request.
            OSError: the worker does not answer.
        """
        return _request(self.address, str(self.about["password"]), method, path, body)

    def status(self, name: str) -> dict[str, Any] | None:
        """Return the states of a connector and its tasks, with traces; None if it is unknown."""
        try:
            return dict(self.request("GET", f"/connectors/{quote(name, safe='')}/status"))
        except HTTPError as error:
            if error.code != 404:
                raise
            return None


def start_connect(settings: Settings, *, port: int = 0) -> Connect:
    """Start a worker, or return the running one, once its REST API answers.

    Connectors and offsets are kept in topics of the lab's broker. The first start fetches the jars.
    Port 0 tries the last port used, then 8083, then any free port.

    Raises:
        ServiceError: the lab's broker does not run, the port is in use, the worker is not ready in
            time, or the running one has another port or broker.
        JarError: a jar cannot be fetched.
        JavaError: no suitable Java is found.
    """
    broker = find_broker(settings)
    if broker is None:
        raise ServiceError(
            "Kafka, which stores Connect's connectors and offsets, is not running",
            "start it with: hudilab services start kafka",
        )
    access = broker.access()

    def prepare(folder: Path) -> process.Launch:
        jars = _jars(settings)
        address = f"http://{HOST}:{process.server_port(settings, 'connect', port)}"
        secret = read_record(settings.home, "connect").get("password") or token_hex(20)
        _write_settings(settings, folder, address, secret, access)
        # Relative file names, because a path could clash with Java's own syntax.
        flags = ["-Dlog4j2.configurationFile=log4j2.properties"]
        flags += ["-Djava.security.auth.login.config=jaas.conf"]
        main = ("org.apache.kafka.connect.cli.ConnectDistributed", "worker.properties")
        command = [*process.java_command(jars, *flags), *main]
        about = {"password": secret, "broker": access.servers}
        return process.Launch(command, address, _answers(address, secret), about=about)

    def fits(running: Connect) -> bool:
        return bool(running.about["broker"] == access.servers)

    return process.start(settings, Connect, port, prepare, fits)


def find_connect(settings: Settings) -> Connect | None:
    """Return this home's running worker, or None."""
    return process.find(settings, Connect)


def stop_connect(settings: Settings) -> int | None:
    """Stop the worker; its connectors resume at the next start. Return its process id, or None."""
    return process.stop(settings, "connect")


def _jars(settings: Settings) -> list[Path]:
    """Fetch missing jars, and return all jars."""
    folder = settings.project / "jars"
    missing = [jar for jar in wanted(folder, ["connect"]) if problem(folder, jar)]
    if missing:
        print(f"Kafka Connect and Debezium: {len(missing)} jars to download, at most 42 MB")
    return fetch(folder, ["connect"], say=lambda _: None)


def _write_settings(
    settings: Settings, folder: Path, address: str, secret: str, access: Access
) -> None:
    """Write the worker's files, which contain a password except for the log's settings."""
    lines = process.render(settings, "connect.properties", port=process.port_of(address))
    login = {name.removeprefix("kafka."): text for name, text in access.spark_options().items()}
    for client in _CLIENTS:
        lines |= {f"{client}{name}": text for name, text in login.items()}
    process.write_settings(folder / "worker.properties", lines)
    process.write_settings(folder / "users.properties", {USER: secret})
    write_private(folder / "jaas.conf", _LOGIN)
    write_private(folder / "netrc", f"machine {HOST} login {USER} password {secret}\n")
    process.copy_settings(settings, "log4j2.properties", folder)


def _request(address: str, secret: str, method: str, path: str, body: object = None) -> Any:
    token = base64.b64encode(f"{USER}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{address}{path}", data, headers, method=method)
    with open_directly(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def _answers(address: str, secret: str) -> Callable[[], bool]:
    """Return a check that lists the connectors, which succeeds once the worker is ready."""

    def answers() -> bool:
        try:
            return isinstance(_request(address, secret, "GET", "/connectors"), list)
        except (OSError, ValueError):  # not ready yet
            return False

    return answers


def command(port: int) -> None:
    """Start Kafka Connect with Debezium's connector for PostgreSQL."""
    connect = start_connect(load_settings(), port=port)
    print(connect.describe())
    print(
        "next, in Python: from hudilab_cli.servers.connectors import register; "
        'register(load_settings(), {"table.include.list": "public.orders"})'
    )


SERVICE = process.Service(start_connect, find_connect, stop_connect)
