"""The stream of notebook 02 with its warehouse on S3: the same table, whatever is killed."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from kills import Killed, record, rows_once
from running import start_program, wait_while_running
from s3_proxy import running_proxy
from services import objects
from spark.hudi_sink import test_updates as updates
from spark.hudi_sink.test_kill import Run

from hudi_inspect import inspect
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.s3 import S3Server, start_s3
from hudilab_jobs.settings import load_settings

LOCAL = load_settings(env={})
UPSERTS = Path(__file__).with_name("upserts.py")
FOLDERS = Path(__file__).with_name("folders.py")


class OnS3(Run):
    """A run whose warehouse is on S3, by configuration only.

    `spark` and `hudi` are lines more in spark-defaults.conf and hudi-defaults.conf.
    """

    where = "S3"

    def __init__(
        self,
        home: Path,
        server: S3Server,
        batches: int,
        *,
        table_type: str = "COPY_ON_WRITE",
        spark: str = "",
        hudi: str = "",
    ) -> None:
        super().__init__(home, table_type, batches)
        conf = shutil.copytree(LOCAL.conf_dir, home / "conf")
        file = conf / "application_properties.json"
        text, here = file.read_text(), '"warehouse.path": "warehouse"'
        assert here in text
        file.write_text(text.replace(here, f'"warehouse.path": "s3://hudilab/{home.name}"'))
        for name, lines in (("spark", spark), ("hudi", hudi)):
            with (conf / f"{name}-defaults.conf").open("a") as out:
                out.write(f"\n{lines}\n")
        self.log = home / "driver.log"
        self.env |= {
            "IS_LOCAL": "false",
            "HUDILAB_CONF": str(conf),
            "HUDILAB_LOG_FILE": f"{self.log}",
        }
        self.env |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
        self.env |= server.env()
        # The server's objects are plain files.
        self.look_in(server.log.parent / "data" / "hudilab" / home.name)

    def until(self, batches: int, running: subprocess.Popen[str], seconds: float = 120) -> None:
        """Wait until so many batches are done."""
        wait_while_running(
            running, lambda: self.batches_done() >= batches, seconds, f"batch {batches}"
        )


def exact(result: dict[str, object], run: Run) -> None:
    keys = ("rows", "lost", "twice", "commits")
    assert tuple(result[key] for key in keys) == (run.rows, 0, 0, run.batches), result


# Notebook 10 compares a table on S3 with its generator each time.
@pytest.mark.deep
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_table_is_the_same_as_on_a_disk(
    tmp_path: Path, used: S3Server, table_type: str
) -> None:
    on_disk = Run(tmp_path / "disk", table_type, batches=6)
    on_s3 = OnS3(tmp_path / table_type, used, batches=6, table_type=table_type)
    state = on_s3.finish()
    exact(state, on_s3)
    # Rows of each partition, commits, merges: the same values as on the disk.
    assert state == on_disk.finish()
    assert len(state["partitions"]) == 5
    assert not (tmp_path / table_type / "warehouse").exists()
    # hudi-inspect reports the same as of these files on a disk; S3 has times of whole seconds.
    table = on_s3.table
    uri = f"s3://hudilab/{table.relative_to(used.log.parent / 'data' / 'hudilab')}"
    snapshot, local = inspect(uri, count=True), inspect(str(table))
    assert (snapshot.table.rows, snapshot.table.bytes) == (on_s3.rows, local.table.bytes)
    assert snapshot.writers[0].number == on_s3.batches - 1
    assert snapshot.instants == [replace(one, touched=one.touched // 1) for one in local.instants]


@pytest.mark.deep
@pytest.mark.kills
def test_a_server_killed_for_20_seconds_ends_no_stream_and_no_key_is_seen(
    tmp_path: Path, settings: Settings, s3: S3Server
) -> None:
    port, events = process.free_port(), tmp_path / "events"
    events.mkdir()
    lines = f"spark.ui.port {port}\nspark.eventLog.enabled true\nspark.eventLog.dir file://{events}"
    run = OnS3(tmp_path, s3, batches=12, spark=lines)
    running = run.start()
    try:
        run.until(4, running)
        psutil.Process(start_s3(settings).pid).kill()
        gone, seen = time.monotonic(), pages(port)
        done = run.batches_done()
        time.sleep(20 - (time.monotonic() - gone))
        assert running.poll() is None
        assert run.batches_done() <= done + 1  # it was really away
        assert start_s3(settings).endpoint == s3.endpoint
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        raise
    out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err[-3000:]
    result = json.loads(out.splitlines()[-1])
    exact(result, run)
    record(
        Killed("S3 server", "append, COPY_ON_WRITE", "S3", 1, 0, result["lost"], result["twice"])
    )

    _, secret = objects.keys(s3)
    logged = [path.read_text("utf-8", "replace") for path in (run.log, s3.log, *events.iterdir())]
    assert len(logged) >= 3
    assert all(s3.endpoint in text for text in (seen, *logged[2:]))  # their settings are listed
    for text in (seen, out, err, *logged):
        assert secret not in text


def pages(port: int) -> str:
    """What Spark's UI and its REST API show on their pages."""
    base = f"http://127.0.0.1:{port}"
    with urlopen(f"{base}/api/v1/applications") as answer:
        application = json.load(answer)[0]["id"]
    names = ("jobs/", "stages/", "SQL/", "StreamingQuery/", "environment/", "executors/")
    api = f"api/v1/applications/{application}"
    more = (f"{api}/environment", f"{api}/jobs", f"{api}/sql?details=true")
    return "\n".join(urlopen(f"{base}/{name}").read().decode() for name in (*names, *more))


