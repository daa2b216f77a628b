"""jars.py GROUP...: fetch jars, and archive the classes of core.

Like `hudilab jars`, but imports only what that needs, so that a change elsewhere in the lab
leaves the layer of jars of the image as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hudilab.errors import LabError
from hudilab_spark.class_archive import make_archive
from hudilab_spark.fetch import fetch
from hudilab_spark.java import find_java


def main(groups: list[str]) -> int:
    """Return exit code 1 if a jar cannot be fetched; the error says why."""
    folder = Path(__file__).resolve().parents[1] / "jars"
    try:
        core = [path for path in fetch(folder, groups) if path.parent.name == "core"]
    except LabError as error:
        print(f"jars: {error}", file=sys.stderr)
        return 1
    print(make_archive(folder, core, find_java()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
