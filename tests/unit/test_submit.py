"""What is wrong with a bundle is said before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from hudilab.config import Settings, load_settings
from hudilab.errors import BundleError
from hudilab.submit import submit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(env={}), home=tmp_path / "home")


def refusal(settings: Settings, bundle: Path, job: str = "sensor_readings") -> str:
    with pytest.raises(BundleError) as caught:
        submit(settings, job, (), bundle)
    return str(caught.value)


def test_a_bundle_that_is_none(settings: Settings, tmp_path: Path) -> None:
    bundle = tmp_path / "b.zip"
    said = f"{bundle} is not a bundle ({{}}); make one with: make bundle".format
    assert refusal(settings, bundle) == said("No such file or directory")
    bundle.write_text("text")
    assert refusal(settings, bundle) == said("it is another kind of file")
    with ZipFile(bundle, "w") as archive:
        archive.writestr("main.py", "")
    assert refusal(settings, bundle) == said("it is another kind of file")
    assert not list(settings.home.glob("submitted/*"))


def test_a_bundle_runs_its_own_jobs_only(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    said = refusal(settings, tmp_path / "b.zip", str(tmp_path / "mine.py"))
    assert said == (
        f"{tmp_path}/mine.py is not in {tmp_path}/b.zip; name a job of the lab, or no bundle"
    )
