"""A table of another account: each command that writes is refused in one line, before it does."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from refusals import assert_refusal

from hudilab.generate import readings_table, sensor_readings
from hudilab.paths import TableLocation, locate

HUDILAB = Path(sys.executable).with_name("hudilab")
NOBODY = pwd.getpwnam("nobody") if sys.platform == "linux" else None
# To read a checkout that may lie in a private home; it grants no writes.
READS = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of the other account, outside of pytest's private folders."""
    if NOBODY is None or os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another account, with setpriv")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir()
        os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
        yield home


@pytest.fixture
def location(spark: SparkSession, home: Path) -> TableLocation:
    """A table of root, which all may read."""
    location = locate("warehouse", "lab", "sensor_readings", is_local=True, home=home.parent)
    spec = readings_table(operation="upsert", table_type="MERGE_ON_READ", buckets=1)
    rows = sensor_readings(spark, 20, sensors=1, seed=1)
    rows.write.format("hudi").options(**spec.write_options()).mode("append").save(location.table)
    return location


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("tidy", "--stopped"), id="tidy"),
        pytest.param(("tidy", "--dry-run"), id="dry run", marks=pytest.mark.deep),
    ],
)
def test_a_command_on_the_table(
    home: Path, location: TableLocation, command: tuple[str, str]
) -> None:
    assert NOBODY is not None
    folder = Path(location.table.removeprefix("file://"))
    before = sorted(folder.rglob("*"))
    # The session of the tests has set its own log file, and others.
    env = {key: value for key, value in os.environ.items() if not key.startswith("HUDILAB_")}
    done = subprocess.run(
        [
            "setpriv",
            "--reuid=nobody",
            "--clear-groups",
            *READS,
            str(HUDILAB),
            *command,
            str(folder),
        ],
        env=env | {"HUDILAB_HOME": str(home), "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    dry = "--dry-run" in command
    assert done.returncode == (0 if dry else 1), done.stderr
    last_line = (done.stdout if dry else done.stderr).splitlines()[-1]
    assert_refusal(
        last_line,
        f"the table {location.table} cannot be written: {folder} belongs to root, and nobody may "
        "not "
        "write to it",
        remedy="; run this as root, or have root grant nobody access",
    )
    assert sorted(folder.rglob("*")) == before
