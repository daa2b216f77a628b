"""Run S3Proxy, an S3 server that stores objects as files, from the jars of group `s3proxy`."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Callable, MutableMapping, Sequence
from configparser import ConfigParser
from configparser import Error as ParseError
from pathlib import Path
from typing import Any, NoReturn

from hudilab.errors import ServiceError
from hudilab.files import write_private
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.process import HOST
from hudilab_jobs.settings import load_settings
from hudilab_spark.jars import verify
from hudilab_spark.server_records import server_folder

BUCKET = PROFILE = "hudilab"
# Variables that would override the profile's keys with those of another server.
_OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class S3Server(process.Server):
    """A running S3 server."""

    name = "s3"

    @property
    def endpoint(self) -> str:
        """Return the server's URL."""
        return self.address

    @property
    def credentials(self) -> Path:
        """Return the file with the server's keys; mode 0600."""
        return self.folder / "credentials"

    def describe(self) -> str:
        """Return a line with address, bucket and log."""
        return f"s3 at {self.address}, bucket {BUCKET}, process {self.pid}, log {self.log}"

    def env(self) -> dict[str, str]:
        """Return the AWS variables for S3 clients of this server."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials),
            "AWS_PROFILE": PROFILE,
        }

    def use(self, env: MutableMapping[str, str] = os.environ) -> None:
        """Set the variables for this process's S3 clients, and delete other keys."""
        for name in _OTHER_KEYS:
            env.pop(name, None)
        env.update(self.env())


def start_s3(settings: Settings, *, port: int = 0) -> S3Server:
    """Start a server, or return the running one, once it answers a request.

    Its data is in `<home>/services/s3`. The first start creates keys and bucket `hudilab`. Port 0
    tries the last port, then 9000, then any free port.

    Raises:
        ServiceError: the port is in use, the disk is full, the server is not ready in time, or the
            running one has another port.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """

    def prepare(folder: Path) -> process.Launch:
        jars = verify(settings.project / "jars", ["s3proxy"])
        process.check_disk(settings, "s3", folder / "data")
        address = f"http://{HOST}:{process.server_port(settings, 's3', port)}"
        command = _command(settings, folder, jars, address)
        return process.Launch(command, address, _answers(address, *_keys(folder)))

    return process.start(settings, S3Server, port, prepare)


def find_s3(settings: Settings) -> S3Server | None:
    """Return this home's running server, or None."""
    return process.find(settings, S3Server)


def stop_s3(settings: Settings) -> int | None:
    """Stop the server cleanly and keep its data; return its process id, or None if none ran."""
    return process.stop(settings, "s3")


def serve(settings: Settings, address: str) -> NoReturn:
    """Replace this process with a server at a URL, with the same data and keys.

    Raises:
        ServiceError: the disk is full.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """
    folder = server_folder(settings.home, "s3")
    jars = verify(settings.project / "jars", ["s3proxy"])
    process.check_disk(settings, "s3", folder / "data" / BUCKET)
    command = _command(settings, folder, jars, address)
    os.chdir(folder)  # file names are relative to the folder
    os.execv(command[0], command)


def _command(settings: Settings, folder: Path, jars: Sequence[Path], address: str) -> list[str]:
    """Write the server's files, and return its command."""
    process.copy_settings(settings, "logback.xml", folder)
    access, secret = _keys(folder)
    lines = process.render(
        settings,
        "s3proxy.conf",
        endpoint=address,
        access_key=access,
        secret_key=secret,
        data=folder / "data",
    )
    process.write_settings(folder / "s3proxy.conf", lines)
    # Relative file names, because a path could clash with Java's syntax for lists and URLs.
    run = "-Dlogback.configurationFile=logback.xml", "org.gaul.s3proxy.Main"
    return [*process.java_command(jars), *run, "--properties", "s3proxy.conf"]


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


def _answers(address: str, access: str, secret: str) -> Callable[[], bool]:
    """Return a check that lists the buckets, and creates the lab's if it is missing."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    haste = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1})
    # Ignore the environment, whose profile, keys and region may be for other servers.
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
            buckets = client.list_buckets()["Buckets"]
            if BUCKET not in [bucket["Name"] for bucket in buckets]:
                client.create_bucket(Bucket=BUCKET)
            return True
        except (BotoCoreError, ClientError):  # not ready
            return False

    return answers


def command(port: int) -> None:
    """Start an S3 server with its own keys and bucket."""
    server = start_s3(load_settings(), port=port)
    print(server.describe())
    print("export", *(f"{key}={shlex.quote(value)}" for key, value in server.env().items()))


SERVICE = process.Service(start_s3, find_s3, stop_s3)
