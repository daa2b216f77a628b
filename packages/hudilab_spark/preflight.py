"""What a machine must have before Java starts on it, checked in milliseconds.

An error here names the cause. Later the same cause shows as a lost connection, a killed Java or a
half-written table.
"""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hudilab.errors import LabError, PathError, SessionError
from hudilab.files import private_folder
from hudilab.settings import Settings

LOOPBACK = "127.0.0.1"
# Measured with lesson 02 and 500 rows, Java and the kernel together. More rows need more.
LEAST = 900  # MB, with the smallest heap
HEAP = 512  # MB: Spark refuses less
BESIDE_HEAP = 650  # MB, if there is room
ADDRESSES = 6_000  # MB of addresses that Java reserves with a heap of 2 GB
FILES = 400  # open files: Spark alone opens its 250 jars
DISK = 20  # MB: logs, and a small table
TEMPORARY = Path("/tmp")  # Java ignores TMPDIR
_PREFIX = f"hudilab-{socket.gethostname()}-"  # of a temporary folder; the rest is its maker's pid


def check_machine(settings: Settings) -> None:
    """Check that Java and the kernel's own connections can work here; write nothing.

    Raises:
        PathError: a disk is full.
        SessionError: `localhost`, memory, open files or the account are not as needed.
    """
    for problem in problems(settings.home):
        raise problem
    if settings.on_cluster and not has_name():
        raise SessionError(
            f"the user id {os.getuid()} has no name on this machine, and Hadoop's login on a "
            "cluster needs one",
            "add a line for it to /etc/passwd, or use RUNTIME_ENV=LOCAL",
        )


def problems(home: Path) -> Iterator[LabError]:
    """Yield what keeps Java from running on this machine, the cheapest check first."""
    yield from _open_files()
    yield from _memory()
    yield from _loopback()
    yield from _disk(home)
    yield from _temporary(home)


def has_name(uid: int | None = None) -> bool:
    """Return whether this account has a name; in a container it may only have a number."""
    try:
        return bool(pwd.getpwuid(os.getuid() if uid is None else uid).pw_name)
    except KeyError:
        return False


def java_flags(home: Path) -> list[str]:
    """Return the options that Java needs on this machine.

    An account without a name gets a name. A JVM that crashes writes its report to the logs, not to
    the current folder.
    """
    flags = [f"-XX:ErrorFile={home / 'logs' / 'java-crash-%p.log'}"]
    if not has_name():
        flags += [f"-Duser.name=uid{os.getuid()}", f"-Duser.home={home}"]
    return flags


@cache  # the same answer, also if the disk fills up meanwhile
def temporary_folder(home: Path) -> Path:
    """Return where the JVM of this process puts temporary files: shuffled rows, and what it spills.

    It is in the lab's home, or in /tmp if nothing in the home may be executed (Snappy and Zstandard
    unpack their native parts) or if the home's path has a comma, which Spark reads as two folders.
    """
    fits = "," not in str(home) and (sys.platform != "linux" or _usable(_deepest(home)))
    return (home / "tmp" if fits else TEMPORARY) / f"{_PREFIX}{os.getpid()}"


def make_temporary(folder: Path) -> None:
    """Create a `temporary_folder`, for this account only; remove those of JVMs that were killed.

    Raises:
        PathError: it cannot be created, or is another account's.
    """
    try:
        for other in private_folder(folder.parent).glob(f"{_PREFIX}*"):
            if _is_own(other) and not _in_use(other):
                shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise PathError(
            f"the folder {folder} for temporary files cannot be created ({error.strerror})",
            "remove it, or set HUDILAB_HOME to a writable folder",
        ) from None


def _is_own(folder: Path) -> bool:
    """Return whether a folder is this account's; another start may have just removed it."""
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _in_use(folder: Path) -> bool:
    """Return whether the process that made a folder runs, or a JVM that was told to use it."""
    import psutil  # here: a deployed job has no psutil, and its platform's own folders

    creator = folder.name.removeprefix(_PREFIX)
    if creator.isdecimal() and psutil.pid_exists(int(creator)):
        return True
    processes = psutil.process_iter(["cmdline"])
    return any(str(folder) in word for each in processes for word in each.info["cmdline"] or ())


