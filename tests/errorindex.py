"""Every error of the lab that tests provoke in their own process, as users see it.

`pytest FILES --errors-to FILE` records them; the gates of `make test` do so in `dist/errors`, and
tools/errorpage.py makes the book's page of it. Each error is one line and says what to do.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import errorpage
from errorpage import Row, is_there

import hudilab
from hudilab.errors import LabError

LIB, ROOT = Path(hudilab.__file__).parent, Path(__file__).resolve().parent.parent
# An area has the modules whose names start so; the first that fits counts.
AREAS = {
    "Settings and environment": "runtime.settings runtime.groups runtime.reader runtime.doctor "
    "runtime.conf_folder runtime.environment runtime.preflight",
    "Parameters, notebooks and their runner": "operations.parameters operations.runner "
    "runtime.runs operations.progress lessons.sizes lessons.progress",
    "Paths": "paths",
    "S3": "runtime.s3",
    "Kafka": "runtime.kafka jobs.stock operations.topics",
    "Jars and Java": "runtime.java",
    "Sessions": "runtime.session runtime.spark_conf runtime.submitted runtime.cluster.registration",
    "Table specs and schemas": "writer.spec writer.columns writer.fit writer.upkeep.guards",
    "Ledger and checkpoint": "writer.ledger writer.rules writer.commits writer.checkpoints "
    "writer.quarantine writer.first_load writer.locking writer.batches writer.upkeep.rewind "
    "writer.clock runtime.locks operations.rewind",
    "Streams": "runtime.streams waiting",
    "Reads of the past": "lessons.reads",
    "Tables in the catalog, and lessons": "runtime.places lessons",
    "Table services": "writer.upkeep jobs.tidy",
    "Inspect": "inspect",
    "Cluster, submit and jobs": "runtime.cluster jobs operations.servers.cluster "
    "operations.servers.spark",
    "Servers": "operations.servers runtime.private",
    "Bundle and deploy": "operations.ship",
}


class Errors:
    """What the tests of this run provoke."""

    def __init__(self) -> None:
        self.seen: list[Row] = []
        self.ran: set[tuple[str, str]] = set()
        self._raised = dict[tuple[str, str], None]()
        made = LabError.__init__

        def note(error: LabError, *given: object) -> None:
            made(error, *given)
            file = Path(sys._getframe(1).f_code.co_filename)
            if file.is_relative_to(LIB):  # tests make some too
                self._raised[file.relative_to(LIB).as_posix(), str(error)] = None

        LabError.__init__ = note  # type: ignore[assignment,method-assign]

    def during(self, file: str, test: str) -> Iterator[None]:
        """Note what a test provokes."""
        self._raised.clear()
        yield
        self.ran.add((file, test))
        rows = (Row(area(module), plain(text), file, test) for module, text in self._raised)
        self.seen += [row for row in rows if row.area]

    def unclear(self) -> list[str]:
        """The errors of the newest test that are longer than a line, or do not say what to do."""
        return [text for _, text in self._raised if "\n" in text or "; " not in text]

    def save(self, record: Path) -> None:
        """Record what was seen; of tests that did not run now, what they provoked before stays."""
        before = errorpage.load(record)[1] if record.exists() else []
        kept = [row for row in before if (row.file, row.test) not in self.ran and is_there(row)]
        errorpage.save(record, [*AREAS], kept + self.seen)


def area(module: str) -> str:
    """The area of a module's file; empty if it has none."""
    name = module.removesuffix(".py").replace("/", ".")
    fits = (title for title, of in AREAS.items() if name.startswith(tuple(of.split())))
    return next(fits, "")


def plain(text: str) -> str:
    """A text without this machine's folders."""
    text = text.replace(f"{sys.prefix}/bin/", "")
    temporary = re.escape(tempfile.gettempdir())
    text = re.sub(rf"{temporary}/pytest-of-\w+/pytest-\d+/[^/\s,;:)']+", "/data", text)
    text = re.sub(rf"{temporary}/\w+", "/data", text)
    return text.replace(str(ROOT), "/lab").replace(str(Path.home()), "~").replace("\n", " ")
