"""The lock is read strictly, and a jar that is missing or altered is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from cases import read_cases

from hudilab.errors import JarError
from hudilab_spark import jars
from hudilab_spark.fetch import fetch
from hudilab_spark.jars import read_lock, verify

CASES = read_cases(__file__)

ROOT = Path(__file__).resolve().parents[3]
A, B, C = "org.one:a:1.0", "org.two:b_2.12:2.0:tests", "org.three:c:3"
DATA = {A: b"first", B: b"second", C: b"third"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def jars_dir(tmp_path: Path) -> Path:
    """Group `core` of two jars and group `more` of one, all present."""
    lines = {name: f'"{name}" = "{sha256(data)}"' for name, data in DATA.items()}
    text = f"[core]\n{lines[A]}\n{lines[B]}\n[more]\n{lines[C]}\n"
    (tmp_path / "jars.lock").write_text(text)
    for path, name in {"core/a-1.0": A, "core/b_2.12-2.0-tests": B, "more/c-3": C}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / f"{path}.jar").write_bytes(DATA[name])
    return tmp_path


def test_the_lock_of_the_lab() -> None:
    lock = read_lock(ROOT / "jars" / "jars.lock")
    core = [jar.coordinate.rpartition(":")[0] for jar in lock["core"]]
    assert core == ["org.apache.hudi:hudi-spark3.5-bundle_2.12"]


@pytest.mark.parametrize(
    ("text", "message"),
    CASES["bad locks"],
)
def test_a_bad_lock_names_the_entry(tmp_path: Path, text: str, message: str) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(text)
    with pytest.raises(JarError) as caught:
        read_lock(lock)
    assert str(caught.value).startswith(message.format(lock=lock))
    assert "\n" not in str(caught.value)


def test_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    with pytest.raises(JarError) as caught:
        verify(tmp_path, ["core"])
    assert str(caught.value) == (
        f"cannot read {lock} (No such file or directory); restore it from the repository"
    )


def test_verified_paths_follow_groups_and_lock(jars_dir: Path) -> None:
    names = [path.name for path in verify(jars_dir, ["more", "core"])]
    assert names == ["c-3.jar", "a-1.0.jar", "b_2.12-2.0-tests.jar"]


def test_an_unknown_group_lists_the_groups(jars_dir: Path) -> None:
    for call in (verify, fetch):
        with pytest.raises(JarError) as caught:
            call(jars_dir, ["core", "kafak"])
        assert str(caught.value) == (
            f"no group 'kafak' in {jars_dir}/jars.lock; available groups: core, more"
        )


def test_a_missing_jar(jars_dir: Path) -> None:
    path = jars_dir / "more" / "c-3.jar"
    path.unlink()
    with pytest.raises(JarError) as caught:
        verify(jars_dir, ["core", "more"])
    assert str(caught.value) == f"missing jar {path} of group more; run: hudilab jars more"
    assert len(verify(jars_dir, ["core"])) == 2


def test_an_altered_jar_of_the_same_size(jars_dir: Path) -> None:
    path = jars_dir / "core" / "a-1.0.jar"
    path.write_bytes(b"fIrst")
    with pytest.raises(JarError) as caught:
        verify(jars_dir, ["core"])
    assert str(caught.value) == (
        f"altered jar {path} of group core: sha256 is {sha256(b'fIrst')}, "
        f"jars.lock expects {sha256(b'first')}; run: hudilab jars core"
    )


def test_nothing_to_fetch_asks_no_repository(
    jars_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDILAB_JARS_URL", "not a repository")
    assert fetch(jars_dir, ["core", "more"]) == verify(jars_dir, ["core", "more"])


def test_a_jar_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(JarError) as caught:
        jars.sha256(tmp_path)
    assert str(caught.value) == f"cannot read {tmp_path} (Is a directory); make it readable"
