"""Take a package away, and what doesn't import it still runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Not 13, in which `hudilab tidy` compacts a table from another process.
LESSONS = sorted(
    file.name
    for file in (ROOT / "notebooks").glob("*.ipynb")
    if file.name[:2] in ("00", "01", "02", "03", "10", "11", "12", "14", "15", "16")
)
Copy = Callable[..., Path]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Copies the checkout without some packages, with an environment that sees no other checkout.

    Its Python has the installed packages of this one on its path, but not the editable
    installation, whose .pth file Python reads in its own folder of packages only.
    """

    def made(*without: str) -> Path:
        root = tmp_path_factory.mktemp("checkout")
        for folder in ("lib", "packages", "notebooks", "conf"):
            missing = shutil.ignore_patterns(*without, "__pycache__", ".ipynb_checkpoints")
            shutil.copytree(ROOT / folder, root / folder, ignore=missing)
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "jars").symlink_to(ROOT / "jars")
        venv.create(root / ".venv", with_pip=False)
        (own,) = (root / ".venv" / "lib").glob("python*/site-packages")
        installed = sysconfig.get_path("purelib")
        (own / "own.pth").write_text(f"{root / 'lib'}\n{root / 'packages'}\n{installed}\n")
        return root

    return made


@pytest.fixture(scope="module")
def without_commands(copy: Copy) -> Path:
    root = copy("hudilab_cli", "hudilab_jobs")
    assert "hudilab_cli" in failed(root, "-c", "import hudilab_cli")
    assert "hudilab_jobs" in failed(root, "-c", "import hudilab_jobs")
    return root


def failed(root: Path, *arguments: str) -> str:
    """Return the errors of a Python of the copy; empty if it ended well."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("HUDILAB_")}
    done = subprocess.run(
        [str(root / ".venv" / "bin" / "python"), *arguments],
        cwd=root / "notebooks",
        env=env | {"HUDILAB_HOME": str(root / "home")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stderr[-3000:] if done.returncode else ""


@pytest.mark.deep
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_without_commands_and_jobs(without_commands: Path, lesson: str) -> None:
    assert not failed(without_commands, "-m", "papermill", lesson, f"out-{lesson}", "-k", "python3")


def test_the_sink_without_the_inspector(copy: Copy) -> None:
    others = ("hudi_inspect", "hudilab_lessons", "hudilab_cli", "hudilab_jobs", "hudilab_spark")
    root = copy(*others)
    assert "hudi_inspect" in failed(root, "-c", "import hudi_inspect")
    assert not failed(root, "-c", "from hudi_sink.sink import ExactlyOnceSink")
    assert not failed(root, "-c", "import hudi_sink.rewind, hudi_sink.services, hudi_sink.schema")
