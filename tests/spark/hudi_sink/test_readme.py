"""The program in packages/hudi_sink/README.md runs as it stands there, on a plain pyspark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "packages" / "hudi_sink" / "README.md").read_text("utf-8")
(JAR,) = (ROOT / "jars" / "core").glob("hudi-spark*-bundle*.jar")
(PACKAGE,) = re.findall(r'"spark\.jars\.packages", "[^"]+"', PAGE)
# Here the jar is on the disk, of the lock's release, and the lake is the test's.
HERE = {
    PACKAGE: f'"spark.jars", "{JAR}"',
    "file:///tmp/lake": "file://{lake}",
}


@pytest.mark.deep
def test_the_program_of_the_readme_writes_each_row_once(tmp_path: Path) -> None:
    (program,) = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
    for old, new in HERE.items():
        assert program.count(old) == 1
        program = program.replace(old, new.replace("{lake}", str(tmp_path)))
    # As in a fresh shell, whose `python3` has no pyspark.
    path = [
        folder
        for folder in os.environ["PATH"].split(":")
        if Path(sys.prefix, "bin") != Path(folder)
    ]
    plain = {
        "HOME": str(Path.home()),
        "PATH": ":".join(path),
        "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
    }
    answers = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", program],
            env=plain | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-3000:]
        answers.append(run.stdout.strip().splitlines()[-1])
    assert answers == ["1000 rows", "2000 rows"]
    for folder in ("numbers", "numbers_checkpoint"):
        assert (tmp_path / folder).is_dir()
