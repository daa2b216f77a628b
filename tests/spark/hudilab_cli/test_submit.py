"""A program that spark-submit starts: what becomes of it when it fails, or opens no session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hudilab.errors import SessionError
from hudilab.settings import Settings
from hudilab_cli.submit import submit
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import end_driver


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(env={}), home=tmp_path / "home")


def test_a_program_that_opens_no_session_is_left_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudilab_cli.submit.BRIEFLY", 0.5)
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    started = submit(settings, str(tmp_path / "slow.py"))
    driver = psutil.Process(started.pid)
    try:
        assert started.id == ""
        assert driver.status() != psutil.STATUS_ZOMBIE
    finally:
        end_driver(driver)


def test_a_program_that_fails_says_why(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudilab_cli.submit.BRIEFLY", 120.0)
    (tmp_path / "broken.py").write_text("raise ValueError('nothing to do')\n")
    with pytest.raises(SessionError) as caught:
        submit(settings, str(tmp_path / "broken.py"))
    assert str(caught.value).startswith(
        f"{tmp_path}/broken.py exited with code 1: ValueError: nothing to do; see the log "
    )
