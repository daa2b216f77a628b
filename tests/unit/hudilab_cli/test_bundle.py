"""The bundle's parts, on small jars and settings; the real one is in tests/spark."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from cases import read_cases
from refusals import assert_refusal, refused
from unit.hudilab_jobs.test_pipelines import GROUP

from hudilab.errors import BundleError, ConfigError, LabError
from hudilab.settings import Settings
from hudilab_cli import bundle
from hudilab_cli.bundle import build_bundle
from hudilab_cli.packages import site_packages
from hudilab_cli.zips import merge_jars
from hudilab_jobs.settings import load_settings
from hudilab_spark.jars import wanted


def java(version: int, rest: bytes = b"") -> bytes:
    """The start of a class file for this version of Java."""
    return b"\xca\xfe\xba\xbe\x00\x00" + (version + 44).to_bytes(2, "big") + rest


def jar(path: Path, files: Mapping[str, bytes | str]) -> Path:
    with ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def content(data: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(data)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


CASES = read_cases(__file__)
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


def test_jars_are_merged(tmp_path: Path) -> None:
    first = jar(
        tmp_path / "one.jar",
        {
            "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nClass-Path: x.jar\r\n",
            "META-INF/LICENSE": "one",
            "META-INF/A.SF": "",
            "META-INF/A.RSA": "",
            "META-INF/B.DSA": "",
            "META-INF/B.EC": "",
            "META-INF/INDEX.LIST": "",
            "module-info.class": java(9),
            "META-INF/versions/9/module-info.class": java(9),
            "META-INF/versions/11/a/A.class": java(11, b"not switched on"),
            SERVICE: "# a comment\nz.Last\n\na.Both # why\n",
            "a/A.class": java(8, b"A"),
            "a/": "",
            "a/A.SF": "not a signature",
        },
    )
    two = jar(
        tmp_path / "two.jar",
        {
            "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\n",
            "META-INF/LICENSE": "two",
            SERVICE: "a.Both\nm.Middle",
            "a/A.class": java(8, b"A"),
            "b/B.class": java(17, b"B"),
        },
    )
    merged = content(merge_jars([first, two]))
    assert merged == {
        "META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\nCreated-By: hudilab\r\n\r\n",
        "META-INF/licenses/one/META-INF/LICENSE": b"one",
        "META-INF/licenses/two/META-INF/LICENSE": b"two",
        SERVICE: b"z.Last\na.Both\nm.Middle\n",
        "a/A.SF": b"not a signature",
        "a/A.class": java(8, b"A"),
        "b/B.class": java(17, b"B"),
    }
    assert next(iter(merged)) == "META-INF/MANIFEST.MF"


def test_versions_that_a_jar_switches_on_are_kept_up_to_the_platform_s(tmp_path: Path) -> None:
    first = jar(
        tmp_path / "one.jar",
        {
            "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nMulti-Release: true\r\n",
            "META-INF/versions/17/a/A.class": java(17),
            "META-INF/versions/21/a/A.class": java(21),
            "META-INF/versions/11/module-info.class": java(11),
            "a/A.class": java(8),
        },
    )
    merged = content(merge_jars([first]))
    assert b"Multi-Release: true\r\n" in merged.pop("META-INF/MANIFEST.MF")
    assert sorted(merged) == ["META-INF/versions/17/a/A.class", "a/A.class"]


@pytest.mark.parametrize("name", ["a/A.class", "reference.conf"])
def test_two_versions_of_a_file_are_refused(tmp_path: Path, name: str) -> None:
    first = jar(tmp_path / "one.jar", {name: java(8, b"1")})
    two = jar(tmp_path / "two.jar", {name: java(8, b"2")})
    remedy = "; remove one of the two jars from the groups in jars/jars.lock"
    with refused(BundleError, name, "one.jar", "two.jar", remedy=remedy):
        merge_jars([first, two])


def test_a_class_for_a_later_java_is_refused(tmp_path: Path) -> None:
    first = jar(tmp_path / "one.jar", {"a/A.class": java(21)})
    remedy = "; use an older version of the jar in jars/jars.lock"
    with refused(BundleError, "a/A.class", "one.jar", "Java 21", "17", remedy=remedy):
        merge_jars([first])


# --- what is refused before a file is written


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The project's settings with a copy of conf/ to change, and a jar in the place of its own."""
    settings = load_settings(env={})
    shutil.copytree(settings.conf_dir, tmp_path / "conf")
    first = jar(tmp_path / "one.jar", {"a/A.class": java(8)})
    count = len(wanted(settings.project / "jars", bundle.GROUPS))
    monkeypatch.setattr(bundle, "verify", lambda *_: [tmp_path / f"{n}.jar" for n in range(count)])
    for number in range(count):
        shutil.copy(first, tmp_path / f"{number}.jar")
    return replace(settings, conf_dir=tmp_path / "conf")


def set_keys(file: Path, name: str, keys: Mapping[str, str]) -> None:
    """Change keys of a group in a settings file, which may lack the group."""
    groups = {
        entry["PropertyGroupId"]: entry["PropertyMap"]
        for entry in json.loads(file.read_text("utf-8"))
    }
    groups[name] = groups.get(name, {}) | keys
    entries = [{"PropertyGroupId": name, "PropertyMap": keys} for name, keys in groups.items()]
    file.write_text(json.dumps(entries), "utf-8")


def refusal(project: Settings, kind: type[LabError] = BundleError) -> str:
    with pytest.raises(kind) as caught:
        build_bundle(project, project.conf_dir.parent / "out" / "b.zip")
    assert not (project.conf_dir.parent / "out").exists()
    text = str(caught.value)
    assert "\n" not in text
    assert "HIDDEN" not in text
    return text


