"""Run streams to their end, and raise an error with the cause if they fail."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

from hudilab.errors import StreamError, is_full, root_cause
from hudilab_spark.jvm import java_end

RESUMES = "the stream resumes from its checkpoint"


def drain(
    query: StreamingQuery,
    *,
    batches: int | None = None,
    deadline: float,
    signals: Sequence[int] = (),
) -> StreamingQuery:
    """Wait until micro-batch number `batches` (from 1) is committed, then stop the query.

    Without `batches`, wait until the query ends, as with the trigger `availableNow`. A terminal
    shows a progress bar. An interrupt also stops the query, and the next start resumes from the
    checkpoint.

    Args:
        deadline: Seconds.
        signals: The list of `signals.stop_on_signal`; a signal stops the query after its current
            batch, without an error.

    Raises:
        StreamError: The query or its JVM ended early, or the deadline passed.
    """
    with _explained_java_end():
        try:
            _await_batch(query, batches, deadline, signals)
        finally:
            # Also after an interrupted cell, because the query would compete with the next one.
            query.stop()
    return query


def _await_batch(
    query: StreamingQuery, batches: int | None, deadline: float, signals: Sequence[int]
) -> None:
    ends = time.monotonic() + deadline
    shown = 0
    # Only on a terminal, because a notebook shows stderr in red, and a log keeps each step.
    with tqdm(total=batches, unit="batch", desc="stream", disable=None) as bar:
        while True:
            done = batches_done(query)
            done = done if batches is None else min(done, batches)
            bar.update(done - shown)
            shown = done
            if batches is not None and done >= batches:
                return
            if signals:
                _stop(query)
                return
            if not query.isActive:
                if batches is None and query.exception() is None:
                    return
                raise _end(query, done, batches)
            if time.monotonic() > ends:
                raise StreamError(
                    f"only {_of(done, batches)} finished within {deadline:g} s",
                    f"raise the deadline and start again: {RESUMES}",
                )
            time.sleep(0.05)


def run_until_end(queries: Sequence[StreamingQuery], signals: Sequence[int] = ()) -> None:
    """Wait until all queries have ended, see `until_end`."""
    for _ in until_end(queries, signals):
        pass


def until_end(
    queries: Sequence[StreamingQuery], signals: Sequence[int] = ()
) -> Generator[None, None, None]:
    """Yield periodically until all queries have ended, and once more after that.

    If a query fails, its error is printed on stderr, and the others continue. A signal in `signals`
    (see `signals.stop_on_signal`) stops each query after its current batch.

    Raises:
        StreamError: A query failed, which is raised at the end, or the JVM ended.
    """
    failed: dict[StreamingQuery, StreamError] = {}
    with _explained_java_end():
        try:
            while any(query.isActive for query in queries):
                for query in queries:
                    if signals and query.isActive:
                        _stop(query)
                failed |= _report_failures(queries, failed)
                yield
                time.sleep(0.1)
        finally:
            for query in queries:
                query.stop()
        failed |= _report_failures(queries, failed)
        yield
    if failed:
        failures = list(failed.values())
        raise failures[0] if len(failures) == 1 else StreamError("; ".join(map(str, failures)))


@contextmanager
def _explained_java_end() -> Iterator[None]:
    """Raise an error about the end of the JVM instead of errors about its connection."""
    try:
        yield
    except (Py4JError, ConnectionError):
        if (end := java_end(patience=10)) is None:
            raise
        remedy = f"{end.remedy}: {RESUMES}"
        raise StreamError(f"the stream ended: {end.problem}", remedy) from None


def _report_failures(
    queries: Sequence[StreamingQuery], known: Mapping[StreamingQuery, StreamError]
) -> dict[StreamingQuery, StreamError]:
    failures = {}
    for query in queries:
        if query not in known and not query.isActive and query.exception():
            failures[query] = _end(query, batches_done(query), None)
            if any(other.isActive for other in queries):
                print(
                    f"hudilab: {failures[query]}; the other stream keeps running", file=sys.stderr
                )
    return failures


def _stop(query: StreamingQuery) -> None:
    """Stop a query after the current batch; the next batch may be interrupted and is repeated."""
    done, patience = batches_done(query), time.monotonic() + 60
    while query.isActive and query.status["isTriggerActive"] and batches_done(query) == done:
        if time.monotonic() > patience:
            break
        time.sleep(0.05)
    query.stop()


def batches_done(query: StreamingQuery) -> int:
    """Return the number of batches that the query has committed, from its last progress."""
    last = query.lastProgress
    if last is None:
        return 0
    # Spark also reports idle triggers, with the number of the next batch.
    return int(last["batchId"]) + ("addBatch" in last["durationMs"])


def _of(done: int, batches: int | None) -> str:
    return f"{done} batches" if batches is None else f"{done} of {batches} batches"


def _end(query: StreamingQuery, done: int, batches: int | None) -> StreamError:
    failure = query.exception()
    why = "it was stopped" if failure is None else root_cause(str(failure))
    if why.startswith("[INTERNAL_ERROR]"):  # Spark's message for any error of a source
        why = root_cause(_deepest(query))
    full = "free space on the disks of the table, its checkpoint and Spark's temporary files"
    remedy = full if is_full(why) else "fix the cause"
    return StreamError(
        f"the stream ended after {_of(done, batches)}: {why}",
        f"{remedy} and start again: {RESUMES}",
    )


def _deepest(query: StreamingQuery) -> str:
    """Return Java's message of the deepest cause of a query's failure."""
    thrown = query._jsq.exception().get()
    while (cause := thrown.getCause()) is not None:
        thrown = cause
    return str(thrown.toString())
