"""Run table services on a Hudi table: compact, cluster, clean, archive; see `hudilab tidy --help`.

Run `hudilab tidy TABLE`, `hudilab submit tidy TABLE`, or `python -m hudilab.jobs.tidy TABLE`: by
hand or from a scheduler, beside the table's stream if that stream was started with `shared=True`.
Killing a run is harmless: the next run completes its plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import ParameterError, TableError
from hudilab.jobs import one_line

if TYPE_CHECKING:
    from hudilab.writer.upkeep.services import TableServices

__all__ = ["command", "run"]

RETAIN = 10  # commits that cleaning keeps, as Hudi does by default


def run(
    table: str,
    *,
    compact: bool | None = None,
    cluster: bool = False,
    clean: bool = False,
    archive: bool = False,
    dry_run: bool = False,
    stopped: bool = False,
    retain: int = RETAIN,
    lock: Sequence[str] = (),
) -> Iterator[str]:
    """Run the services on the table at a path or URI, in this order; yield a line for each.

    Args:
        compact: None: if the table is MERGE_ON_READ.
        retain: The number of commits that cleaning keeps.
        lock: Options of the streams' lock provider, as NAME=VALUE; for a table on an object store.

    Raises:
        LabError: There is no table, no service, or one that does not fit the table or is not safe
            now; raised before anything is written.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab.runtime.places import table_uri
    from hudilab.runtime.session import open_session
    from hudilab.runtime.settings import load_settings
    from hudilab.writer.upkeep.services import TableServices

    if retain < 1:
        raise ParameterError(
            f"--retain {retain} is less than 1: the newest commit cannot be cleaned; give at least "
            "1: hudilab tidy TABLE --clean --retain 1"
        )
    options = dict(_pair(one) for one in lock)
    settings = load_settings()
    uri = table_uri(table, settings, "tidy")
    spark = open_session(settings, app="tidy")
    try:
        services = TableServices(spark, uri, stopped=stopped, lock=options or None)
        if compact is None:
            compact = services.table_type == "MERGE_ON_READ"
        chosen = {"compact": compact, "cluster": cluster, "clean": clean, "archive": archive}
        names = _names(uri, services.table_type, chosen)
        services.check(compact=compact, cluster=cluster)
        if dry_run:
            yield from (services.preview(name, retain) for name in names)
            yield _safe_now(services, names)
            return
        services.check_safe(*names)
        for name in names:
            yield services.clean(retain) if name == "clean" else getattr(services, name)()
    finally:
        spark.stop()


def _names(uri: str, table_type: str, chosen: Mapping[str, bool]) -> list[str]:
    if names := [name for name, wanted in chosen.items() if wanted]:
        return names
    raise ParameterError(
        f"nothing to do for {uri}, which is {table_type}; choose services: "
        f"hudilab tidy {uri} --cluster --clean --archive"
    )


def _safe_now(services: TableServices, names: list[str]) -> str:
    try:
        services.check_safe(*names)
    except TableError as error:
        return f"refused now: {error}"
    return "safe now"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ParameterError(
            f"--lock {text!r} is not NAME=VALUE; write an option of Hudi's lock provider: "
            "hudilab tidy TABLE --lock hoodie.write.lock.provider=CLASS"
        )
    return name, value


def command(
    table: Annotated[str, typer.Argument(help="A path, or a file://, s3:// or s3a:// URI.")],
    compact: Annotated[
        bool | None,
        typer.Option(
            "--compact/--no-compact",
            help="Merge logs into base files; the default for MERGE_ON_READ.",
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Merge small files; not for bucketed tables.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Delete files that only old commits need.")
    ] = False,
    archive: Annotated[
        bool, typer.Option("--archive", help="Move old instants to the archived timeline.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
    ] = False,
    stopped: Annotated[
        bool,
        typer.Option("--stopped", help="No writer is running; needed if writers take no locks."),
    ] = False,
    retain: Annotated[
        int, typer.Option(help="Commits that --clean keeps for time travel.")
    ] = RETAIN,
    lock: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the streams' lock provider, on S3."),
    ] = None,
) -> None:
    """Run table services on a Hudi table: compact, cluster, clean, archive."""
    with one_line():
        lines = run(
            table,
            compact=compact,
            cluster=cluster,
            clean=clean,
            archive=archive,
            dry_run=dry_run,
            stopped=stopped,
            retain=retain,
            lock=lock or (),
        )
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    typer.run(command)
