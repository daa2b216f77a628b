"""README and the pages: short where they promise it, and no link leads nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hudilab_spark.jars import read_lock

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)")
README = (ROOT / "README.md").read_text("utf-8")


def test_the_pages_are_found() -> None:
    assert len(PAGES) >= 15
    assert len([page for page in PAGES if LINK.search(page.read_text("utf-8"))]) > 8


def test_the_readme_is_read_in_three_minutes_and_leads_to_every_manual() -> None:
    assert len(README.split()) <= 1200
    assert "`make test`" in README
    targets = {target for target, _ in LINK.findall(README)}
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if github := re.fullmatch(
            r"\.\./\.\./(?:actions/workflows/(\w+\.yml)(?:/badge\.svg)?|.+)", target
        ):
            # GitHub's own pages of this repository, whoever owns it.
            assert target == "../../deployments/github-pages" or github[1]
            assert not github[1] or (ROOT / ".github" / "workflows" / github[1]).is_file(), target
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            anchors = [
                "#" + re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
            ]
            assert anchor in anchors, target + anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_commands_do_not_need_an_activated_environment(page: Path) -> None:
    """Programs of an environment have its path, unless the block itself activates one."""
    for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", page.read_text("utf-8")):
        commands = block.partition("/bin/activate\n")[0]
        assert not re.search(r"(?m)^ *(\w+=\S+ )*(hudilab|spark-|python3? |jupyter)", commands)


TEXTS = [*PAGES, *sorted(ROOT.glob("notebooks/*.ipynb"))]


COORDINATE = re.compile(r"\b([\w-]+(?:\.[\w-]+)+:[\w.-]+):(\d[\w.]*\w)")


def test_the_citation_names_the_version_of_the_package() -> None:
    citation = ROOT / "CITATION.cff"
    schema = ("--builtin-schema", "vendor.citation-file-format")
    command = [sys.executable, "-m", "check_jsonschema", *schema, str(citation)]
    subprocess.run(command, check=True, capture_output=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert yaml.safe_load(citation.read_text("utf-8"))["version"] == version


def test_texts_name_the_versions_of_the_lock() -> None:
    lock = read_lock(ROOT / "jars" / "jars.lock")
    # The lab's own Hudi counts, not the older releases that tests use.
    jars = [*(jar for group in lock.values() for jar in group), *lock["core"]]
    locked = dict(":".join(jar.coordinate.split(":")[:3]).rsplit(":", 1) for jar in jars)
    named = {text.name: COORDINATE.findall(text.read_text("utf-8")) for text in TEXTS}
    assert len([name for name, coordinates in named.items() if coordinates]) >= 4
    for name, coordinates in named.items():
        for artifact, version in coordinates:
            assert version == locked.get(artifact, version), f"{name}: {artifact}"


def test_each_promise_of_security_names_tests_that_exist() -> None:
    table = (
        (ROOT / "SECURITY.md").read_text("utf-8").partition("| promise | tests |\n|---|---|\n")[2]
    )
    promises = table.partition("\n\n")[0].splitlines()
    assert len(promises) >= 9
    for promise in promises:
        named = re.findall(r"`(tests/[^`]+)::(\w+)`", promise)
        assert named, promise
        for file, test in named:
            assert f"\ndef {test}(" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"
