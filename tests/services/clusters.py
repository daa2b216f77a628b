"""What the tests of the cluster share: the command, its environment, a program that writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from hudilab.settings import Settings
from hudilab_jobs.settings import load_settings

PROJECT = Path(__file__).resolve().parents[2]
WRITER = PROJECT / "tests" / "spark" / "programs" / "writer.py"
APPEND = PROJECT / "tests" / "spark" / "programs" / "append.py"


def hudilab(env: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("hudilab")), *command],
        env=clean() | dict(env),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def submit(env: Mapping[str, str], *command: str) -> tuple[str, psutil.Process, Path]:
    """Return id, driver and log of what `hudilab submit --detach` has started."""
    done = hudilab(env, "submit", "--detach", *command)
    match = re.fullmatch(r"(app-\S+), driver's process (\d+), log (.+)\n", done.stdout)
    assert match, done.stdout + done.stderr
    return match[1], psutil.Process(int(match[2])), Path(match[3])


def clean() -> dict[str, str]:
    """This environment without what chooses settings, or what a session here has set."""
    named = ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_", "SPARK_", "PYSPARK_", "AWS_", "BOOTSTRAP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(named)}


def objects(settings: Settings, path: str) -> Path:
    """Where the S3 server keeps what lies below a path of the warehouse: plain files."""
    return settings.home / "services" / "s3" / "data" / "hudilab" / "warehouse" / path


def docker(settings: Settings) -> Settings:
    return replace(load_settings("DOCKER", {}), home=settings.home)


class Writer:
    """The stream of notebook 02 as a program on the cluster, below a warehouse of its own."""

    def __init__(self, settings: Settings, env: Mapping[str, str], run: str, batches: int) -> None:
        self.conf = settings.home / f"conf-{run}"
        shutil.copytree(PROJECT / "conf", self.conf)
        file = self.conf / "docker" / "application_properties.json"
        file.write_text(file.read_text().replace("/warehouse", f"/warehouse/{run}"))
        self.env = dict(env) | {"HUDILAB_CONF": str(self.conf)}
        self.table = objects(settings, f"{run}/lab/sensor_readings")
        self.batches, self.rows = batches, batches * 100
        self.command = [str(WRITER), "COPY_ON_WRITE", str(self.rows), str(batches)]

    def timeline(self, pattern: str) -> int:
        return len(list((self.table / ".hoodie" / "timeline").glob(pattern)))

    def commits(self) -> int:
        return self.timeline("*_*commit")

    def assert_exact(self, out: str) -> None:
        result = json.loads(out.splitlines()[-1])
        assert (result["rows"], result["lost"], result["twice"]) == (self.rows, 0, 0)
        assert result["commits"] == self.batches
