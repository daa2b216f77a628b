"""PostgreSQL is installed when it is first needed; what that takes and why it fails is one line."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from refusals import refused

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import database
from hudilab_jobs.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(env={}), project=tmp_path, home=tmp_path / ".lab")


@pytest.fixture
def bare(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose .venv is this Python's, without PostgreSQL."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    shutil.copy(ROOT / database.LOCK, settings.project)
    (settings.project / "tools").mkdir()
    (settings.project / ".venv").mkdir()
    monkeypatch.setattr(database, "version", missing)
    monkeypatch.setattr(sys, "prefix", str(settings.project / ".venv"))
    return settings.project / "tools" / "bootstrap.py"


def test_what_is_here_is_not_installed_again(settings: Settings) -> None:
    shutil.copy(ROOT / database.LOCK, settings.project)
    database.install(settings)  # there is no tools/bootstrap.py to call
    text = (ROOT / database.LOCK).read_text("utf-8")
    assert all(f"\n{name}==" in text for name in database.PACKAGES)


def test_its_size_comes_before_the_download(
    settings: Settings, bare: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare.write_text("import os, sys; print(sys.argv[1:], os.environ['HUDILAB_HOME'])")
    database.install(settings)
    size, called = capfd.readouterr().out.splitlines()
    assert size == "PostgreSQL 18 and its client: 30 MB to download, 90 MB on disk"
    assert called == f"['--add', 'database'] {settings.home}"


def test_a_failed_download_is_one_line(settings: Settings, bare: Path) -> None:
    bare.write_text("import sys; sys.exit('setup: no answer; check network (log: /a; b/log)')")
    with refused(
        ServiceError,
        "PostgreSQL could not be installed (no answer; check network (log: /a; b/log))",
        remedy="then run: hudilab services start database",
    ) as caught:
        database.install(settings)
    assert caught.value.problem.endswith("(log: /a; b/log))")


def test_another_python_is_told_how_to_install_it(
    settings: Settings, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/conda")
    remedy = f"-m pip install --no-deps --require-hashes -r {settings.project / database.LOCK}"
    with refused(ServiceError, sys.executable, "no PostgreSQL", remedy=remedy):
        database.install(settings)


def test_variables_of_the_shell_are_for_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    monkeypatch.setenv("PGDATA", "/elsewhere")
    assert not [name for name in database.environment() if name.startswith("PG")]
    assert database.environment()["PATH"] == os.environ["PATH"]
    assert database.login(5432, "secret")["hostaddr"] == "127.0.0.1"
