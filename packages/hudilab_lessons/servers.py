"""The servers of a lesson: one that runs is used, a missing one is started and later stopped."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudilab.settings import Settings, load_settings

if TYPE_CHECKING:
    from hudilab_cli.servers import Name

WAREHOUSE = "s3://hudilab/warehouse"  # in the bucket of the lab's S3 server


class Servers:
    """Finds and starts servers, and stops those that it started.

    Attributes:
        settings: The lesson's settings; their warehouse is on S3 after `prepare("s3")`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._ours: dict[Name, bool] = {}  # whether none ran when the lesson first needed it

    def get(self, name: Name, *, own: bool = False) -> Any:
        """Return the running server of this home, or start one.

        Args:
            own: Ignore BOOTSTRAP_SERVERS, which otherwise names the broker to use.

        Raises:
            ServiceError, JarError, JavaError: The server doesn't start.
            ConfigError, KafkaError: BOOTSTRAP_SERVERS or the Kafka settings are wrong.
        """
        servers: Any = import_module("hudilab_cli.servers")  # only lessons with servers need it
        service = servers.service(name)
        if name == "kafka" and not own and os.environ.get("BOOTSTRAP_SERVERS"):
            return import_module("hudilab_cli.servers.kafka").GivenBroker(self.settings)
        running = service.find(self.settings)
        self._ours.setdefault(name, running is None)
        if name == "cluster" and running:  # of any size
            return running
        return service.start(self.settings)

    def prepare(self, name: Name) -> None:
        """Start a server for the session, unless the environment or the settings name another.

        Sets the variables by which sessions find it. If the warehouse is on this disk, S3 replaces
        it.
        """
        if name == "s3":
            mine = not os.environ.get("AWS_ENDPOINT_URL_S3")
            mine = mine and self.settings.warehouse_path.startswith("s3://hudilab/")
            if self.settings.is_local or mine:
                self.get("s3").use()
            if self.settings.is_local:
                os.environ["HUDILAB_WAREHOUSE"] = WAREHOUSE
                self.settings = load_settings(self.settings.runtime)
        elif name == "cluster" and not os.environ.get("SPARK_MASTER_URL"):
            os.environ["SPARK_MASTER_URL"] = self.get("cluster").master

    @property
    def started(self) -> list[Name]:
        """Return the names of the servers that it started, the latest first."""
        return [name for name in reversed(self._ours) if self._ours[name]]

    def stop(self) -> None:
        """Stop those servers, the latest first."""
        servers: Any = import_module("hudilab_cli.servers") if self.started else None
        for name in self.started:
            if process := servers.service(name).stop(self.settings):
                print(name, "stopped, process", process)
