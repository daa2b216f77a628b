"""Make `.venv` from the lock, every download held to its hash. Standard library only.

Run by the Makefile with the machine's own Python; a second run finds its stamp and does nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
BUILD_TOOLS = ("packaging", "setuptools", "wheel")


class SetupError(Exception):
    """One line that ends in the remedy."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make .venv from the lock.")
    parser.add_argument("--dev", action="store_true", help="also install what `make test` needs")
    arguments = parser.parse_args()
    home = Path(os.environ.get("HUDILAB_HOME") or ROOT / ".lab")
    try:
        check_python(sys.version_info[:2], sys.executable)
        Setup(ROOT, home.absolute() / "logs" / "setup.log", arguments.dev).run()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run it again to rebuild .venv", file=sys.stderr)
        return 130
    return 0


def check_python(version: tuple[int, ...], executable: str) -> None:
    """Errors: SetupError for anything but 3.11."""
    if tuple(version) != (3, 11):
        found = ".".join(map(str, version))
        raise SetupError(
            f"Python 3.11 is required, but {executable} is {found}; install Python 3.11 and run: "
            "make PYTHON=/path/to/python3.11 ..."
        )


def requirement_blocks(lock: str, names: tuple[str, ...]) -> str:
    """The entries of a lock, hashes included, of the packages named."""
    return "".join(block for block in entries(lock) if block.split("==")[0] in names)


def entries(lock: str) -> list[str]:
    """Each package's pin and hashes."""
    return [f"{block}\n" for block in re.split(r"\n(?=\S)", lock.rstrip("\n"))]


def shares(lock: str) -> list[str]:
    """The lock in four parts to install side by side; pyspark is built, so it has its own."""
    built = requirement_blocks(lock, ("pyspark",))
    others = [block for block in entries(lock) if block != built]
    return [built, *("".join(others[first::3]) for first in range(3))]