class SilverOnS3(OnS3, updates.SilverRun):
    """Bronze and silver on S3."""


@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_bronze_to_silver_on_s3_is_exact_after_kills(
    tmp_path: Path, s3: S3Server, table_type: str
) -> None:
    updates.survive(SilverOnS3(tmp_path, s3, 30, table_type=table_type), kills=4)


def connections(running: subprocess.Popen[str], server: S3Server) -> int:
    """How many connections to the server a driver has open."""
    port = int(server.endpoint.rpartition(":")[2])
    family = psutil.Process(running.pid).children(recursive=True)
    open_ones = [connection for child in family for connection in child.net_connections("tcp")]
    return sum(bool(connection.raddr) and connection.raddr.port == port for connection in open_ones)


def sockets(run: OnS3, server: S3Server) -> tuple[list[int], str]:
    """Open connections to the server after each commit, and what the driver said if it failed."""
    running, counts = run.start(), list[int]()
    while running.poll() is None:
        if run.batches_done() > len(counts):
            counts.append(connections(running, server))
        time.sleep(0.05)
    out, err = running.communicate()
    print(f"\nsockets after each batch: {counts}\n{out[-500:]}")
    if running.returncode == 0:
        exact(json.loads(out.splitlines()[-1]), run)
    return counts, err if running.returncode else ""


