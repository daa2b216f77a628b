"""The real bundle: its bytes, its one jar, and that it runs where nothing else of the lab is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet
import pyspark
import pytest
from pyspark.sql import SparkSession
from running import running_server

from hudilab.generate import sensor_readings
from hudilab_cli.bundle import GROUPS, JAR
from hudilab_cli.servers import s3
from hudilab_jobs.settings import load_settings
from hudilab_spark.jars import read_lock, verify
from hudilab_spark.java import find_java

ROOT = Path(__file__).resolve().parents[3]
SPARK = Path(pyspark.__file__).parent
SOURCES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
BUILD = """
import os, sys
os.umask(int(sys.argv[1], 8))
from pathlib import Path
from hudilab_cli.bundle import build_bundle
from hudilab_jobs.settings import load_settings
print(build_bundle(load_settings(), Path(sys.argv[2])))
"""


def build(project: Path, out: Path, umask: str) -> str:
    """The bundle of a checkout, as a process: the line that it says."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HUDILAB", "RUNTIME", "IS_"))}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, umask, str(out)],
        env=env | {"PYTHONPATH": f"{project}/lib:{project}/packages"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "hudilab-bundle.zip"
    build(ROOT, out, "022")
    return out


@pytest.mark.deep
def test_the_same_input_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """Another folder, other times, another umask, and compiled code beside the source."""
    copy = tmp_path / "a folder of another name"
    for name in ("conf", "lib", "packages"):
        shutil.copytree(ROOT / name, copy / name, copy_function=shutil.copyfile)
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(ROOT / "jars", copy / "jars", copy_function=os.link)
    (copy / "lib" / "hudilab" / "__pycache__").mkdir(exist_ok=True)
    (copy / "lib" / "hudilab" / "__pycache__" / "x.pyc").touch()
    line = build(copy, copy / "dist" / "b.zip", "077")
    digest = sha256(built.read_bytes()).hexdigest()
    assert sha256((copy / "dist" / "b.zip").read_bytes()).hexdigest() == digest
    assert line.startswith(f"hudilab: bundle={copy}/dist/b.zip files=")
    assert line.endswith(f" sha256={digest}\n")


@pytest.mark.deep
def test_the_manifest_names_every_part(built: Path) -> None:
    with ZipFile(built) as archive:
        manifest = json.loads(archive.read("MANIFEST.json"))
        names = archive.namelist()
        hashes = {name: sha256(archive.read(name)).hexdigest() for name in names}
    assert names == sorted(names)
    assert manifest["files"] == {k: v for k, v in hashes.items() if k != "MANIFEST.json"}
    assert {"main.py", JAR, "conf/application_properties.json"} <= set(names)
    assert {"package/hudilab_jobs/sensor_readings.py", "conf/hudi-defaults.conf"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "conf/local" in name]
    lock = read_lock(ROOT / "jars" / "jars.lock")
    pinned = {jar.coordinate: jar.sha256 for group in GROUPS for jar in lock[group]}
    assert manifest["jars"] == pinned
    assert (manifest["python"], manifest["java"], manifest["spark"]) == (
        f"{sys.version_info[0]}.{sys.version_info[1]}",
        "17",
        version("pyspark"),
    )
    wanted = {"pydantic", "pydantic_core", "typer", "tqdm", "confluent-kafka"}
    assert wanted <= manifest["packages"].keys()


@pytest.mark.deep
def test_the_jar_has_each_class_once(built: Path, tmp_path: Path) -> None:
    """And the services of all jars; how two jars are merged is a test without Spark."""
    with ZipFile(built) as archive:
        archive.extract(JAR, tmp_path)
    with ZipFile(tmp_path / JAR) as merged:
        names = merged.namelist()
        register = merged.read(SOURCES).decode().splitlines()
    classes = {name for name in names if name.endswith(".class")}
    assert len(names) == len({*names})
    assert len(classes) > 15_000
    # The other versions of the IAM library's classes are not switched on in its jar.
    assert not [name for name in names if name.startswith("META-INF/versions/")]
    assert not [name for name in names if name.endswith((".SF", ".RSA", ".DSA", ".EC"))]
    assert register[0] == "org.apache.hudi.BaseDefaultSource"
    assert register[-2:] == [
        "org.apache.spark.sql.kafka010.KafkaSourceProvider",
        "org.apache.spark.sql.v2.avro.AvroDataSourceV2",
    ]
    assert "META-INF/services/org.apache.spark.security.HadoopDelegationTokenProvider" in names
    # What docs/deploy.md says of locks: ZooKeeper's is here, Amazon's are in another jar.
    assert "org/apache/hudi/client/transaction/lock/ZookeeperBasedLockProvider.class" in classes
    assert not [name for name in classes if name.startswith("org/apache/hudi/aws/")]


class Platform:
    """A machine with Spark, Java and Python, and nothing of the lab but the unpacked bundle."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.root, self.home = folder / "unpacked", folder / "home"
        self.home.mkdir()
        with ZipFile(bundle) as archive:
            archive.extractall(self.root)
        # Without `site`, neither the environment's packages nor its link to the checkout count.
        self.python = folder / "python3"
        base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        self.python.write_text(f'#!/bin/sh\nexec {base} -S -s "$@"\n', "utf-8")
        self.python.chmod(0o755)
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
            "HUDILAB_HOME": str(self.home),
        }

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.env | env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def submit(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            *(str(SPARK / "bin" / "spark-submit"), "--master", "local[2]"),
            *("--jars", str(self.root / JAR)),
            *("--properties-file", str(self.root / "conf" / "spark-defaults.conf")),
            *(str(self.root / "main.py"), *arguments),
            **env,
        )

    def main(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """main.py with Spark's Python files and no JVM."""
        files = ":".join(map(str, sorted((SPARK / "python" / "lib").glob("*.zip"))))
        return self.run(str(self.python), str(self.root / "main.py"), *arguments, PYTHONPATH=files)


@pytest.fixture
def platform(tmp_path: Path, built: Path) -> Platform:
    return Platform(tmp_path, built)


@pytest.mark.deep
def test_it_writes_the_table_where_nothing_else_is(platform: Platform, spark: SparkSession) -> None:
    alone = platform.run(str(platform.python), "-c", "import hudilab")
    assert "No module named 'hudilab'" in alone.stdout
    added = platform.root / "conf" / "local" / "hudi-defaults.conf"
    added.parent.mkdir()
    added.write_text("hoodie.metadata.enable  true\n", "utf-8")
    done = platform.submit("--rows", "707", "--sensors", "4", "--seed", "3")
    table = f"file://{platform.home}/warehouse/lab/sensor_readings"
    line = f"hudilab: rows=707 commits=5 partitions=4 table={table}"
    assert done.returncode == 0, done.stdout[-3000:]
    assert line in done.stdout.splitlines()
    expected = sensor_readings(spark, 707, sensors=4, seed=3)
    stored = spark.read.format("hudi").load(table).select(expected.columns)
    assert expected.exceptAll(stored).count() == stored.exceptAll(expected).count() == 0
    folder = platform.home / "warehouse" / "lab" / "sensor_readings"
    # The lab's Hudi settings count, though nobody has told the JVM of their folder, and the
    # runtime's own stand above them. (Hudi's default is gzip; the lab's other file says false.)
    file = next(folder.glob("sensor_id=*/*.parquet"))
    assert pyarrow.parquet.ParquetFile(file).metadata.row_group(0).column(0).compression == "SNAPPY"
    assert (folder / ".hoodie" / "metadata").is_dir()


@pytest.mark.deep
def test_a_program_that_opens_no_session(platform: Platform) -> None:
    """What a job imports is all there, and what cannot run is one line."""
    for job in ("sensor_readings", "stock_prices"):
        done = platform.main(job, "--help")
        assert done.returncode == 0, done.stdout[-2000:]
        assert "--run-id" in done.stdout
    known = "load, sensor_readings, stock_prices, stream, tidy\n"
    unknown = f"hudilab: unknown job 'copy'; use one of: {known}"
    done = platform.main("copy")
    assert (done.returncode, done.stdout) == (1, unknown)
    file = platform.root / "MANIFEST.json"
    text = file.read_text("utf-8")
    file.write_text(json.dumps(json.loads(text) | {"python": "3.12"}), "utf-8")
    (line,) = platform.main("sensor_readings").stdout.splitlines()
    assert line.startswith("hudilab: the bundle is for Python 3.12 on ")
    assert line.endswith("to a matching Python, or rebuild the bundle with this one")
    file.write_text(text, "utf-8")
    # EMR Serverless fetches main.py alone, and has the zip unpacked beside it as ./bundle.
    alone = platform.home / "main.py"
    shutil.copy(platform.root / "main.py", alone)
    assert platform.run(str(platform.python), str(alone), "copy").returncode == 1
    platform.root.rename(platform.home / "bundle")
    platform.root = platform.home
    assert platform.main("copy").stdout == unknown
    shutil.rmtree(platform.home / "bundle" / "package")
    assert "No module named 'typer'" in platform.main("sensor_readings", "--help").stdout


@pytest.mark.deep
def test_it_writes_to_s3_with_the_platform_s_own_client(platform: Platform) -> None:
    """hadoop-aws and the SDK come from beside the bundle, as a platform has them."""
    settings = replace(load_settings(env={}), home=platform.home)
    client = verify(settings.project / "jars", ["s3"])
    with running_server(s3.SERVICE, settings) as server:
        done = platform.run(
            *(str(SPARK / "bin" / "spark-submit"), "--master", "local[2]"),
            *("--driver-class-path", ":".join(map(str, client))),
            *("--jars", str(platform.root / JAR)),
            *("--properties-file", str(platform.root / "conf" / "spark-defaults.conf")),
            *(str(platform.root / "main.py"), "--rows", "300", "--sensors", "2"),
            RUNTIME_ENV="DOCKER",
            **server.env(),
            AWS_CREDENTIAL_PROFILES_FILE=str(server.credentials),
        )
    table = "s3a://hudilab/warehouse/lab/sensor_readings"
    line = f"hudilab: rows=300 commits=5 partitions=2 table={table}"
    assert line in done.stdout.splitlines(), done.stdout[-3000:]


UPSERTS = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
options = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "turn",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.datasource.compaction.async.enable": "false",
}
for turn in range(4):
    rows = spark.range(100).select("id", F.lit(turn).alias("turn"))
    rows.write.format("hudi").options(**options).mode("append").save(sys.argv[1])
turns = spark.read.format("hudi").load(sys.argv[1]).groupBy("turn").count()
print("ROWS", [tuple(row) for row in turns.collect()])
"""


@pytest.mark.deep
def test_executors_need_no_more_than_the_jar(platform: Platform, tmp_path: Path) -> None:
    """JVMs of their own load Hudi by the loader of --jars, logs and compaction among it."""
    program = tmp_path / "upserts.py"
    program.write_text(UPSERTS, "utf-8")
    done = platform.run(
        *(str(SPARK / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"),
        *("--jars", str(platform.root / JAR)),
        *("--properties-file", str(platform.root / "conf" / "spark-defaults.conf")),
        *(str(program), str(tmp_path / "table")),
    )
    assert "ROWS [(3, 100)]" in done.stdout.splitlines(), done.stdout[-3000:]
    timeline = tmp_path / "table" / ".hoodie" / "timeline"
    assert len(list(timeline.glob("*_*.deltacommit"))) == 4
    assert len(list(timeline.glob("*_*.commit"))) == 1