def heap_that_fits(megabytes: int) -> int:
    """Return the heap that leaves room for the rest of Java and for the kernel; in MB.

    A heap that cannot grow is collected. If a heap outgrows the memory, Java is killed.
    """
    return min(megabytes, max(HEAP, memory_limit()[0] - BESIDE_HEAP))


def memory_limit() -> tuple[int, str]:
    """Return the megabytes that this process and its children may use, and what sets the limit."""
    limits = [(_physical(), "the machine's memory")]
    limits += [(limit, f"the limit in {file}") for file, limit in _control_groups()]
    return min(limits)


def _open_files() -> Iterator[LabError]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < FILES:
        yield SessionError(
            f"this shell allows a process {hard} open files, and Spark with Hudi needs {FILES}",
            "raise the hard limit (a container: --ulimit nofile=65536; else in "
            "/etc/security/limits.conf, then log in again), and check with: ulimit -Hn",
        )


def _memory() -> Iterator[LabError]:
    limit, what = memory_limit()
    if limit < LEAST:
        yield SessionError(
            f"{what} is {limit} MB, and Java and the kernel need {LEAST} MB even with the "
            "smallest heap",
            "give them 2 GB (a container: --memory 2g), or use a larger machine",
        )
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY and soft // 2**20 < ADDRESSES:
        yield SessionError(
            f"this shell limits a process to {soft // 2**20} MB of addresses (ulimit -v), and "
            f"Java reserves {ADDRESSES} MB, most of which it never uses",
            "lift the limit: ulimit -v unlimited",
        )


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def _control_groups(
    proc: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")
) -> Iterator[tuple[Path, int]]:
    """Yield each limit of memory above this process, in MB; Linux only."""
    try:
        lines = proc.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            root, name = mounted, "memory.max"
        elif "memory" in kinds.split(","):
            root, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = root / path.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                try:
                    text = (folder / name).read_text("utf-8").strip()
                except OSError:
                    continue  # in a container, only the root's file may be there
                if text.isdecimal():
                    yield folder / name, int(text) // 2**20


def _loopback() -> Iterator[LabError]:
    try:
        address = socket.gethostbyname("localhost")
    except OSError:
        address = ""
    if not address.startswith("127."):
        wrong = f"resolves to {address}" if address else "does not resolve to an IPv4 address"
        yield SessionError(
            f"localhost {wrong}, and Spark's processes find each other by this name",
            f"add this line to /etc/hosts: {LOOPBACK} localhost",
        )
        return
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            socket.create_connection(server.getsockname(), 2).close()
    except OSError as error:
        yield SessionError(
            f"this process cannot connect to a port of its own at {LOOPBACK} "
            f"({error.strerror or 'no answer'})",
            "bring the loopback interface up (ip link set lo up), or let the firewall pass it",
        )


def _disk(home: Path) -> Iterator[LabError]:
    disk = shutil.disk_usage(_deepest(home))
    free = disk.free // 2**20
    if disk.total and free < DISK:
        yield PathError(
            f"the disk of the lab's home {home} has {free} MB free, and a session needs {DISK} "
            "MB or more",
            "free space, or set HUDILAB_HOME to a folder on another disk",
        )


def _temporary(home: Path) -> Iterator[LabError]:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(2**16))
    except OSError as error:
        yield PathError(
            f"no temporary file can be written ({error.strerror}: {TEMPORARY})",
            "free space there, or set TMPDIR to another folder",
        )
    if sys.platform == "linux" and not (_usable(TEMPORARY) or _executable(home)):
        yield PathError(
            f"neither {TEMPORARY} nor the disk of the lab's home {home} lets a program's native "
            "parts run (noexec, or full)",
            "set HUDILAB_HOME to a folder on a disk without noexec",
        )


def _usable(folder: Path) -> bool:
    """Return whether native parts can be unpacked in a folder and then run."""
    room = shutil.disk_usage(folder).free // 2**20 >= DISK if folder.is_dir() else False
    return room and os.access(folder, os.W_OK | os.X_OK) and _executable(folder)


def _executable(folder: Path) -> bool:
    return not os.statvfs(_deepest(folder)).f_flag & os.ST_NOEXEC


def _deepest(folder: Path) -> Path:
    """Return the deepest folder that is there, and that this account may look into."""
    return next(path for path in (folder, *folder.parents) if os.path.isdir(path))  # noqa: PTH112
