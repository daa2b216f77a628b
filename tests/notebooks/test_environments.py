"""A lesson in the environments that people have: the rows of a plain shell, or one line at once.

Nothing is faked: variables of other tutorials and clusters, limits of the shell, mounts and
networks in namespaces of their own. What this account may not make is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTableBuilder
from refusals import assert_refusal
from running import HUDILAB, run_program

from hudilab_spark.environment import DROPPED

ROOT = Path(__file__).resolve().parents[2]
OWN = ("reading_id", "sensor_id", "temperature")
pytestmark = pytest.mark.deep

# Variables with the values that another tutorial, cluster or image gives them.
SHELL = {
    "PYSPARK_SUBMIT_ARGS": "--master local[1] --packages org.nowhere:nothing:1 --conf "
    "spark.sql.shuffle.partitions=7 --conf spark.sql.session.timeZone=Asia/Tokyo --conf "
    "spark.sql.ansi.enabled=true pyspark-shell",
    "PYSPARK_PYTHON": "/no/such/python",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "SPARK_REMOTE": "sc://127.0.0.1:1",
    "_JAVA_OPTIONS": "-XX:+UseG1GC",
    "JAVA_TOOL_OPTIONS": "-XX:NoSuchOption=1 -Duser.language=tr",
    "JDK_JAVA_OPTIONS": "-Xfoo",
    "LC_ALL": "tr_TR.UTF-8",
    "LANG": "tr_TR.UTF-8",
    "HADOOP_CONF_DIR": "{folder}/hadoop",
    "HADOOP_USER_NAME": "hdfs",
    "SPARK_HOME": "{folder}/spark",
    "SPARK_CONF_DIR": "{folder}/spark/conf",
    "PYTHONPATH": "{folder}/spark/python:{folder}/modules",
    "SPARK_LOCAL_IP": "10.99.88.77",
    "SPARK_PUBLIC_DNS": "x.invalid",
    "SPARK_LOCAL_DIRS": "/no/such/disk",
    "SPARK_SUBMIT_OPTS": "-XX:NoSuchOption=1",
    "SPARK_DIST_CLASSPATH": "/opt/hadoop/*",
}


def make_folder(folder: Path) -> None:
    """What the variables name: a cluster's configuration, another Spark, a module of one's own."""
    (folder / "hadoop").mkdir()
    (folder / "hadoop" / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://nn:8020</value></property>"
        "</configuration>"
    )
    (folder / "spark" / "conf").mkdir(parents=True)
    (folder / "spark" / "conf" / "spark-defaults.conf").write_text("spark.master spark://no:7077\n")
    (folder / "spark" / "python" / "pyspark").mkdir(parents=True)
    (folder / "spark" / "python" / "pyspark" / "__init__.py").write_text("__version__ = '3.1.1'\n")
    (folder / "modules").mkdir()
    (folder / "modules" / "pandas.py").write_text("raise RuntimeError('another pandas')\n")


def run(
    home: Path, *before: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Lesson 02 with 500 rows in two batches, below the words of `before`."""
    unset = ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_JAVA")
    words = (HUDILAB, "run", "02", "-p", "rows", "500", "-p", "batches", "2")
    env = dict.fromkeys(unset, "") | {"HUDILAB_HOME": str(home)} | (env or {})
    return run_program(*before, *words, env=env, cwd=ROOT)