def digest(root: Path) -> str:
    """Changes when the locks, or what pyproject.toml says of the package, change."""
    import tomllib  # not there in the Pythons that check_python refuses

    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [json.dumps([pyproject["build-system"], pyproject["project"]], sort_keys=True)]
    parts += [(root / f"requirements{kind}.lock").read_text("utf-8") for kind in ("", "-dev")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class Setup:
    """One run: the environment of `root`, with pip's words in `log`."""

    def __init__(self, root: Path, log: Path, dev: bool) -> None:
        self.root, self.log, self.dev = root, log, dev
        self.venv = root / ".venv"
        self.python = str(self.venv / "bin" / "python")
        self.stamp = self.venv / "hudilab-setup.json"
        self.wanted = {"root": str(root), "python": list(sys.version_info[:2])}

    def run(self) -> None:
        """Do what is missing; silent when nothing is."""
        made, content = self.made(), digest(self.root)
        if made.get("digest") == content and (made["dev"] or not self.dev):
            return
        self.dev = self.dev or bool(made.get("dev"))
        started = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_text("", encoding="utf-8")
        # Without its stamp an environment is half-made: an interrupted run is not trusted.
        self.stamp.unlink(missing_ok=True)
        if not made:
            self.create()
        self.install()
        self.stamp.write_text(
            json.dumps({**self.wanted, "digest": content, "dev": self.dev}), encoding="utf-8"
        )
        size = sum(file.lstat().st_size for file in self.venv.rglob("*")) / 1e6
        seconds = time.monotonic() - started
        print(
            f"setup: {self.venv} is ready, {seconds:.0f} s, {self.downloaded():.0f} MB downloaded, "
            f"{size:.0f} MB on disk (log: {self.log})"
        )

    def made(self) -> dict[str, object]:
        """The stamp of an environment that can be used or brought up to date, else {}."""
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
            here = {name: stamp[name] for name in self.wanted} == self.wanted
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        there = all((self.venv / "bin" / name).exists() for name in ("python", "hudilab"))
        return stamp if here and there else {}

    def create(self) -> None:
        with self.step("creating .venv"):
            shutil.rmtree(self.venv, ignore_errors=True)
            # Also when this Python is that of the environment just removed.
            python = getattr(sys, "_base_executable", sys.executable)
            made = [python, "-m", "venv", str(self.venv)]
            self.call(made, remedy="install Python's venv module")

    def install(self) -> None:
        lock = self.root / ("requirements-dev.lock" if self.dev else "requirements.lock")
        network = "check network, proxy and disk space, then try again"
        # pyspark comes as source. Built in isolation it would fetch build tools without a hash.
        with self.step("installing build tools"), TemporaryDirectory() as name:
            tools = Path(name, "build-tools.lock")
            tools.write_text(requirement_blocks(lock.read_text("utf-8"), BUILD_TOOLS), "utf-8")
            self.pip(["--require-hashes", "-r", str(tools)], remedy=network)
        with self.step(f"installing packages of {lock.name}"), TemporaryDirectory() as name:
            files = []
            for number, text in enumerate(shares(lock.read_text("utf-8"))):
                files.append(Path(name, f"{number}.lock"))
                files[-1].write_text(text, encoding="utf-8")
            # The lock is complete, so that no part needs to know of the others.
            given = ["--no-deps", "--require-hashes", "--no-build-isolation", "-r"]
            self.pip(*([*given, str(file)] for file in files), remedy=network)
        with self.step("installing hudilab"):
            source = ["--no-build-isolation", "-e", str(self.root)]
            self.pip(["--no-deps", *source], remedy="see the log")
        with self.step("compiling"):
            # Where PYTHONDONTWRITEBYTECODE is set, each process would compile what it imports.
            given = ["-qq", "-j", "0", "-x", r"[/\\]tests?[/\\]"]
            folders = [str(self.venv / "lib"), str(self.root / "lib")]
            compiled = [self.python, "-m", "compileall", *given, *folders]
            self.call(compiled, remedy="see the log")

    def pip(self, *runs: list[str], remedy: str) -> None:
        """Run pip with each of the argument lists, all at once."""
        # `install` compiles, on all cores and without the packages' tests.
        given = ["install", "--no-compile", "--no-input", "--disable-pip-version-check"]
        given += ["--progress-bar", "off"]
        pip = [self.python, "-m", "pip", *given]
        self.call(*([*pip, *arguments] for arguments in runs), remedy=remedy)

    def call(self, *commands: list[str], remedy: str) -> None:
        """Run the commands at once; the log gets what they say one after the other."""
        null, stderr = subprocess.DEVNULL, subprocess.STDOUT
        with ExitStack() as stack:
            outputs = [stack.enter_context(TemporaryFile()) for _ in commands]
            running = [
                subprocess.Popen(command, stdin=null, stdout=output, stderr=stderr)
                for command, output in zip(commands, outputs, strict=True)
            ]
            codes = [one.wait() for one in running]
            log = stack.enter_context(self.log.open("ab"))
            ended = zip(codes, commands, outputs, strict=True)
            # What failed comes last.
            for _, command, output in sorted(ended, key=lambda one: one[0] != 0):
                output.seek(0)
                log.write(f"$ {' '.join(command)}\n".encode() + output.read())
        if any(codes):
            print(flush=True)
            raise SetupError(f"{self.cause(command)}; {remedy} (log: {self.log})")

    def cause(self, command: list[str]) -> str:
        text = self.told().rpartition("\n$ ")[2]
        if "DO NOT MATCH THE HASHES" in text:
            return "a download does not match its hash in the lock and was rejected"
        errors = re.findall(r"^\s*(?:ERROR|Error): *(.+?)\.?$", text, re.MULTILINE)
        return errors[0] if errors else f"{' '.join(command[:4])} failed"

    def told(self) -> str:
        """The log; what pip wrote in the encoding of another locale is no reason to fail."""
        return self.log.read_text("utf-8", "replace")

    def downloaded(self) -> float:
        """Megabytes that pip says it has downloaded."""
        found = re.findall(r"Downloading \S+ \(([\d.]+) ([kM]?)B", self.told())
        return sum(float(size) * {"": 1e-6, "k": 1e-3, "M": 1}[unit] for size, unit in found)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        print(f"setup: {name} ...", end=" ", flush=True)
        yield
        print(f"{time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
