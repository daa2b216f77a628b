"""Run table services on a Hudi table: compact, cluster, clean, archive; see `hudilab tidy --help`.

Run `hudilab tidy TABLE`, `hudilab submit tidy TABLE`, or `python -m hudilab_jobs.tidy TABLE`: by
hand or from a scheduler, beside the table's stream if that stream was started with `shared=True`.
Killing a run is harmless: the next run completes its plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import ParameterError
from hudilab_jobs import DryRun, Table, as_command, run_on_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_sink.services import TableServices


@dataclass(frozen=True, kw_only=True)
class Options:
    """Run table services on a Hudi table: compact, cluster, clean, archive."""

    table: Table
    compact: Annotated[
        bool | None,
        typer.Option(
            "--compact/--no-compact",
            help="Merge logs into base files; the default for MERGE_ON_READ.",
        ),
    ] = None
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Merge small files; not for bucketed tables.")
    ] = False
    clean: Annotated[
        bool, typer.Option("--clean", help="Delete files that only old commits need.")
    ] = False
    archive: Annotated[
        bool, typer.Option("--archive", help="Move old instants to the archived timeline.")
    ] = False
    dry_run: DryRun = False
    stopped: Annotated[
        bool,
        typer.Option("--stopped", help="No writer is running; needed if writers take no locks."),
    ] = False
    # By default as many commits as Hudi keeps.
    retain: Annotated[int, typer.Option(help="Commits that --clean keeps for time travel.")] = 10
    lock: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the streams' lock provider, on S3."),
    ] = None


def run(options: Options) -> Iterator[str]:
    """Run the services on the table, in the order of the options; yield a line for each.

    Raises:
        LabError: There is no table, no service, or one that does not fit the table or is not safe
            now; raised before anything is written.
    """
    if options.retain < 1:
        raise ParameterError(
            f"--retain {options.retain} is less than 1: the newest commit cannot be cleaned",
            "give at least 1: hudilab tidy TABLE --clean --retain 1",
        )
    lock = dict(_pair(text) for text in options.lock or ())

    def chosen(spark: SparkSession, uri: str) -> _ChosenServices:
        from hudi_sink.services import TableServices  # here: slow to load

        services = TableServices(spark, uri, stopped=options.stopped, lock=lock or None)
        names = _names(uri, services.table_type, options)
        services.check(compact="compact" in names, cluster="cluster" in names)
        return _ChosenServices(services, names, options.retain)

    return run_on_table("tidy", options.table, options.dry_run, chosen)


@dataclass(frozen=True)
class _ChosenServices:
    """Some of a table's services, as one task."""

    services: TableServices
    names: Sequence[str]
    retain: int

    def preview(self) -> Iterator[str]:
        return (self.services.preview(name, self.retain) for name in self.names)

    def check_safe(self) -> None:
        self.services.check_safe(*self.names)

    def run(self) -> Iterator[str]:
        self.check_safe()
        for name in self.names:
            arguments = (self.retain,) if name == "clean" else ()
            yield getattr(self.services, name)(*arguments)


def _names(uri: str, table_type: str, options: Options) -> list[str]:
    compact = table_type == "MERGE_ON_READ" if options.compact is None else options.compact
    wanted: Mapping[str, bool] = {
        "compact": compact,
        "cluster": options.cluster,
        "clean": options.clean,
        "archive": options.archive,
    }
    if names := [name for name, is_wanted in wanted.items() if is_wanted]:
        return names
    raise ParameterError(
        f"nothing to do for {uri}, which is {table_type}",
        f"choose services: hudilab tidy {uri} --cluster --clean --archive",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ParameterError(
            f"--lock {text!r} is not NAME=VALUE",
            "write an option of Hudi's lock provider: "
            "hudilab tidy TABLE --lock hoodie.write.lock.provider=CLASS",
        )
    return name, value


command = as_command(Options, run)

if __name__ == "__main__":
    typer.run(command)
