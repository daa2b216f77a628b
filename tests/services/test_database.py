"""The lab's PostgreSQL: closed to others also where root starts it, and whole after each end."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
from refusals import refused

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import database
from hudilab_cli.servers.database import start_database, stop_database
from hudilab_jobs.settings import load_settings
from hudilab_spark.waiting import wait_for

# initdb, which creates the data folder, takes seconds; all else here takes tenths of them.
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    settings = replace(load_settings(env={}), home=tmp_path_factory.mktemp("home") / "o'brien, jü")
    yield settings
    stop_database(settings)


def test_changes_can_be_decoded_and_only_the_password_opens_it(settings: Settings) -> None:
    server = start_database(settings)
    with server.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
        assert rules == [("scram-sha-256",)]
        stored = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolcanlogin")
        assert [str(row[0])[:14] for row in stored.fetchall()] == ["SCRAM-SHA-256$"]
    for password in ("", "guess"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**database.login(server.port, password))
    # It has no socket in the file system, and its files are this account's, whoever it runs as.
    assert psutil.Process(server.pid).net_connections("unix") == []
    for folder in (settings.home, server.folder / "data"):
        about = folder.stat()
        assert (stat.S_IMODE(about.st_mode), about.st_uid) == (0o700, os.getuid())
    psql = [database.program("psql")[-1], server.uri, "-Atc", "SELECT current_user"]
    env = os.environ | {"PGPASSFILE": str(server.password_file)}
    done = subprocess.run(psql, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "hudilab\n"


def test_a_stop_does_not_wait_for_clients(settings: Settings) -> None:
    server = start_database(settings)
    with server.connect():
        started = time.monotonic()
        assert stop_database(settings) == server.pid
        assert time.monotonic() - started < 10
    log = server.log.read_text()
    assert log.rstrip().endswith("database system is shut down")


def test_what_a_killed_server_leaves_does_not_hinder_the_next(settings: Settings) -> None:
    server = start_database(settings)
    with server.connect() as connection:
        connection.execute("CREATE TABLE sums AS SELECT generate_series(1, 1000) AS number")
        # A process of it that does not see the end of its parent.
        (child, *_) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        psutil.Process(child).suspend()
        psutil.Process(server.pid).kill()
        wait_for(lambda: database.find_database(settings) is None, 10, "its end")
        again = start_database(settings)
        assert not psutil.pid_exists(child)
    with again.connect() as connection:
        assert connection.execute("SELECT count(*) FROM sums").fetchone() == (1000,)


def test_a_killed_server_that_nobody_waited_for_does_not_count(settings: Settings) -> None:
    start_database(settings)
    stop_database(settings)
    zombie = subprocess.Popen(["true"])  # of this account, as PostgreSQL's own would be
    wait_for(lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_ZOMBIE, 10, "its end")
    data = settings.home / "services" / "database" / "data"
    lines = (zombie.pid, data, int(time.time()), 5432, "", "127.0.0.1", "0 0", "ready")
    (data / "postmaster.pid").write_text("".join(f"{line}\n" for line in lines))
    with start_database(settings).connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    zombie.wait()


def test_a_lost_password_is_set_anew_and_a_wrong_one_is_named(settings: Settings) -> None:
    record = settings.home / "services" / "database.json"
    with start_database(settings).connect() as connection:
        connection.execute("ALTER ROLE hudilab PASSWORD 'another'")
    stop_database(settings)
    remedy = "; delete that file, and the next start sets a new password"
    with refused(ServiceError, "user 'hudilab'", str(record), remedy=remedy):
        start_database(settings)
    assert database.find_database(settings) is None
    record.unlink()
    with start_database(settings).connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_first_start_that_was_killed_is_done_again(settings: Settings) -> None:
    stop_database(settings)
    folder = settings.home / "services" / "database"
    kept = (folder / "data").rename(folder / "kept")
    (folder / "data.new").mkdir(mode=0o700)
    (folder / "data.new" / "half").touch()
    with start_database(settings).connect() as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("lab",)
    stop_database(settings)
    shutil.rmtree(folder / "data")
    kept.rename(folder / "data")


def test_data_of_another_version_is_named(settings: Settings) -> None:
    start_database(settings)
    stop_database(settings)
    file = settings.home / "services" / "database" / "data" / "PG_VERSION"
    file.write_text("17\n")
    log = settings.home / "services" / "database" / "database.log"
    named = "FATAL:  database files are incompatible with server"
    try:
        with refused(ServiceError, "PostgreSQL exited with code 1", named, remedy=f"; see {log}"):
            start_database(settings)
    finally:
        file.write_text("18\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a namespace")
def test_root_without_a_namespace_is_told_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stop_database(settings)
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    remedy = "docker compose -f docker/compose.yaml --profile database up -d"
    with refused(ServiceError, "refuses to run as root", remedy=remedy):
        start_database(settings)
