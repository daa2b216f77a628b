"""One Spark session for all tests of this folder, in a home of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from hudilab.errors import show_log
from hudilab.settings import load_settings
from hudilab_spark.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE"):
            patch.delenv(name, raising=False)
        patch.setenv("HUDILAB_HOME", str(tmp_path_factory.mktemp("home")))
        show_log()
        session = open_session(load_settings(), app="tests")
        yield session
        session.stop()
