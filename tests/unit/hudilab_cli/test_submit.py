"""What is wrong with a bundle is said before anything is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from hudilab.errors import BundleError
from hudilab.settings import Settings
from hudilab_cli import submit as module
from hudilab_cli.submit import submit
from hudilab_jobs.settings import load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(env={}), home=tmp_path / "home")


def refusal(settings: Settings, bundle: Path, job: str = "sensor_readings") -> str:
    with pytest.raises(BundleError) as caught:
        submit(settings, job, (), bundle)
    return str(caught.value)


def test_a_bundle_that_is_none(settings: Settings, tmp_path: Path) -> None:
    bundle = tmp_path / "b.zip"
    error = f"{bundle} is not a bundle ({{}}); build one with: make bundle".format
    assert refusal(settings, bundle) == error("No such file or directory")
    bundle.write_text("text")
    assert refusal(settings, bundle) == error("it is another kind of file")
    with ZipFile(bundle, "w") as archive:
        archive.writestr("main.py", "")
    assert refusal(settings, bundle) == error("it is another kind of file")
    assert not list(settings.home.glob("submitted/*"))


def test_a_bundle_runs_its_own_jobs_only(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    error = refusal(settings, tmp_path / "b.zip", str(tmp_path / "mine.py"))
    assert error == (
        f"{tmp_path}/mine.py is not in {tmp_path}/b.zip; use a job of the lab, or omit --bundle"
    )


def test_two_unpack_one_bundle_at_the_same_time(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, folder = tmp_path / "b.zip", settings.home / "submitted"
    folder.mkdir(parents=True)
    with ZipFile(bundle, "w") as archive:
        archive.writestr("MANIFEST.json", "{}")

    class Slow(ZipFile):
        def extractall(self, *arguments: Any, **named: Any) -> None:
            super().extractall(*arguments, **named)
            with monkeypatch.context() as patch:  # the other one is quicker
                patch.setattr(module, "ZipFile", ZipFile)
                patch.setattr(os, "getpid", lambda: 0)
                module._unpack(bundle, folder)

    monkeypatch.setattr(module, "ZipFile", Slow)
    root = module._unpack(bundle, folder)
    assert (root / "MANIFEST.json").read_text() == "{}"
    assert list(folder.iterdir()) == [root]  # and no half of one