def rows(home: Path) -> list[dict[str, Any]]:
    """The readings, as hudi-rs reads them, without what differs from run to run."""
    table = home / "warehouse" / "lessons" / "sensor_readings"
    [records] = [HudiTableBuilder.from_base_uri(str(table)).build().read()]
    listed = [row for batch in records for row in batch.to_pylist()]
    own = [{key: row[key] for key in row if not key.startswith("_hoodie")} for row in listed]
    return sorted(own, key=lambda row: int(row["reading_id"]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    home = tmp_path_factory.mktemp("plain")
    done = run(home)
    assert done.returncode == 0, done.stderr
    assert "ignored" not in done.stderr
    stored = rows(home)
    assert len(stored) == 500
    assert set(OWN) <= stored[0].keys()
    return stored


def check_right(
    done: subprocess.CompletedProcess[str], home: Path, plain: list[dict[str, Any]]
) -> None:
    assert done.returncode == 0, done.stderr
    assert re.search(r"rows=500 commits=2 partitions=11 ", done.stdout)
    assert rows(home) == plain


def check_refused(
    done: subprocess.CompletedProcess[str], home: Path, *named: str, remedy: str
) -> None:
    assert done.returncode == 1, done.stdout
    [line] = done.stderr.splitlines()
    assert_refusal(line, *named, remedy=remedy)
    assert not (home / "warehouse").exists()


def test_a_shell_of_another_tutorial(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    make_folder(tmp_path)
    env = {key: text.replace("{folder}", str(tmp_path)) for key, text in SHELL.items()}
    home = tmp_path / "home"
    done = run(home, env=env)
    check_right(done, home, plain)
    lines = [line for line in done.stderr.splitlines() if line.startswith("hudilab: ignored ")]
    visible = [key for key in env if key in "".join(lines)]
    assert visible == [key for key in env if not key.startswith("L")]  # the locale is Java's matter


def test_each_name_with_a_value_at_once(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    names = [name.replace("*", "X") for name in DROPPED if name != "BASH_ENV"]
    home = tmp_path / "home"
    # Python itself refuses any other value of its seed.
    values = dict.fromkeys(names, "nonsense") | {"PYTHONHASHSEED": "0"}
    done = run(home, env=values)
    check_right(done, home, plain)
    assert all(name in done.stderr for name in names)


def namespace(*kinds: str) -> list[str]:
    """The words that run a command in namespaces of its own; skip if this account may not."""
    words = ["unshare", *kinds]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip(f"this account may not: {' '.join(words)}")
    return words


def in_shell(kinds: str, script: str) -> Iterator[str]:
    """A command in namespaces, after a script in them."""
    yield from namespace(*kinds.split())
    yield from ("bash", "-c", f'{script} && exec "$@"', "bash")


def test_a_loopback_that_is_down(tmp_path: Path) -> None:
    done = run(tmp_path / "home", *namespace("-n"))
    check_refused(done, tmp_path / "home", "127.0.0.1", remedy="or let the firewall pass it")


def test_a_full_disk(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = run(home, *in_shell("-m", f"mount -t tmpfs -o size=450k none {home}"))
    check_refused(done, home, str(home), "0 MB free", remedy="to a folder on another disk")


@pytest.mark.skipif(ROOT.is_relative_to("/tmp"), reason="the checkout is in /tmp")
@pytest.mark.parametrize("options", ["size=1m", "size=500m,noexec"])
def test_a_tmp_that_is_small_or_runs_nothing(plain: list[dict[str, Any]], options: str) -> None:
    home = Path(subprocess.check_output(["mktemp", "-d", "/var/tmp/home.XXXX"], text=True).strip())
    try:
        done = run(home, *in_shell("-m", f"mount -t tmpfs -o {options} none /tmp"))
        check_right(done, home, plain)
    finally:
        shutil.rmtree(home)


def test_seventeen_other_sessions(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    taken = (
        "import socket, subprocess, sys\n"
        "ports = [socket.create_server(('127.0.0.1', port)) for port in range(4040, 4061)]\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n"
    )
    shell = in_shell("-n", "ip link set lo up")
    done = run(tmp_path / "home", *shell, sys.executable, "-c", taken)
    check_right(done, tmp_path / "home", plain)


def test_a_user_id_without_a_name(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("only root can become another user")
    shutil.chown(tmp_path, 12345)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    words = ("setpriv", "--reuid=12345", "--clear-groups", "--inh-caps=+dac_read_search")
    env = ("env", "-u", "USER", "-u", "LOGNAME", "-u", "HOME")
    home = tmp_path / "home"
    done = run(home, *words, "--ambient-caps=+dac_read_search", *env)
    check_right(done, home, plain)
    assert f"so programs keep their own files in {home}/account" in done.stderr


def test_a_home_directory_that_is_missing(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    """Jupyter would end with a traceback as soon as it writes a connection file."""
    (tmp_path / "file").write_text("")
    home = tmp_path / "lab"
    done = run(home, env={"HOME": str(tmp_path / "file" / "nobody")})
    check_right(done, home, plain)
    (notice,) = done.stderr.splitlines()
    assert_refusal(
        notice,
        f"HOME='{tmp_path}/file/nobody' is not a writable folder",
        f"{home}/account",
        remedy="set HOME to a folder of your own",
    )


def test_a_machine_with_little_memory(tmp_path: Path, plain: list[dict[str, Any]]) -> None:
    group = Path("/sys/fs/cgroup/memory", f"hudilab-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no control group of memory can be made")
    try:
        for size in (500, 1000):
            (group / "memory.limit_in_bytes").write_text(str(size * 2**20))
            home = tmp_path / str(size)
            words = ("bash", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "bash")
            done = run(home, *words)
            if size == 500:
                check_refused(done, home, "500 MB", remedy="or use a larger machine")
            else:
                check_right(done, home, plain)
    finally:
        group.rmdir()
