"""The image: what is in it, what is not, and that a lesson runs in it, also on a read-only root."""

from __future__ import annotations

import json
import re

import pytest
from containers.engine import LAB, Engine

pytestmark = pytest.mark.deep
# Everything that a run writes is in the home folder; a read-only root shows that.
READ_ONLY = ("--read-only", "--tmpfs", "/tmp", "--volume", "/home/hudilab/lab")
UNITS = {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def in_image(engine: Engine, *words: str, options: tuple[str, ...] = ()) -> str:
    return engine("run", "--rm", "--pull=never", *options, LAB, *words, timeout=1200)


def test_what_it_says_of_itself(engine: Engine) -> None:
    (about,) = json.loads(engine("image", "inspect", LAB))
    config = about["Config"]
    assert config["User"] == "1000:1000"
    assert config["Labels"]["org.opencontainers.image.title"] == "Hudi Streaming Lab"
    assert config["Labels"]["org.opencontainers.image.version"] == LAB.partition(":")[2]


def test_what_is_in_it(engine: Engine) -> None:
    listing = in_image(
        engine, "find", "/opt/hudilab", "/home/hudilab", "-not", "-path", "*/.venv/*"
    )
    names = {line for line in listing.splitlines() if line.startswith("/")}
    for name in ("jars/core/classes.jsa", "jars/jars.lock", "notebooks/02_write_hudi_stream.ipynb"):
        assert f"/opt/hudilab/{name}" in names
    for path in names:
        assert not re.search(r"/(\.git|\.lab|tests|dist)(/|$)|\.env$|\.pem$|\.key$", path), path
    tools = in_image(engine, "sh", "-c", "command -v gcc cc make git curl || echo none")
    assert tools.strip().endswith("none")


def test_a_change_of_a_lesson_makes_a_small_layer(engine: Engine) -> None:
    """Packages and jars are below: who pulls the next version pulls a few megabytes."""
    words = ("history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", LAB)
    # Docker prints bytes, podman units.
    layers = re.findall(r"(?m)^([0-9.]+) ?([kMG]?B?) (.+)$", engine(*words))
    sizes = [float(size) * UNITS[unit] for size, unit, _ in layers]
    (jars,) = (n for n, (*_, made) in enumerate(layers) if '"docker/build.sh", "jars"' in made)
    print(f"\nbytes of the layers, newest first: {[size for size in sizes if size]}")
    assert sum(sizes[:jars]) < 20e6
    assert sizes[jars] > 300e6


@pytest.mark.parametrize("options", [(), READ_ONLY], ids=["as it is", "read-only root"])
def test_the_first_lessons_run(engine: Engine, options: tuple[str, ...]) -> None:
    text = in_image(engine, "hudilab", "run", "02", "03", options=options)
    assert "hudilab: rows=5000 commits=5 partitions=11 " in text


def test_a_session_maps_the_archive_of_classes(engine: Engine) -> None:
    script = (
        "from hudilab import load_settings\n"
        "from hudilab_spark import open_session\n"
        "spark = open_session(load_settings(), app='archive')\n"
        "pid = spark._jvm.java.lang.ProcessHandle.current().pid()\n"
        "print('classes.jsa' in open(f'/proc/{pid}/maps').read())\n"
    )
    assert in_image(engine, "python", "-c", script).splitlines()[-1] == "True"


def test_its_own_health_check(engine: Engine) -> None:
    options = ("--detach", "--pull=never", "--env", "JUPYTER_TOKEN=a-token")
    name = engine("run", *options, LAB).split()[-1]
    check = ("exec", name, "/opt/hudilab/.venv/bin/python", "/opt/hudilab/docker/healthy.py")
    try:
        for _ in range(60):
            if "exit code 0" in (output := engine(*check, check=False)):
                break
        assert "exit code 0" in output
    finally:
        engine("rm", "--force", name)
