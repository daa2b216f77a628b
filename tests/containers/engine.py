"""Docker or podman, and the project's compose file on one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
IMAGES = Path(__file__).with_name("images")
COMPOSE = ROOT / "docker" / "compose.yaml"
BASE, LAB, KAFKA = "python:3.11-slim-bookworm", "hudilab:0.1.0", "apache/kafka:4.1.2"
PATIENCE = 180.0  # seconds for a container to become healthy


def answers(*words: str) -> bool:
    """Whether a command is there, and ends well."""
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def has_docker() -> bool:
    return answers("docker", "info") and answers("docker", "compose", "version")


def missing() -> str:
    """Why no container can be run here; empty if it can."""
    if has_docker():
        return ""
    if not answers("podman", "info"):
        return "no Docker that answers, and no podman"
    if not shutil.which("podman-compose"):
        return "podman, but no podman-compose on PATH; pipx install podman-compose"
    return ""


class Engine:
    """Docker, or podman where there is no Docker."""

    def __init__(self) -> None:
        self.is_docker = has_docker()
        self.name = "docker" if self.is_docker else "podman"

    def __call__(self, *words: str, timeout: float = 900, check: bool = True) -> str:
        """Run a command of the engine; return what it prints."""
        done = subprocess.run(
            [self.name, *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        # Without systemd podman complains with each container that has a health check.
        errors = [line for line in done.stderr.splitlines() if "systemd connection" not in line]
        text = "\n".join([done.stdout.rstrip("\n"), *errors]).strip("\n")
        assert not check or done.returncode == 0, f"{self.name} {' '.join(words)}: {text[-3000:]}"
        return text if check else f"{text}\nexit code {done.returncode}"

    def has(self, image: str) -> bool:
        return "exit code 0" in self("image", "inspect", image, check=False)

    def pulls(self, image: str) -> bool:
        return self.has(image) or "exit code 0" in self("pull", "--quiet", image, check=False)

    def build(self) -> None:
        """Build the image as README says, and Kafka's if its registry does not answer.

        A machine that reaches no registry makes the base image from Debian's packages.
        """
        if not self.pulls(BASE):
            done = subprocess.run([str(IMAGES / "base.sh")], text=True, check=False)
            assert done.returncode == 0, "the base image cannot be pulled, and not be made"
        self._build(ROOT / "docker" / "Dockerfile", LAB, ROOT)
        if not self.pulls(KAFKA):
            self._build(IMAGES / "kafka.Dockerfile", KAFKA, IMAGES)

    def _build(self, file: Path, tag: str, context: Path) -> None:
        own = () if self.is_docker else ("--isolation=chroot", "--format=docker", "--layers")
        words = ("build", "--network=host", *own, "--file", str(file), "--tag", tag, str(context))
        self(*words, timeout=1800)


class Compose:
    """What the compose file starts without a profile, on free ports, as a project of its own."""

    def __init__(self, engine: Engine, folder: Path, token: str, ports: dict[int, int]) -> None:
        self.engine, self.project, self.ports = engine, "hudilab-tests", ports
        self.env = os.environ | {"JUPYTER_TOKEN": token}
        compose: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
        self.services: dict[str, Any] = {
            name: service
            for name, service in compose["services"].items()
            if "profiles" not in service
        }
        compose["services"] = self.services
        compose["name"] = self.project
        for service in self.services.values():
            inside = [int(port.rpartition(":")[2]) for port in service.get("ports", ())]
            service["ports"] = [f"127.0.0.1:{ports[port]}:{port}" for port in inside]
            service.pop("build", None)
        self.file = folder / "compose.yaml"
        self.file.write_text(yaml.safe_dump(compose))

    def __call__(self, *words: str) -> str:
        if self.engine.is_docker:
            tool = ["docker", "compose"]
        else:
            tool = ["podman-compose", "--podman-run-args=--pull=never"]
        done = subprocess.run(
            [*tool, "--file", str(self.file), *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return f"{done.stdout}{done.stderr}\nexit code {done.returncode}"

    def up(self) -> None:
        """Start each service once those that it depends on are healthy.

        podman-compose does not wait for health where there is no systemd to ask for it.
        """
        started: set[str] = set()
        while waiting := [name for name in self.services if name not in started]:
            ready = [name for name in waiting if self._needs(name) <= started]
            output = self("up", "-d", "--no-deps", *ready)
            assert output.endswith("exit code 0"), output[-3000:]
            for name in ready:
                self.wait(name, output)
            started |= set(ready)

    def down(self, *, volumes: bool) -> None:
        self("down", *(["--volumes"] if volumes else []))

    def _needs(self, name: str) -> set[str]:
        return set(self.services[name].get("depends_on", {}))

    def container(self, service: str) -> str:
        """The container's name: Docker joins with -, podman-compose with _."""
        joint = "-" if self.engine.is_docker else "_"
        return f"{self.project}{joint}{service}{joint}1"

    def wait(self, service: str, output: str = "") -> None:
        """Wait until a service is healthy, or has ended well if it is a task."""
        name, ends = self.container(service), time.monotonic() + PATIENCE
        while not self._is_well(service, name):
            assert time.monotonic() < ends, (
                f"{service}: {output[-1500:]} {self.engine('logs', name, check=False)[-1500:]}"
            )
            time.sleep(1)

    def _is_well(self, service: str, name: str) -> bool:
        if "healthcheck" not in self.services[service]:
            state = self.engine("inspect", "--format", "{{json .State}}", name, check=False)
            return '"exited"' in state and '"ExitCode":0' in state
        if self.engine.is_docker:
            inspection = ("inspect", "--format", "{{.State.Health.Status}}", name)
            return "\nhealthy" in f"\n{self.engine(*inspection, check=False)}"
        return "exit code 0" in self.engine("healthcheck", "run", name, check=False)

    def run(self, service: str, *words: str, timeout: float = 900) -> str:
        """Run a command in a service's container; return what it prints, and its exit code."""
        return self.engine("exec", self.container(service), *words, timeout=timeout, check=False)
