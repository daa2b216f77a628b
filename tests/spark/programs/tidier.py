"""Table services in a process of their own: tidier.py TABLE SECONDS SERVICE..., over and over.

Prints each line as soon as a service is done, `started` first; ends when the time is over, and each
has run twice: on a busy machine, that takes longer.
"""

from __future__ import annotations

import sys
import time

from hudi_sink.services import TableServices
from hudilab.errors import TableError
from hudilab.settings import load_settings
from hudilab_spark.session import open_session

# The table's own lock file, with a heartbeat that ends seconds after a process was killed.
LOCK = {
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.filesystem.expire": "1",
    "hoodie.client.heartbeat.interval_in_ms": "2000",
}


def main(table: str, seconds: float, services: list[str]) -> None:
    spark = open_session(load_settings(), app="tidier")
    print("started", flush=True)
    ends = time.monotonic() + seconds
    rounds = 0
    while rounds < 2 or time.monotonic() < ends:
        rounds += 1
        tidy = TableServices(spark, table, lock=LOCK)
        for name in services:
            try:
                print(tidy.clean(1) if name == "clean" else getattr(tidy, name)(), flush=True)
            except TableError as error:  # the stream is executing the same plan
                print(error, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
