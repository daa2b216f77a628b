"""The inspector works without the packages of a Spark session."""

from __future__ import annotations

import subprocess
import sys

from unit.handmade import HandMade
from unit.hudi_inspect.tables import A, archive_a_commit

SCRIPT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from hudi_inspect.errors import InspectError
from hudi_inspect import inspect

found = inspect(sys.argv[1], archived=True)
found.to_html(), found.to_json(), str(found)
print(found.table.rows, [one.action for one in found.instants])
try:
    inspect("s3://bucket/table")
except InspectError as error:
    print(error)
print([name for name in sys.modules if name.startswith(("hudilab", "hudi_sink"))])
"""
MISSING = [
    *("pyspark", "py4j", "pyarrow", "pandas", "numpy", "boto3", "botocore", "pydantic", "hudi"),
    *("typer", "click", "hudilab", "hudilab_cli"),
]


def test_it_works_without_them(table: HandMade) -> None:
    archive_a_commit(table)
    table.commit(10, 12, {A: 5})
    command = [sys.executable, "-c", SCRIPT, str(table.root), *MISSING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows, error, modules = done.stdout.splitlines()
    assert rows == "9 ['commit', 'commit']"
    assert error == (
        "cannot read s3://bucket/table: Python's client for S3 is missing; install it: "
        "pip install boto3"
    )
    assert modules == "[]"
