"""The lab's own servers, one module each; a name added here is a server that `hudilab` knows.

May import the ground, the writer and the runtime.
Start reading at `process.start`, which all servers share.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast, get_args

if TYPE_CHECKING:
    from hudilab_cli.servers.process import Service


Name = Literal["kafka", "s3", "cluster", "history", "metastore"]
NAMES: tuple[Name, ...] = get_args(Name)


def service(name: Name) -> Service:
    """Return the functions of a server; its module is loaded now, because most are slow to load."""
    return cast("Service", import_module(f"{__name__}.{name}").SERVICE)