@pytest.mark.parametrize("folder", ["", "docker"])
def test_run_options_that_the_bundle_cannot_follow(project: Settings, folder: str) -> None:
    """The error names the file that each key comes from."""
    file = project.conf_dir / folder / "application_properties.json"
    bad = {"python": "other.py", "jarfile": "lib/x.jar", "job": "copy"}
    set_keys(file, "spark.run.options", bad)
    where = f"{file}: group 'spark.run.options'"
    named = (
        *(where, "key 'python'", "'other.py'", "(available: main.py)"),
        *(where, "key 'jarfile'", "'lib/x.jar'", "(available: lib/hudilab-dependencies.jar)"),
        *(where, "key 'job'", "'copy'", "load, sensor_readings, stock_prices, stream, tidy)"),
    )
    assert_refusal(refusal(project), *named, remedy="; fix the settings")


def test_the_settings_of_each_runtime_are_read(project: Settings) -> None:
    file = project.conf_dir / "aws" / "application_properties.json"
    set_keys(file, "spark.run.options", {"jobs": "copy"})
    named = (f"{file}: group 'spark.run.options'", "unknown key 'jobs'")
    assert_refusal(refusal(project, ConfigError), *named, remedy="; fix the file")


@pytest.mark.parametrize(("name", "key", "sign"), CASES["secrets"])
def test_a_secret_is_not_bundled(project: Settings, name: str, key: str, sign: str) -> None:
    file = project.conf_dir / name
    if file.suffix == ".json":
        set_keys(file, "mine", {key: "HIDDEN"})
    else:
        before = file.read_text("utf-8") if file.is_file() else ""
        file.write_text(f"{before}\n{key}{sign}HIDDEN\n", "utf-8")
    remedy = "; remove it: credentials come from the platform's role"
    assert_refusal(refusal(project), f"{file} sets {key}", "secrets", remedy=remedy)


@pytest.mark.parametrize("name", CASES["files that are refused"])
def test_a_file_that_nobody_expects_is_not_bundled(project: Settings, name: str) -> None:
    file = project.conf_dir / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("HIDDEN\n")
    known = "application_properties.json, spark-defaults.conf, hudi-defaults.conf"
    named = (f"{file} is not one of", f"{known}, log4j2.properties", "conf/docker", "conf/aws")
    assert_refusal(refusal(project), *named, remedy=f"; move it out of {project.conf_dir}")


def test_what_stays_here_may_be_anything(project: Settings) -> None:
    for name in CASES["files that stay here"]:
        (project.conf_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (project.conf_dir / name).write_text("HIDDEN")
    before = {path for path in project.conf_dir.rglob("*") if path.is_file()}
    build_bundle(project, project.conf_dir.parent / "b.zip")
    whole = content((project.conf_dir.parent / "b.zip").read_bytes())
    taken = {project.conf_dir / name[5:] for name in whole if name.startswith("conf/")}
    assert taken <= before
    assert {path.parent.name for path in taken} == {"conf", "aws", "docker"}
    assert len(taken) >= 8
    assert not any(b"HIDDEN" in data for name, data in whole.items() if name.startswith("conf/"))


def test_pipelines_with_files_of_their_own_are_bundled(project: Settings) -> None:
    files = {"pipelines/orders.json": GROUP, "aws/pipelines/orders.json": {"ordering": "sent_at"}}
    for name, keys in files.items():
        file = project.conf_dir / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(keys))
    (project.conf_dir / "pipelines" / "orders.json.sample").write_text("HIDDEN")
    project = load_settings(env={"HUDILAB_CONF": str(project.conf_dir)})
    build_bundle(project, project.conf_dir.parent / "b.zip")
    whole = content((project.conf_dir.parent / "b.zip").read_bytes())
    shipped = [name for name in whole if re.match(r"conf/(.*/)?pipelines/", name)]
    assert {name: json.loads(whole[name]) for name in shipped} == {
        f"conf/{name}": keys for name, keys in files.items()
    }


def test_what_is_a_secret_must_be_known(project: Settings) -> None:
    file = project.conf_dir / "spark-defaults.conf"
    file.write_text(file.read_text().replace("spark.redaction.regex", "# "))
    lacking = f"{file} does not set spark.redaction.regex"
    assert_refusal(refusal(project), lacking, remedy="; add it")
    project = replace(project, project=project.conf_dir.parent)
    shutil.copytree(load_settings(env={}).project / "jars", project.project / "jars")
    file.unlink()
    assert_refusal(refusal(project), lacking, remedy="; add it")
    file.write_text("spark.redaction.regex (?i\n")
    assert refusal(project).startswith(
        f"{file}: spark.redaction.regex is not a valid regular expression ("
    )


def test_an_altered_or_missing_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(BundleError, match="package no-such-thing is not installed; run: make"):
        site_packages(["no-such-thing"])
    site = tmp_path / "thing-1.dist-info"
    site.mkdir()
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
    (site / "RECORD").write_text("thing.py,sha256=AAAA,3\nthing-1.dist-info/RECORD,,\n")
    (tmp_path / "thing.py").write_text("1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with refused(BundleError, "thing.py", "package thing", remedy="; run: make clean setup"):
        site_packages(["thing"])


@pytest.mark.deep
def test_a_place_that_cannot_be_written(project: Settings) -> None:
    out = project.conf_dir / "hudi-defaults.conf" / "b.zip"
    with refused(BundleError, f"cannot write {out} (File exists)", remedy="choose another --out"):
        build_bundle(project, out)
