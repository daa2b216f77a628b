"""The batches that are stopped at each of their changes, and changes that have to be among them.

They are in cases.json: settings of Hudi and kinds of changes by name, then each case. "CLEAN"
removes files that a merge replaced as soon as Hudi lets them be. A resumed compaction is rolled
back and executed by its existing plan, so it requests no new one. The tenth entry of a source's log
also holds the nine before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from crash.harness import Case

_FILE = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def _kinds(names: Iterable[str]) -> Iterator[str]:
    """The kinds of changes, with those that a name stands for."""
    for name in names:
        if name in _FILE["kinds"]:
            yield from _kinds(_FILE["kinds"][name])
        else:
            yield name


def _case(must: list[str], hudi: Iterable[str] = (), **fields: Any) -> Case:
    settings = {key: value for name in hudi for key, value in _FILE["hudi"][name].items()}
    return Case(**fields, hudi=settings, must=tuple(_kinds(must)))


CASES = {name: _case(**fields) for name, fields in _FILE["cases"].items()}
CASES |= {
    f"{name}, the clock set back": replace(CASES[name], clock=True)
    for name in _FILE["clock set back"]
}
KILLED = Case("COPY_ON_WRITE", "bulk_insert", 10)  # long enough for each kill to meet a batch