@pytest.mark.deep
@pytest.mark.parametrize(("hudi", "batches"), [("", 110), ("hoodie.metadata.enable true", 40)])
def test_commits_leave_no_connection_open(
    tmp_path: Path, s3: S3Server, hudi: str, batches: int
) -> None:
    run = OnS3(tmp_path, s3, batches, hudi=hudi)
    counts, failed = sockets(run, s3)
    assert not failed, failed[-3000:]
    assert len(counts) >= batches - 10
    assert max(counts[batches // 2 :]) <= max(counts[:20]) + 12


@pytest.mark.deep
def test_tidy_reads_a_metadata_table_s_logs_only_to_compact_it_and_can_be_killed(
    tmp_path: Path, s3: S3Server
) -> None:
    run = OnS3(tmp_path, s3, 6, hudi="hoodie.metadata.enable true")
    exact(run.finish(), run)
    table = f"s3://hudilab/{tmp_path.name}/lab/sensor_readings"
    options = ("--cluster", "--clean", "--retain", "1", "--stopped")
    command = ("-m", "hudilab_jobs.tidy", table, *options)

    def compactions() -> int:
        return len(list((run.table / ".hoodie/metadata/.hoodie/timeline").glob("*.inflight")))

    before, killed = compactions(), start_program(*command, env=run.env)
    wait_while_running(killed, lambda: compactions() > before, 60, "the compaction")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    with running_proxy(s3.endpoint, "hudilab") as proxy:
        run.env["AWS_ENDPOINT_URL_S3"] = proxy.endpoint
        out, err = start_program(*command, env=run.env).communicate(timeout=180)
    assert "cluster: 5 files written, 1 plan, file groups 30 -> 5" in out, out + err
    reads = Counter(request.key for request in proxy.requests if request.method == "GET")
    logs = {key: count for key, count in reads.items() if ".log." in key}
    assert len(logs) == 2
    assert set(logs.values()) == {2}  # its header, and then its block
    assert rows_once(run.table) == run.rows


@pytest.mark.deep
def test_a_store_that_throttles_and_cuts_connections_loses_nothing(
    tmp_path: Path, s3: S3Server
) -> None:
    run = OnS3(tmp_path, s3, 8)
    with running_proxy(s3.endpoint, "hudilab") as proxy:
        run.env["AWS_ENDPOINT_URL_S3"] = proxy.endpoint
        process = run.start()
        wait_while_running(process, lambda: run.batches_done() > 0, 120, "the first batch")
        proxy.throttled, proxy.cut = 0.05, 0.01
        out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err[-3000:]
    exact(json.loads(out.splitlines()[-1]), run)
    print(f"\n{proxy.slowed} answers of 503, {proxy.ended} connections cut")
    assert proxy.slowed > 20
    assert proxy.ended > 5
    assert re.search(r"S3 throttles: it answered \d+ requests? with 503 SlowDown during batch", err)


@pytest.mark.deep
def test_a_batch_looks_for_no_file_that_it_reads_anyway(tmp_path: Path, s3: S3Server) -> None:
    run = OnS3(tmp_path, s3, batches=5)
    with running_proxy(s3.endpoint, "hudilab") as proxy:
        run.env["AWS_ENDPOINT_URL_S3"] = proxy.endpoint
        exact(run.finish(), run)
    begun = [
        number
        for number, request in enumerate(proxy.requests)
        if request.method == "PUT" and re.search(r"/offsets/\.[23]\.", request.key)
    ]
    batch = proxy.requests[begun[0] : begun[1]]
    counts = Counter((request.method, request.key.rpartition("/")[2]) for request in batch)
    print(f"\n{len(batch)} requests")
    # Hadoop's client asks for a file's size when it opens the file.
    for name, reads in {"hoodie.properties": 8, "hudilab-owner": 2}.items():
        assert (counts["HEAD", name], counts["GET", name]) == (reads, reads)


def upserts(run: OnS3, server: S3Server, closing: str) -> tuple[list[str], list[int]]:
    """What the program prints until it ends, or hangs for a minute; the last connections open."""
    command = (str(UPSERTS), f"s3a://hudilab/upserts/closing_{closing}", "30", closing)
    running, printed, counts = start_program(*command, env=run.env), list[str](), list[int]()
    assert running.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    output = running.stdout
    threading.Thread(target=lambda: deque(map(lines.put, output), maxlen=0)).start()
    try:
        while not printed or "rows" not in printed[-1]:
            printed.append(lines.get(timeout=60).strip())
            counts.append(connections(running, server))
    except queue.Empty:
        assert running.poll() is None, "it failed, and did not hang"
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    print(f"\nclosing: {closing}, connections after each commit: {counts}, {printed[-1]}")
    return printed, counts


@pytest.mark.deep
def test_upserts_with_a_metadata_table_hang_unless_it_is_compacted(
    tmp_path: Path, s3: S3Server
) -> None:
    """Why ledgers set `closing_options`; when this fails, think again."""
    run = OnS3(tmp_path, s3, batches=1)
    printed, _ = upserts(run, s3, "no")
    assert 3 <= len(printed) <= 8, printed
    printed, counts = upserts(run, s3, "yes")
    assert printed[-1] == "200 rows"
    assert max(counts) <= 40


@pytest.mark.deep
def test_folders_cost_no_requests_and_those_that_the_server_keeps_are_deleted(
    tmp_path: Path, s3: S3Server
) -> None:
    names = [f"p={number}/_x/{number}.parquet" for number in range(20)]
    for name in names:
        objects.client(s3).put_object(Bucket="hudilab", Key=f"listing/{name}", Body=b"four")
    # Seen once, after the files of a table had been deleted.
    data, tables = s3.log.parent / "data" / "hudilab", tmp_path.name
    for table in ("whole", "part"):
        (data / tables / table / ".hoodie" / "timeline").mkdir(parents=True)
    kept = (f"{tables}/whole", f"{tables}/part/.hoodie")
    env = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "RUNTIME_ENV"), "")
    env |= {"HUDILAB_HOME": str(tmp_path), "IS_LOCAL": "false", **s3.env()}
    folders = [f"s3a://hudilab/{name}" for name in ("listing", *kept)]
    running = start_program(str(FOLDERS), *folders, env=env)
    out, err = running.communicate(timeout=180)
    assert running.returncode == 0, err[-3000:]
    report = json.loads(out.splitlines()[-1])
    assert report["found"] == [[name, 4] for name in sorted(names)]
    assert 0 < report["requests"] <= 4  # is it there, what is it, and a thousand objects a page
    assert report["deleted"] == [[True, True, False]] * len(kept)
    assert not any((data / folder).exists() for folder in kept)
