"""The image's entry point and its build, run without a container engine: the same scripts."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from hudilab_cli.servers.process import free_port
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java
from hudilab_spark.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / "docker" / "entrypoint.sh"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    gone = ("SPARK_", "HUDILAB_", "JUPYTER_", "AWS_", "RUNTIME_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    return kept | {
        "HUDILAB_VENV": sys.prefix,
        "HUDILAB_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{ROOT}/lib:{ROOT}/packages",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture
def start(env: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a role; all that it started is ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_role(role: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{role}.log").open("wb") as log:
            command = [str(ENTRY), role, *arguments]
            process = subprocess.Popen(command, env=env | more, stdout=log, stderr=log)
        started.append(process)
        return process

    yield start_role
    for process in (program for program in started if program.poll() is None):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
        process.terminate()
        process.wait(30)


def healthy(port: int) -> int:
    script = ROOT / "docker" / "healthy.py"
    return subprocess.run([sys.executable, str(script), str(port)], check=False).returncode


def wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + 90
    while healthy(port):
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < ends, log.read_text()[-2000:]
        time.sleep(0.2)


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


@pytest.mark.deep
def test_driver_and_executor_as_kubernetes_starts_them(start: Start, tmp_path: Path) -> None:
    """Without Kubernetes: a master that has no worker, so that the job waits for this executor."""
    rpc, web, port = (free_port() for _ in range(3))
    master = start(
        "master",
        SPARK_MASTER_HOST="127.0.0.1",
        SPARK_MASTER_PORT=str(rpc),
        SPARK_MASTER_WEBUI_PORT=str(web),
    )
    wait(master, web, tmp_path / "master.log")
    program, properties = tmp_path / "program.py", tmp_path / "spark.properties"
    program.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "rows = spark.range(1000).selectExpr('sum(id) AS sum').collect()\n"
        "print('the sum:', rows[0].sum, flush=True)\n"
    )
    properties.write_text(
        f"spark.master spark://127.0.0.1:{rpc}\nspark.driver.host 127.0.0.1\n"
        f"spark.driver.port {port}\nspark.ui.enabled false\n"
    )
    driver = start(
        *("driver", "--properties-file", str(properties), str(program)),
        SPARK_DRIVER_BIND_ADDRESS="127.0.0.1",
    )
    log = tmp_path / "driver.log"

    def applications() -> Any:
        return json.loads(get(web, "/json/")[1])["activeapps"]

    wait_for(lambda: bool(applications()), 90, "the application", f"see {log}")
    (application,) = applications()
    # As Spark's driver passes them on.
    opened = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "sun.nio.ch")
    options = ["-Dlab.words=two words", f"-Dspark.driver.port={port}"]
    options += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opened]
    start(
        "executor",
        SPARK_DRIVER_URL=f"spark://CoarseGrainedScheduler@127.0.0.1:{port}",
        SPARK_EXECUTOR_ID="1",
        SPARK_EXECUTOR_CORES="1",
        SPARK_EXECUTOR_MEMORY="512m",
        SPARK_EXECUTOR_POD_IP="127.0.0.1",
        SPARK_EXECUTOR_POD_NAME="executor-1",
        SPARK_APPLICATION_ID=application["id"],
        SPARK_RESOURCE_PROFILE_ID="0",
        **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)},
    )
    assert driver.wait(120) == 0, log.read_text()[-3000:]
    assert "the sum: 499500" in log.read_text()


def test_jupyterlab_opens_copies_that_have_not_run(start: Start, tmp_path: Path) -> None:
    port = free_port()
    chosen = {"JUPYTER_HOST": "127.0.0.1", "JUPYTER_PORT": str(port), "JUPYTER_TOKEN": "a-token"}
    process = start("jupyterlab", "--allow-root", **chosen)
    wait(process, port, tmp_path / "jupyterlab.log")
    status, text = get(port, "/api/contents/00_hello_hudi.ipynb?token=a-token")
    assert status == 200
    cells = json.loads(text)["content"]["cells"]
    assert len(cells) > 30
    assert not any(cell.get("outputs") for cell in cells)
    assert get(port, "/api/contents/00_hello_hudi.ipynb")[0] == 403
    # A manual that lessons link to.
    assert get(port, "/api/contents/docs/work.md?token=a-token")[0] == 200


@pytest.mark.deep
def test_s3_makes_its_keys_and_its_bucket(start: Start, tmp_path: Path) -> None:
    import boto3

    port = free_port()
    process = start("s3", S3_HOST="127.0.0.1", S3_PORT=str(port))
    wait(process, port, tmp_path / "s3.log")
    store = tmp_path / "home" / "services" / "s3"
    keys = store / "credentials"
    for file in (keys, store / "s3proxy.conf"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = dict(line.split(" = ") for line in keys.read_text().splitlines()[1:])
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id=lines["aws_access_key_id"],
        aws_secret_access_key=lines["aws_secret_access_key"],
    )
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["hudilab"]
    assert get(port, "/hudilab")[0] == 403
    process.terminate()
    process.wait(30)
    kept = keys.read_text()
    wait(start("s3", S3_HOST="127.0.0.1", S3_PORT=str(port)), port, tmp_path / "s3.log")
    assert keys.read_text() == kept


def test_kafkas_data_are_in_its_volume(tmp_path: Path) -> None:
    """The image's own program makes Kafka's settings of the environment: what it says counts."""
    kafka = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text("utf-8"))["services"][
        "kafka"
    ]
    ((source, mount),) = (mounted.split(":") for mounted in kafka["volumes"])
    assert source == "kafka-data"
    # Here the volume is another folder.
    volume = tmp_path / "volume"
    named = {
        key: str(value).replace(mount, str(volume)) for key, value in kafka["environment"].items()
    }
    folders = [tmp_path / name for name in ("default", "mounted", "final")]
    for folder in folders:
        folder.mkdir()
    for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (folders[0] / name).touch()
    jars = map(str, verify(ROOT / "jars", ["broker"]))
    java = (str(find_java().home / "bin" / "java"), "-cp", os.pathsep.join(jars))
    options = zip(("-D", "-M", "-F"), map(str, folders), strict=True)
    done = subprocess.run(
        [*java, "kafka.docker.KafkaDockerWrapper", "setup", *chain(*options)],
        env={"CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw", "LC_ALL": "C.UTF-8"} | named,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (folders[2] / "server.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    assert Path(properties.get("log.dirs", "/tmp/kafka-logs")) == volume
    assert (volume / "meta.properties").is_file()


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("jupyterlab", "JUPYTER_TOKEN: entrypoint.sh jupyterlab: choose a token\n"),
        ("worker", "SPARK_MASTER_URL: entrypoint.sh worker: set it to spark://host:port\n"),
    ],
)
def test_what_is_missing_is_said(env: dict[str, str], role: str, text: str) -> None:
    done = subprocess.run([str(ENTRY), role], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.endswith(text)


def test_another_command_has_the_lab(env: dict[str, str]) -> None:
    words = [str(ENTRY), "python", "-c", "import hudilab, os; print(os.environ['SPARK_HOME'])"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("pyspark")


@pytest.mark.deep
def test_the_build_installs_a_lab_that_runs(tmp_path: Path) -> None:
    """What `docker build` would do, into another folder: from the locks, every hash checked."""
    lab = tmp_path / "lab"
    ignored = shutil.ignore_patterns(".git", ".venv", ".lab", "dist", "tests", "*_cache")
    shutil.copytree(ROOT, lab, ignore=ignored)
    for folder in (lab / "jars").iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HUDILAB", "PYTHONPATH"))}
    env |= {"HUDILAB_HOME": str(tmp_path / "home"), "PYTHON": sys.executable}
    done = subprocess.run(
        [str(lab / "docker" / "build.sh")], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    described = subprocess.run(
        [str(lab / "docker" / "entrypoint.sh"), "hudilab", "jars", "core", "s3proxy"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert described.returncode == 0, described.stderr
    assert described.stdout.count("verified") == 22
    assert (tmp_path / "home" / "spark-events").is_dir()
