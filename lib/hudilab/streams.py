"""Run a bounded stream to its end, read its progress, and name what made it fail."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

from hudilab.errors import StreamError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["drain", "progress_rows", "root_cause", "run_until_end", "stop_on_signal"]

_THROWN = re.compile(
    r"(?:\s*Caused by: |: )?"
    r"((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Interrupt)(?::.*)?|\[[A-Z][A-Z0-9_.]+\] .*)"
)
# They carry a cause from one side of the bridge to the other, and say nothing themselves.
_CARRIER = re.compile(
    r"py4j\.|java\.util\.concurrent\.ExecutionException|[\w.]*PythonException"
    r"|.*Traceback \(most recent call last\):"
)


def drain(
    query: StreamingQuery,
    *,
    batches: int | None = None,
    deadline: float,
    asked: Sequence[int] = (),
) -> StreamingQuery:
    """Wait until micro-batch number `batches` (from 1) is committed, then stop the query.

    Without `batches`: until it ends by itself, as one with the trigger `availableNow` does.
    Shows a progress bar; `deadline` in seconds. An interrupt stops the query too; a signal in
    `asked` (see `stop_on_signal`) stops it when its batch is done, without an error. Raises
    StreamError with the root cause when the query fails or the deadline passes; the next start
    resumes from the checkpoint.
    """
    try:
        _await_batch(query, batches, deadline, asked)
    finally:
        # Also when a cell is interrupted: a query left behind would write beside the next one.
        query.stop()
    return query


def _await_batch(
    query: StreamingQuery, batches: int | None, deadline: float, asked: Sequence[int]
) -> None:
    ends = time.monotonic() + deadline
    with tqdm(total=batches, unit="batch", desc="stream") as bar:
        while True:
            done = _batches_done(query)
            done = done if batches is None else min(done, batches)
            if done > bar.n:  # each refresh is an output of the cell
                bar.update(done - bar.n)
            if batches is not None and done >= batches:
                return
            if asked:
                _stop(query)
                return
            if not query.isActive:
                if batches is None and query.exception() is None:
                    return
                raise StreamError(_end(query, done, batches))
            if time.monotonic() > ends:
                raise StreamError(
                    f"{_of(done, batches)} were done after {deadline:g} s; raise the deadline and "
                    "start again: the stream resumes from its checkpoint"
                )
            time.sleep(0.05)


def run_until_end(queries: Sequence[StreamingQuery], asked: Sequence[int] = ()) -> None:
    """Wait until all queries have ended by themselves; one that fails leaves the others running.

    A failure is told on stderr when it happens. A signal in `asked` (see `stop_on_signal`) stops
    each query when its batch is done. Raises StreamError, at the end, with each failure's cause.
    """
    failed: dict[StreamingQuery, str] = {}
    try:
        while any(query.isActive for query in queries):
            for query in queries:
                if asked and query.isActive:
                    _stop(query)
            failed |= _report_failures(queries, failed)
            time.sleep(0.1)
    finally:
        for query in queries:
            query.stop()
    failed |= _report_failures(queries, failed)
    if failed:
        raise StreamError("; ".join(failed.values()))


def _report_failures(
    queries: Sequence[StreamingQuery], known: Mapping[StreamingQuery, str]
) -> dict[StreamingQuery, str]:
    found = {}
    for query in queries:
        if query not in known and not query.isActive and query.exception():
            found[query] = _end(query, _batches_done(query), None)
            if any(other.isActive for other in queries):
                print(f"hudilab: {found[query]}; the other stream runs on", file=sys.stderr)
    return found


@contextmanager
def stop_on_signal() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of ending the program; restored afterwards.

    Enter it when the session is open: Spark installs a handler of its own with it.
    """
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: asked.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(query: StreamingQuery) -> None:
    """When the batch that runs is done; the next one may be cut off at its start, and is redone."""
    done, patience = _batches_done(query), time.monotonic() + 60
    while query.isActive and query.status["isTriggerActive"] and _batches_done(query) == done:
        if time.monotonic() > patience:
            break
        time.sleep(0.05)
    query.stop()


def _batches_done(query: StreamingQuery) -> int:
    last = query.lastProgress
    return 0 if last is None else int(last["batchId"]) + 1


def _of(done: int, batches: int | None) -> str:
    return f"{done} batches" if batches is None else f"{done} of {batches} batches"


def _end(query: StreamingQuery, done: int, batches: int | None) -> str:
    failure = query.exception()
    why = "it was stopped" if failure is None else root_cause(str(failure))
    return (
        f"the stream ended after {_of(done, batches)}: {why}; "
        "fix the cause and start again: the stream resumes from its checkpoint"
    )


def progress_rows(query: StreamingQuery) -> pd.DataFrame:
    """A row a micro-batch from the query's own progress.

    Columns: batch, rows, input_rate and processed_rate (rows a second; of a first batch nothing is
    known of its input), and the phases of Spark 3.5 `durationMs` in ms (addBatch is the write;
    triggerExecution is the whole).
    """
    import pandas as pd  # here: a job that is deployed has none, and shows no frames

    rows: list[dict[str, Any]] = []
    for progress in query.recentProgress:
        head = {"batch": progress["batchId"], "rows": progress["numInputRows"]}
        head["input_rate"] = progress.get("inputRowsPerSecond", 0.0)
        head["processed_rate"] = progress.get("processedRowsPerSecond", 0.0)
        rows.append(head | dict(progress["durationMs"]))
    return pd.DataFrame(rows).fillna(0)


def root_cause(text: str) -> str:
    """The deepest cause in an error's text, Java's or Python's: `Type: message` in one line.

    One whose message says nothing (`None.get`) is followed by the one that it is in.
    """
    lines = [line.rstrip() for line in text.partition("=== Streaming Query ===")[0].splitlines()]
    thrown = []
    for number, line in enumerate(lines):
        if match := _THROWN.fullmatch(line):
            rest = takewhile(_goes_on, lines[number + 1 :]) if line.endswith(":") else ()
            thrown.append(" ".join((match[1], *rest)))
    real = [cause for cause in thrown if not _CARRIER.match(cause)]
    texts = [line.strip() for line in lines if line.strip()]
    if "Traceback (" not in text:
        texts = texts[:1]
    cause = _one_line((real or thrown or texts or ["no message"])[-1])
    above = [_one_line(other) for other in real if _one_line(other) != cause]
    silent = " " not in cause.partition(": ")[2]
    return f"{cause}, in {above[-1]}" if silent and above else cause


def _one_line(text: str) -> str:
    return text.replace("\t", " ").rstrip(" :;")


def _goes_on(line: str) -> bool:
    """Whether a message that ends in a colon goes on here: no stack frame, no next error."""
    return line[:1].strip() != "" and not _THROWN.fullmatch(line)
