"""Find the number of rows in files, or count rows with hudi-rs."""

from __future__ import annotations

from collections.abc import Iterable

from hudi_inspect.archive import Archive
from hudi_inspect.errors import InspectError, TooLarge, Unreadable
from hudi_inspect.parquet import FOOTER, STEPS, Damaged, count_rows, footer_size
from hudi_inspect.records import CommitFile, parse_commit
from hudi_inspect.slices import Slice
from hudi_inspect.store import Store, typed
from hudi_inspect.units import quoted

MAX_FOOTERS = 1000  # of files whose row count no commit contains
SHARES = 12  # footers with all their steps, which take ten seconds together
MAX_FOOTER = 16777216  # bytes


def with_rows(
    store: Store,
    slices: list[Slice],
    commits: Iterable[CommitFile],
    archive: Archive,
    problems: list[InspectError],
) -> list[Slice]:
    """Fill in the row counts of base files without logs, from commits or footers."""
    plain = {part.base: part for part in slices if part.base and not _has_rows_in_logs(part)}
    latest = {base: part for base, part in plain.items() if part.is_latest}
    rows: dict[str, int | None]
    rows = {stat.path: stat.writes for commit in commits for stat in commit.stats}
    times = {part.instant for base, part in latest.items() if base not in rows}
    if times:
        for commit in archive.contents(times, parse_commit).values():
            rows |= {stat.path: stat.writes for stat in commit.stats}
    # Footers of other formats are not read, so without a commit, the count stays unknown.
    missing = [base for base in latest if base not in rows and base.endswith(".parquet")]
    if missing and len(missing) <= MAX_FOOTERS:
        left = [STEPS * SHARES]
        counts = store.each(lambda path: _footer_rows(store, path, left), missing)
        problems += [count for count in counts if isinstance(count, InspectError)]
        rows |= {
            path: count
            for path, count in zip(missing, counts, strict=True)
            if not isinstance(count, InspectError)
        }
    return [
        part._replace(rows=rows.get(part.base)) if part.base in plain else part for part in slices
    ]


def _has_rows_in_logs(part: Slice) -> bool:
    # Logs of change data capture only repeat rows.
    return any(not log.endswith(".cdc") for log in part.logs)


def _footer_rows(store: Store, path: str, left: list[int]) -> int | InspectError | None:
    """Return the number of rows in a Parquet file; None if its footer is encrypted or not read.

    Args:
        left: The remaining steps for this and other footers.
    """
    if left[0] < STEPS:
        return None
    steps = [STEPS]
    try:
        tail = store.read(path, FOOTER)
        if tail.endswith(b"PARE"):
            return None
        if (size := footer_size(tail)) > len(tail):
            tail = store.read(path, size, MAX_FOOTER)
        return count_rows(tail, steps)
    except (Damaged, Unreadable) as error:
        if isinstance(error, TooLarge) or steps[0] < 0:
            return InspectError(
                f"the footer of the data file {store.uri}/{path} is not read ({error})",
                f"to count its rows, read the data: hudi-inspect {quoted(store.uri)} --count",
            )
        what = f"cannot be read ({error})" if str(error) else "is not a complete Parquet file"
        return InspectError(
            f"the data file {store.uri}/{path} {what}",
            f"look at it first ({typed(f'{store.uri}/{path}', 'ls')}), then restore it from a "
            "backup, or return to a savepoint, which removes all later commits: CALL "
            "rollback_to_savepoint(table => 'NAME', instant_time => 'T')",
        )
    finally:
        left[0] -= STEPS - steps[0]


def count_snapshot(store: Store, groups: int) -> int:
    """Count the rows of a snapshot query with hudi-rs, and check its number of file groups."""
    from hudi import HudiReadOptions, HudiTableBuilder

    # hudi-rs percent-decodes URIs, but not paths.
    location = store.uri.removeprefix("file://")
    try:
        builder = HudiTableBuilder.from_base_uri(location)
        table = builder.with_storage_options(store.storage_options()).build()
        if (seen := len(table.get_file_slices())) != groups:
            raise ValueError(f"it sees {seen} of {groups} file groups")
        return sum(batch.num_rows for batch in table.read_stream(HudiReadOptions()))
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # Any failure of hudi-rs is reported with its own message; its panics are not Exceptions.
    except BaseException as error:  # noqa: BLE001
        why = " ".join(str(error).split())[:200]
        raise InspectError(
            f"hudi-rs cannot count the rows of {store.uri}: {why}",
            f"omit --count: hudi-inspect {quoted(store.uri)}",
        ) from None
