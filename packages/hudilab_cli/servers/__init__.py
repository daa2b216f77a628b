"""The lab's own servers, each in a module with the name of its entry in `SPECS`.

Start reading at `process.start`, which all servers share.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from hudilab_cli.servers.process import Service

Name = Literal["kafka", "s3", "cluster", "history", "metastore", "database", "connect"]


class Spec(NamedTuple):
    """A server's usual port, and its terms in the errors of `process`."""

    port: int
    title: str
    ports: str
    data: str = ""  # a term for its data
    least_free: int = 0  # bytes


SPECS: dict[Name, Spec] = {
    # Kafka creates 10 MB index files for each partition.
    "kafka": Spec(9092, "Kafka", "one of Kafka's ports", "Kafka's data", 100_000_000),
    "s3": Spec(9000, "S3Proxy", "the S3 server's port", "the objects of S3", 100_000_000),
    "cluster": Spec(7077, "the cluster", "one of Spark's ports"),
    "history": Spec(18080, "the history server", "one of Spark's ports"),
    "metastore": Spec(
        9083, "the metastore", "the metastore's port", "the metastore's database", 50_000_000
    ),
    # Its write-ahead log alone has 200 MB.
    "database": Spec(5432, "PostgreSQL", "PostgreSQL's port", "the database", 300_000_000),
    "connect": Spec(8083, "Kafka Connect", "Kafka Connect's port"),
}
NAMES = tuple(SPECS)


def service(name: Name) -> Service[Any]:
    """Return the functions of a server; import its module only now, because most load slowly."""
    return cast("Service[Any]", import_module(f"{__name__}.{name}").SERVICE)
