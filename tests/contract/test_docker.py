"""docker/: linted, valid for the compose specification, and reachable from this machine only."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hudilab.files import read_properties
from hudilab_cli.servers import database
from hudilab_spark.jars import read_lock

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PORTS = {4040, 5432, 8080, 8081, 8082, 8090, 8888, 9000, 9092, 18080}


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


def test_every_port_is_on_loopback() -> None:
    published = [
        port for service in compose()["services"].values() for port in service.get("ports", [])
    ]
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    assert sorted(int(port.rpartition(":")[2]) for port in published) == sorted(PORTS)


def test_the_database_is_asked_for_and_as_the_one_without_docker() -> None:
    services = compose()["services"]
    names = [name for name, service in services.items() if service.get("profiles") == ["database"]]
    assert names == ["database", "connect"]
    # What fails without a password is the container, not every other command of compose.
    for name in names:
        assert services[name]["environment"]["POSTGRES_PASSWORD"] == "${POSTGRES_PASSWORD:-}"
    options = services["database"]["command"][2::2]
    own = read_properties((ROOT / "conf" / "services" / "database.properties").read_text("utf-8"))
    assert options == [f"{name}={own[name]}" for name in ("wal_level", "max_slot_wal_keep_size")]
    login = services["database"]["environment"]
    assert (login["POSTGRES_USER"], login["POSTGRES_DB"]) == (database.USER, database.NAME)
    # Anybody who reaches its port could run code in it.
    assert "ports" not in services["connect"]
    worker = read_properties((ROOT / "conf" / "services" / "connect.properties").read_text("utf-8"))
    env = services["connect"]["environment"]
    for name in ("group.id", "config.storage.topic", "offset.storage.topic"):
        assert env[name.upper().replace(".", "_")] == worker[name]
    # The same Debezium as in the lock.
    jars = read_lock(ROOT / "jars" / "jars.lock")["connect"]
    version = services["connect"]["image"].rpartition(":")[2]
    assert f"io.debezium:debezium-connector-postgres:{version}" in {jar.coordinate for jar in jars}


def test_services_without_a_secret_start_in_an_empty_environment() -> None:
    """Compose interpolates the whole file, also for `up kafka`, before it picks the services."""
    text = (DOCKER / "compose.yaml").read_text("utf-8")
    text = re.sub(r"(?m)^ *#.*$", "", text)
    variables = re.findall(r"(?<!\$)\$\{(\w+)([^}]*)\}", text)
    assert {name for name, _ in variables} == {"JUPYTER_TOKEN", "POSTGRES_PASSWORD"}
    assert {default for _, default in variables} == {":-"}
    # The containers that need a secret refuse to start without it, and say which.
    entry = (DOCKER / "entrypoint.sh").read_text("utf-8")
    assert '"${JUPYTER_TOKEN:?' in entry


def test_no_secret_is_in_a_file() -> None:
    for service in compose()["services"].values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"secret|token|password|access_key", key, re.IGNORECASE):
                assert re.fullmatch(r"\$\{\w+:-\}", str(value)), key
    assert "JUPYTER_TOKEN" in compose()["services"]["jupyterlab"]["environment"]


@pytest.mark.parametrize("page", ["README.md", "docs/setup.md"])
def test_one_container_is_the_image_s_jupyterlab_on_loopback(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    (command,) = re.findall(r"docker run --rm --init (-e .*) hudilab$", text, re.MULTILINE)
    assert "-e JUPYTER_TOKEN=" in command
    published = re.findall(r"-p (\S+)", command)
    assert "127.0.0.1:8888:8888" in published
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    assert "docker build -f docker/Dockerfile -t hudilab ." in text
    assert 'CMD ["jupyterlab"]' in (DOCKER / "Dockerfile").read_text("utf-8")


def test_no_secret_and_nothing_of_this_machine_is_sent_to_docker() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert {"**/.env", "**/*.pem", "**/*.key", ".git", ".venv", ".lab", "tests"} <= set(rules)
    assert rules.index("jars/*") < rules.index("!jars/jars.lock")
    taken_back = {rule for rule in rules if rule.startswith("!")}
    assert taken_back == {"!jars/jars.lock", "!jars/classes.txt.gz"}
