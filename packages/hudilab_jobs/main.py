"""Run the job named by the settings' group `spark.run.options`: the bundle's entry point.

    spark-submit --jars lib/hudilab-dependencies.jar --properties-file conf/spark-defaults.conf \
        main.py [JOB] [ARGUMENTS of the job]

ARGUMENTS override the settings' arguments, and JOB replaces the settings' job and arguments.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import sysconfig
from importlib import import_module
from pathlib import Path

ARCHIVE = "bundle"  # a platform unpacks `--archives hudilab-bundle.zip#bundle` into this folder


def use_bundle() -> None:
    """Add the bundle's packages and settings to the process; do nothing in a checkout."""
    folders = [Path(__file__).resolve().parent, Path.cwd() / ARCHIVE]
    root = next((folder for folder in folders if (folder / "MANIFEST.json").is_file()), None)
    if root is None:
        return
    manifest = json.loads((root / "MANIFEST.json").read_text("utf-8"))
    target = manifest["python"], manifest["platform"]
    machine = f"{sys.version_info[0]}.{sys.version_info[1]}", sysconfig.get_platform()
    if target != machine:
        sys.exit(
            f"hudilab: the bundle is for Python {target[0]} on {target[1]}, but this is Python "
            f"{machine[0]} on {machine[1]} ({sys.executable}); set PYSPARK_PYTHON and "
            "PYSPARK_DRIVER_PYTHON to a matching Python, or rebuild the bundle with this one"
        )
    sys.path[:0] = [str(root / "package"), str(root / "package" / "site-packages")]
    os.environ.setdefault("HUDILAB_CONF", str(root / "conf"))


def main() -> None:
    """Run the job; report an error of the lab in one line, with exit code 1."""
    use_bundle()
    import typer

    from hudilab.errors import ParameterError
    from hudilab_jobs import JOBS, short_errors
    from hudilab_jobs.settings import load_settings, run_options

    words = sys.argv[1:]
    with short_errors():
        settings = load_settings()
        if words and not words[0].startswith("-"):
            job, arguments = words[0], words[1:]
        else:
            run = run_options(settings, ", or name a job")
            job, arguments = run.job, shlex.split(run.arguments) + words
        if job not in JOBS:
            raise ParameterError(f"unknown job {job!r}", f"use one of: {', '.join(JOBS)}")
    sys.argv[1:] = arguments
    typer.run(import_module(f"hudilab_jobs.{job}").command)


if __name__ == "__main__":
    main()
