"""A bare JVM, for tests of what Java makes of a text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from hudilab_spark.environment import file_names
from hudilab_spark.java import find_java


@pytest.fixture(scope="session")
def gateway() -> Iterator[JavaGateway]:
    java = find_java().home / "bin" / "java"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in file_names().items():  # or it can't find py4j's jar in an odd path
            patch.setenv(name, value)
        port = launch_gateway(java_path=str(java), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield gateway
    gateway.shutdown()
