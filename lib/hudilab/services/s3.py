"""S3Proxy, an S3 server whose objects are plain files, from the jars of group `s3proxy`."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import MutableMapping, Sequence
from configparser import ConfigParser
from configparser import Error as ParseError
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hudilab.config import Settings
from hudilab.errors import ServiceError
from hudilab.jars import verify
from hudilab.java import complaint, find_java
from hudilab.private import write_private
from hudilab.services import process
from hudilab.services.files import properties

__all__ = ["BUCKET", "S3Server", "find_s3", "running_s3", "serve", "start_s3", "stop_s3"]

NAME, HOST = "s3", process.HOST
BUCKET = PROFILE = "hudilab"
USUAL_PORT = 9000
LEAST_FREE = 100_000_000  # bytes
PATIENCE = 60.0
# They stand above a profile's, and are another server's.
_OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True)
class S3Server:
    """A server that answers: its address, its process, its log, and the file with its keys."""

    endpoint: str
    pid: int
    log: Path
    credentials: Path

    def describe(self) -> str:
        """Where it listens and logs: one line."""
        return f"s3 at {self.endpoint}, bucket {BUCKET}, process {self.pid}, log {self.log}"

    def env(self) -> dict[str, str]:
        """What leads every S3 client here, as AWS names it; the keys are in a file of mode 0600."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.credentials),
            "AWS_PROFILE": PROFILE,
        }

    def use(self, env: MutableMapping[str, str] = os.environ) -> None:
        """Lead the S3 clients of this process here, away from any other keys."""
        for name in _OTHER_KEYS:
            env.pop(name, None)
        env.update(self.env())


def start_s3(settings: Settings, *, port: int = 0) -> S3Server:
    """Start a server, or return the one that runs; its data stay in `<home>/services/s3`.

    `port` 0: the port of last time, else 9000, else any other, whichever is free first. Keys are
    made at the first start, and the bucket `hudilab`. It is ready when it answers a request.
    Errors: ServiceError (port in use, disk full, not ready in time), JarError, JavaError.
    """
    folder = settings.home / "services" / NAME

    def begin() -> None:
        jars = verify(settings.project / "jars", ["s3proxy"])
        process.check_disk(folder / "data", "the objects of S3", LEAST_FREE)
        address = f"http://{HOST}:{process.choose_port(port, _last_port(folder), USUAL_PORT)}"
        server = process.launch(folder, _command(folder, jars, address), folder / "s3.log")
        _wait(server, address, folder)

    def fits(there: S3Server) -> bool:
        return port == 0 or there.endpoint == f"http://{HOST}:{port}"

    return process.start(folder, lambda: find_s3(settings), fits, begin)


def running_s3(settings: Settings, *, port: int = 0) -> AbstractContextManager[S3Server]:
    """A server for the time of a `with` block; one that ran before it runs on after it."""
    return process.running(
        lambda: find_s3(settings),
        lambda: start_s3(settings, port=port),
        lambda: stop_s3(settings),
    )


def find_s3(settings: Settings) -> S3Server | None:
    """The server that runs on this home's data, or None."""
    folder = settings.home / "services" / NAME
    found = process.find(folder)
    if found is None:
        return None
    address = f"http://{HOST}:{_last_port(folder)}"
    return S3Server(address, found.pid, folder / "s3.log", folder / "credentials")


def stop_s3(settings: Settings) -> int | None:
    """Stop it cleanly; its process id, or None when none runs. The data stay."""
    return process.stop(settings.home / "services" / NAME)


def serve(settings: Settings, address: str) -> NoReturn:
    """Become the server, at an address that a container publishes, with the same data and keys.

    Errors: ServiceError (disk full), JarError, JavaError.
    """
    folder = settings.home / "services" / NAME
    jars = verify(settings.project / "jars", ["s3proxy"])
    process.check_disk(folder / "data" / BUCKET, "the objects of S3", LEAST_FREE)
    command = _command(folder, jars, address)
    os.chdir(folder)  # as a launched one, whose files are named without it
    os.execv(command[0], command)


def _command(folder: Path, jars: Sequence[Path], address: str) -> list[str]:
    """What to run; writes the files that it reads."""
    _write_logging(folder)
    _write_properties(folder, address)
    java = (
        str(find_java().home / "bin" / "java"),
        *process.JVM,
        "-cp",
        os.pathsep.join(map(str, jars)),
    )
    # Relative to the server's folder: Java's own syntax for lists and URLs is in no one's way.
    run = "-Dlogback.configurationFile=logback.xml", "org.gaul.s3proxy.Main"
    return [*java, *run, "--properties", "s3proxy.conf"]


def _last_port(folder: Path) -> int:
    file = folder / "s3proxy.conf"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = re.search(r"(?m)^s3proxy\.endpoint=http://[\d.]+:(\d+)$", text)
    return int(found[1]) if found else 0


def _keys(folder: Path) -> tuple[str, str]:
    """Access key and secret key of the credentials file, which is made where it is not."""
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
    except (OSError, UnicodeDecodeError, ParseError, KeyError):
        raise ServiceError(
            f"{file} does not hold the keys of profile {PROFILE}; "
            "delete it, and new ones are made at the next start"
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
    """Without a file of ours it logs each request, for more time than the request itself takes."""
    pattern = "%date{ISO8601} %level %message \\(%logger{0}\\)%n"
    (folder / "logback.xml").write_text(
        '<configuration><appender name="log" class="ch.qos.logback.core.ConsoleAppender">'
        f"<encoder><pattern>{pattern}</pattern></encoder></appender>"
        '<root level="warn"><appender-ref ref="log"/></root></configuration>\n',
        encoding="utf-8",
    )


def _wait(server: process.Launched, address: str, folder: Path) -> None:
    """Until it lists its buckets, ours among them."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    access, secret = _keys(folder)
    haste = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1})
    # Nothing of the environment's: its profile, keys and region may be for other servers.
    client: Any = get_session({"profile": (None, None, None, None)}).create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=address,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=haste,
    )

    def answers() -> bool:
        if not process.in_use(int(address.rpartition(":")[2])):
            return False
        try:
            if BUCKET not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            return True
        except (BotoCoreError, ClientError):  # not yet
            return False

    late = f"S3Proxy does not answer at {address} after {PATIENCE:.0f} s"
    late += f"; see {server.log}, and start again"
    process.wait_until(answers, [server], why=_why, late=late, patience=PATIENCE)


def _why(text: str, code: int, log: Path) -> str:
    if "Failed to bind" in text:
        return f"the port of S3 was taken by another program meanwhile; start again; see {log}"
    return f"S3Proxy ended with code {code}: {complaint(text)}; see {log}"
