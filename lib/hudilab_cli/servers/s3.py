"""Run S3Proxy, an S3 server that keeps objects as plain files, from the jars of group `s3proxy`."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import MutableMapping, Sequence
from configparser import ConfigParser
from configparser import Error as ParseError
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from hudilab.errors import ServiceError
from hudilab.files import properties, write_private
from hudilab.settings import Settings, load_settings
from hudilab_cli.servers import process
from hudilab_cli.servers.folder import check_disk
from hudilab_jobs import server_locks
from hudilab_spark.jars import verify
from hudilab_spark.java import complaint

NAME, HOST = "s3", process.HOST
BUCKET = PROFILE = "hudilab"
USUAL_PORT = 9000
LEAST_FREE = 100_000_000  # bytes
# These override a profile's keys, and belong to another server.
_OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True)
class S3Server:
    """A running S3 server; `credentials` is the file with its keys."""

    endpoint: str
    pid: int
    log: Path
    credentials: Path

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return self.endpoint

    def describe(self) -> str:
        """Return one line: where it listens and logs."""
        return f"s3 at {self.endpoint}, bucket {BUCKET}, process {self.pid}, log {self.log}"

    def env(self) -> dict[str, str]:
        """Return the AWS variables that point S3 clients here; the key file has mode 0600."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials),
            "AWS_PROFILE": PROFILE,
        }

    def use(self, env: MutableMapping[str, str] = os.environ) -> None:
        """Point this process's S3 clients here, and drop any other keys."""
        for name in _OTHER_KEYS:
            env.pop(name, None)
        env.update(self.env())


def start_s3(settings: Settings, *, port: int = 0) -> S3Server:
    """Start a server, or return the running one, once it answers a request.

    Its data is kept in `<home>/services/s3`. The first start creates keys and bucket `hudilab`.
    Port 0 tries the last port used, then 9000, then any free port.

    Raises:
        ServiceError: the port is in use, the disk is full, the server is not ready in time, or the
            running one has another port.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """
    folder = settings.home / "services" / NAME

    def begin() -> None:
        jars = verify(settings.project / "jars", ["s3proxy"])
        check_disk(folder / "data", "the objects of S3", LEAST_FREE)
        address = f"http://{HOST}:{process.choose_port(port, _last_port(folder), USUAL_PORT)}"
        server = process.launch(folder, _command(folder, jars, address), folder / "s3.log")
        _wait(server, address, folder)

    return process.start(folder, port, lambda: find_s3(settings), begin)


def running_s3(settings: Settings, *, port: int = 0) -> AbstractContextManager[S3Server]:
    """Run a server for a `with` block; one that was running before keeps running."""
    return process.running(settings, find_s3, partial(start_s3, port=port), stop_s3)


def find_s3(settings: Settings) -> S3Server | None:
    """Return the server that runs on this home's data, or None."""
    folder = settings.home / "services" / NAME
    found = server_locks.find(folder)
    if found is None:
        return None
    address = f"http://{HOST}:{_last_port(folder)}"
    return S3Server(address, found.pid, folder / "s3.log", folder / "credentials")


def stop_s3(settings: Settings) -> int | None:
    """Stop the server cleanly, keeping its data; return its process id, or None if none ran."""
    return process.stop(settings.home / "services" / NAME)


def serve(settings: Settings, address: str) -> NoReturn:
    """Replace this process with the server at a URL, on the same data and keys.

    Raises:
        ServiceError: the disk is full.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """
    folder = settings.home / "services" / NAME
    jars = verify(settings.project / "jars", ["s3proxy"])
    check_disk(folder / "data" / BUCKET, "the objects of S3", LEAST_FREE)
    command = _command(folder, jars, address)
    os.chdir(folder)  # as for a launched server: file names are relative to it
    os.execv(command[0], command)


def _command(folder: Path, jars: Sequence[Path], address: str) -> list[str]:
    """Return the server's command, and write the files that it reads."""
    _write_logging(folder)
    _write_properties(folder, address)
    # Relative to the server's folder: no path can clash with Java's syntax for lists and URLs.
    run = "-Dlogback.configurationFile=logback.xml", "org.gaul.s3proxy.Main"
    return [*process.java_command(jars), *run, "--properties", "s3proxy.conf"]


def _last_port(folder: Path) -> int:
    file = folder / "s3proxy.conf"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = re.search(r"(?m)^s3proxy\.endpoint=http://[\d.]+:(\d+)$", text)
    return int(found[1]) if found else 0


def _keys(folder: Path) -> tuple[str, str]:
    """Return access key and secret key; create the credentials file if it is missing."""
    file = folder / "credentials"
    if not file.exists():
        write_private(
            file,
            f"[{PROFILE}]\n"
            f"aws_access_key_id = {secrets.token_hex(10).upper()}\n"
            f"aws_secret_access_key = {secrets.token_hex(20)}\n",
        )
    parser = ConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
        section = parser[PROFILE]
        return section["aws_access_key_id"], section["aws_secret_access_key"]
    except OSError as error:
        raise ServiceError(
            f"{file} cannot be read ({error.strerror})", "make it readable, then start again"
        ) from None
    except (UnicodeDecodeError, ParseError, KeyError):
        raise ServiceError(
            f"{file} does not contain the keys of profile {PROFILE}",
            "delete it, and the next start creates new ones",
        ) from None


def _write_properties(folder: Path, address: str) -> None:
    access, secret = _keys(folder)
    lines = {
        "s3proxy.endpoint": address,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": access,
        "s3proxy.credential": secret,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "data"),
    }
    write_private(folder / "s3proxy.conf", properties(lines))


def _write_logging(folder: Path) -> None:
    """Write a logback file: the default logs every request, which takes longer than serving it."""
    pattern = "%date{ISO8601} %level %message \\(%logger{0}\\)%n"
    (folder / "logback.xml").write_text(
        '<configuration><appender name="log" class="ch.qos.logback.core.ConsoleAppender">'
        f"<encoder><pattern>{pattern}</pattern></encoder></appender>"
        '<root level="warn"><appender-ref ref="log"/></root></configuration>\n',
        encoding="utf-8",
    )


def _wait(
    server: process.Launched, address: str, folder: Path, patience: float = process.PATIENCE
) -> None:
    """Wait until the server lists its buckets; create ours if it is missing."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    access, secret = _keys(folder)
    haste = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1})
    # Use nothing from the environment: its profile, keys and region may be for other servers.
    client: Any = get_session({"profile": (None, None, None, None)}).create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=address,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=haste,
    )

    def answers() -> bool:
        if not process.in_use(process.port_of(address)):
            return False
        try:
            if BUCKET not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            return True
        except (BotoCoreError, ClientError):  # not ready yet
            return False

    what = f"S3Proxy did not answer at {address}"
    process.wait_until(answers, [server], why=_why, what=what, patience=patience)


def _why(text: str, code: int, log: Path) -> str:
    if "Failed to bind" in text:
        return f"another program took the S3 server's port; start again (log: {log})"
    return f"S3Proxy exited with code {code}: {complaint(text)}; see {log}"


def command(port: Annotated[int, process.port_option(USUAL_PORT)] = 0) -> None:
    """Start an S3 server with its own keys and bucket."""
    server = start_s3(load_settings(), port=port)
    print(server.describe())
    print("export", *(f"{key}={shlex.quote(value)}" for key, value in server.env().items()))


SERVICE = process.Service(command, find_s3, stop_s3)
