"""Lock a stream's checkpoint on this machine, so that two processes can't use it."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from hudilab.errors import StreamError
from hudilab.paths import TableLocation, local_path


@contextmanager
def stream_lock(location: TableLocation) -> Iterator[None]:
    """Hold the lock of a table's checkpoint; the system releases it when this process ends.

    Without the lock, a newer process would take over the checkpoint, which is intended only when
    another machine replaces a driver. A checkpoint on an object store has no lock.

    Raises:
        StreamError: Another process holds it.
    """
    path = local_path(f"{location.checkpoint}.lock")
    with ExitStack() as stack:
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(path.open("a+", encoding="utf-8"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.truncate(0)
                since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                file.write(f"process {os.getpid()} on {socket.gethostname()}, since {since}")
                file.flush()
        except BlockingIOError:
            file.seek(0)
            raise StreamError(
                f"another process runs this stream ({file.read() or 'it has just started'})",
                "let it run, or stop it first: press Ctrl-C there, or kill that process",
            ) from None
        except OSError:
            pass  # an unwritable folder is refused later; a disk without locks is accepted
        yield
