"""docker/: linted, valid for the compose specification, and reachable from this machine only."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from bootstrap import SUPPORTED

from hudilab.settings import load_settings
from hudilab_spark.jars import read_lock

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PORTS = {4040, 8080, 8081, 8082, 8090, 8888, 9000, 9092, 18080}


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name(name)), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8")))


def test_the_dockerfile_and_the_scripts_are_clean() -> None:
    for done in (
        tool("hadolint", DOCKER / "Dockerfile"),
        tool("shellcheck", *sorted(DOCKER.glob("*.sh"))),
        tool(
            "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml"
        ),
    ):
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert len(list(DOCKER.glob("*.sh"))) == 2


@pytest.mark.deep
def test_the_linters_find_something(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp\n")
    (tmp_path / "x.sh").write_text("#!/bin/sh\nrm $1/*\n")
    (tmp_path / "compose.yaml").write_text("services:\n  a:\n    port: 1\n")
    assert "DL3006" in tool("hadolint", tmp_path / "Dockerfile").stdout
    assert "SC2086" in tool("shellcheck", tmp_path / "x.sh").stdout
    schema = ("--builtin-schema", "vendor.compose-spec")
    assert tool("check-jsonschema", *schema, tmp_path / "compose.yaml").returncode == 1


def test_the_image_runs_our_scripts_as_a_user_without_rights() -> None:
    text = (DOCKER / "Dockerfile").read_text("utf-8").replace("\\\n", "")
    lines = [line.split(None, 1) for line in text.splitlines() if re.match("[A-Z]+ ", line)]
    found = [word for word, _ in lines]
    assert found.index("USER") < found.index("COPY")
    assert dict(lines)["USER"].startswith("1000")
    user, *steps = (rest for word, rest in lines if word == "RUN")
    assert user.startswith("useradd ")
    # A layer each; what changes most comes last.
    assert steps == [f'["docker/build.sh", "{one}"]' for one in ("packages", "jars", "rest")]
    for script in ("build.sh", "entrypoint.sh"):
        assert (DOCKER / script).stat().st_mode & 0o111 == 0o111
        assert f"docker/{script}" in text
    # Spark's Python in the image is a laptop's: what bootstrap.py refuses would end the build.
    image = re.match(r"(?:\S+/)?python:(\d+)\.(\d+)\S*", dict(lines)["FROM"])
    assert image is not None
    assert f"{image[1]}.{image[2]}" in SUPPORTED
    digest = r"(@sha256:[0-9a-f]{64})?"
    images = {one["image"] for one in compose()["services"].values()} - {"hudilab:0.1.0"}
    named = rf"(apache/kafka:|ghcr\.io/kafbat/kafka-ui:v)\d+\.\d+\.\d+{digest}"
    assert all(re.fullmatch(named, one) for one in images)


def test_the_image_has_the_jars_that_its_containers_need() -> None:
    script = (DOCKER / "build.sh").read_text("utf-8")
    groups = re.findall(r"docker/jars.py (.+)", script)[0].split()
    assert groups == ["core", "kafka", "msk", "s3", "s3proxy", "avro"]
    assert set(groups) <= read_lock(ROOT / "jars" / "jars.lock").keys()


def test_every_port_is_on_loopback() -> None:
    published = [port for one in compose()["services"].values() for port in one.get("ports", [])]
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    assert sorted(int(port.rpartition(":")[2]) for port in published) == sorted(PORTS)


def test_the_containers_find_each_other() -> None:
    services = compose()["services"]
    lab = {name: one for name, one in services.items() if one["image"].startswith("hudilab:")}
    assert sorted(lab) == [
        *("history", "jupyterlab", "s3", "spark-master", "spark-worker-1", "spark-worker-2"),
    ]
    assert len({one["image"] for one in lab.values()}) == 1
    for name, one in services.items():
        assert ("healthcheck" in one) == (name != "topics")
    for name in ("jupyterlab", "spark-worker-1", "spark-worker-2"):
        env = lab[name]["environment"]
        named = [env["SPARK_MASTER_URL"], env["BOOTSTRAP_SERVERS"], env["AWS_ENDPOINT_URL_S3"]]
        assert named == ["spark://spark-master:7077", "kafka:19092", "http://s3:9000"]
        settings = load_settings(env["RUNTIME_ENV"], {"BOOTSTRAP_SERVERS": named[1]})
        assert settings.consumer is not None
        assert settings.consumer.bootstrap_servers == "kafka:19092"
        assert not settings.is_local
    kafka = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "INSIDE://kafka:19092" in kafka


def test_the_page_of_topics_is_asked_for_and_changes_nothing() -> None:
    services = compose()["services"]
    assert [name for name, one in services.items() if "profiles" in one] == ["kafka-ui"]
    page = services["kafka-ui"]
    env = page["environment"]
    assert page["ports"] == ["127.0.0.1:{0}:{0}".format(env["SERVER_PORT"])]
    assert env["KAFKA_CLUSTERS_0_READONLY"] == "true"
    # As the lab's own containers reach the broker.
    asked = services["jupyterlab"]["environment"]["BOOTSTRAP_SERVERS"]
    assert env["KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS"] == asked
    listeners = services["kafka"]["environment"]["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]
    login = [name for name in env if "SASL" in name or "SECURITY" in name]
    assert ("INSIDE:PLAINTEXT" in listeners.split(",")) == (login == [])


def test_volumes_are_mounted_where_the_image_gives_them_to_its_user() -> None:
    """A new volume takes its owner from the image's folder; without one it would be root's."""
    script = (DOCKER / "build.sh").read_text("utf-8")
    made = re.search(r"(?m)^ +mkdir -p (.+)$", script)
    assert made
    home = {one.strip('"').replace("$home", "/home/hudilab/lab") for one in made[1].split()}
    images = {
        "hudilab": {*home, "/opt/hudilab/notebooks"},  # COPY --chown
        # VOLUME and chown in the image's own Dockerfile
        "apache/kafka": {"/var/lib/kafka/data", "/etc/kafka/secrets", "/mnt/shared/config"},
    }
    mounted: dict[str, set[str]] = {}
    for name, one in compose()["services"].items():
        for volume in one.get("volumes", []):
            source, target, *_ = volume.split(":")
            mounted.setdefault(source, set()).add(target)
            assert target in images[one["image"].partition(":")[0]], name
    # Nothing of this machine is mounted, and each volume is the same folder everywhere.
    assert set(mounted) == set(compose()["volumes"])
    assert {len(targets) for targets in mounted.values()} == {1}


def test_each_role_is_one_of_the_entry_point() -> None:
    script = (DOCKER / "entrypoint.sh").read_text("utf-8")
    for name, one in compose()["services"].items():
        if one["image"].startswith("hudilab:"):
            (role,) = one["command"]
            assert re.search(rf"^    {role}\)$", script, re.MULTILINE), name


def test_no_secret_is_in_a_file() -> None:
    for one in compose()["services"].values():
        for key, value in one.get("environment", {}).items():
            if re.search(r"secret|token|password|access_key", key, re.IGNORECASE):
                assert re.fullmatch(r"\$\{\w+:\?.+\}", str(value)), key
    assert "JUPYTER_TOKEN" in compose()["services"]["jupyterlab"]["environment"]


def ignored(path: str, rules: list[str]) -> bool:
    """Whether Docker leaves a file out of the context: as in Go, patterns are cleaned first.

    The last pattern that matches the file, or a folder above it, decides. Source: Docker's
    documentation of .dockerignore, and moby/patternmatcher.
    """
    left_out = False
    for rule in rules:
        pattern = posixpath.normpath(rule.removeprefix("!")).strip("/")
        parts = [
            re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            for part in pattern.split("/")
        ]
        regex = "/".join(parts).replace("[^/]*[^/]*/", "(?:.*/)?").replace("[^/]*[^/]*", ".*")
        if re.fullmatch(f"{regex}(?:/.*)?", path):
            left_out = not rule.startswith("!")
    return left_out


def rules() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    ("path", "rule", "left_out"),
    [
        ("jars/jars.lock", "jars/*/", True),  # a slash at the end counts for nothing
        ("jars/core/hudi.jar", "jars/*", True),
        ("lib/a/__pycache__/b.pyc", "**/__pycache__", True),
        ("__pycache__/b.pyc", "**/__pycache__", True),
        ("lib/jars/x", "jars/*", False),
        ("tests2/x", "tests", False),
        (".mypy_cache/x", ".*_cache", True),
    ],
)
def test_docker_s_rules(path: str, rule: str, left_out: bool) -> None:
    assert ignored(path, [rule]) is left_out
    assert not ignored(path, [rule, f"!{path}"])


def test_the_context_has_what_the_image_is_built_of_and_nothing_else() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    sent = {path for path in listed if not ignored(path, rules())}
    library = {
        path for path in listed if path.startswith(("lib/", "conf/", "docker/", "notebooks/"))
    }
    needed = {"tools/bootstrap.py", "requirements.lock", "pyproject.toml", "README.md", "LICENSE"}
    assert library | needed | {"jars/jars.lock", "jars/classes.txt.gz"} <= sent
    assert len(library) > 100
    here = (
        *(".git/config", ".venv/bin/python", ".lab/warehouse/x", ".env", "conf/.env", "server.pem"),
        *("conf/private.key", "jars/core/hudi.jar", "lib/hudilab/__pycache__/x.pyc"),
        *("lib/hudilab.egg-info/PKG-INFO", "dist/book/index.html", "tests/unit/test_layers.py"),
    )
    assert [path for path in here if not ignored(path, rules())] == []
