"""Start a lesson in one line: check its parameters, open the session, reset its tables."""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from IPython.core.getipython import get_ipython
from IPython.display import Pretty, display
from matplotlib import get_backend, rcParams
from matplotlib.rcsetup import cycler
from pyspark.sql import DataFrame, SparkSession

from hudi_sink.files import delete_tree, list_files
from hudilab.errors import ParameterError, SessionError, show_log
from hudilab.files import private_folder
from hudilab.generate import check_sizes, readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.settings import Settings, load_settings
from hudilab_lessons.plots import SERIES, describe_pictures
from hudilab_lessons.timeline import tree_of
from hudilab_spark.conf import add_hudi_defaults
from hudilab_spark.session import describe, open_session
from hudilab_spark.warehouse import LESSONS, make_home, prepare, reset, sql_path

if TYPE_CHECKING:
    from hudilab.table import TableSpec
    from hudilab_cli.servers import Name
    from hudilab_lessons.servers import Servers

_HELD: dict[Path, int] = {}  # open files, locked until this process ends


@dataclass(frozen=True)
class Lab:
    """A lesson's session, settings and parameters; `start` makes it."""

    spark: SparkSession
    settings: Settings
    run_id: str = ""
    sizes: dict[str, Any] = field(default_factory=dict)
    servers: Servers | None = None  # once the lesson needs one

    def location(self, table: str = "", *, afresh: bool = True) -> TableLocation:
        """Locate a table, the configured one by default, and delete what an earlier run left there.

        Prints nothing: `start` has printed where the tables are, and compared cells must not print
        a path.

        Args:
            afresh: False keeps the table and its checkpoint.

        Raises:
            PathError, S3Error: The warehouse is not writable.
            TableError: The table exists, in a warehouse where lessons must not delete anything.
        """
        location = prepare(
            self.settings, run_id=self.run_id, table=table, database=LESSONS, quiet=True
        )
        if afresh:
            reset(self.spark, self.settings, location, quiet=True)
        return location

    def new_table(self, name: str, **fields: Any) -> tuple[TableSpec, TableLocation]:
        """Return the spec and the empty location of a table of readings; free its name in SQL.

        Args:
            fields: Fields of TableSpec that differ from those of `readings_table`.

        Raises:
            TableError: The fields contradict each other, or `location` fails.
        """
        spec = readings_table(name=name, **fields)
        location = self.location(name)
        self.spark.sql(f"DROP TABLE IF EXISTS {name}")
        return spec, location

    def readings(self, rows: int, *, first: int = 0, sensors: int = 0) -> DataFrame:
        """Return `sensor_readings` `first` to `rows` - 1 with the lesson's seed and sensors."""
        return sensor_readings(self.spark, rows, first=first, **self._made_of(sensors))

    def stream(self, rows_per_batch: int, **bounds: Any) -> DataFrame:
        """Return `sensor_stream` with the lesson's seed and sensors; bounds: `rows`, `first`."""
        return sensor_stream(
            self.spark, rows_per_batch=rows_per_batch, **bounds, **self._made_of(0)
        )

    def files(self, uri: str) -> list[str]:
        """Return the files below a folder, as paths relative to it; none if there is no folder."""
        return [file.path for file in list_files(self.spark, uri)]

    def sql_path(self, table: TableLocation | str) -> str:
        """Return a table's URI for the text of an SQL statement: see `warehouse.sql_path`."""
        return sql_path(self.spark, table.table if isinstance(table, TableLocation) else table)

    def storage_options(self) -> dict[str, str]:
        """Return what readers without Spark need for the warehouse: see `storage_options`."""
        from hudilab_spark.s3 import storage_options

        return storage_options(self.settings)

    def remove(self, uri: str) -> None:
        """Delete a file or a folder, if it exists."""
        delete_tree(self.spark, uri)

    def tree(self, uri: str, folder: str = "") -> str:
        """Return a table's files, or those of one folder, as the tree of `tree_of`."""
        return tree_of(self.files(uri), folder)

    def service(self, name: Name, *, own: bool = False) -> Any:
        """Return a running server, or start one that `close` stops: see `Servers.get`."""
        if self.servers is None:
            object.__setattr__(self, "servers", _servers(self.settings))
        return cast("Servers", self.servers).get(name, own=own)

    def close(self, *others: Any) -> None:
        """Stop the lesson's streams and, in a headless run, its session and the servers it started.

        A person may still try the exercises, so in JupyterLab session and servers stay.

        Args:
            others: Objects that a headless run closes, too.
        """
        for query in self.spark.streams.active:
            query.stop()
        if has_person():
            print("the session stays open for the exercises; Kernel > Shut Down Kernel ends it")
            if self.servers and self.servers.started:
                print("servers stay, too; to stop them: hudilab services stop NAME")
            return
        for other in others:
            other.close()
        self.spark.stop()
        if self.servers:
            self.servers.stop()

    def _made_of(self, sensors: int) -> dict[str, int]:
        return {"sensors": sensors or self.sizes.get("sensors", 1), "seed": self.sizes["seed"]}


def _servers(settings: Settings) -> Servers:
    from hudilab_lessons.servers import Servers  # here: most lessons need none

    return Servers(settings)


def start(
    app: str,
    runtime: str = "",
    run_id: str | int = "",
    *,
    settings: Settings | None = None,
    groups: Sequence[str] = ("core",),
    services: Sequence[Name] = (),
    **sizes: Any,
) -> Lab:
    """Check a lesson's parameters, load the settings and open a session; print each result.

    Pictures get the colours of `plots.SERIES`, and alternative text.

    Args:
        app: the name of the lesson and of its session.
        run_id: a whole number counts as its text: papermill makes numbers of `-p run_id 20261127`.
        settings: used instead of those that `runtime` names.
        groups: the groups of jars that the session needs.
        services: the servers that the session needs, started as `Servers.prepare` does.
        sizes: the lesson's parameters, checked by `check_sizes`.

    Raises:
        ParameterError: A parameter is unknown, has the wrong type or is out of range, or another
            process runs the lesson with this run_id; raised before anything starts.
        SessionError: This Python skips the lessons' checks.
        ConfigError, JavaError, JarError, PathError, ServiceError, SessionError: See
            `load_settings`, `open_session` and `Servers.get`.
    """
    check_asserts()
    _refuse_unknown()
    sizes.setdefault("seed", 0)
    check_sizes(**sizes)
    runtime, run_id = _text("runtime", runtime), _text("run_id", run_id)
    settings = settings or load_settings(runtime)
    make_home(settings.home)
    servers = _servers(settings) if services else None
    if servers:
        for name in services:
            servers.prepare(name)
        settings = servers.settings
    folder = prepare(settings, run_id=run_id, database=LESSONS).table.rpartition("/")[0]
    show_log()
    hold(settings.home, app, folder, run_id)
    lab = Lab(open_session(settings, app, groups), settings, run_id, sizes, servers)
    if folder.startswith("s3a:"):
        _close_connections(lab.spark, folder)
    _show_pictures()
    rcParams["axes.prop_cycle"] = cycler(color=SERIES)
    describe_pictures()
    _show_streams_as_columns()
    print("checked", ", ".join(f"{name}={value}" for name, value in sizes.items()))
    print(describe(lab.spark))
    print("tables ", f"{folder}; each is deleted before the lesson writes it")
    if has_person():
        show_sections(Path(os.environ.get("JPY_SESSION_NAME", "")))
    return lab


def _close_connections(spark: SparkSession, folder: str) -> None:
    """Let each commit to S3 compact its metadata table, so that plain writes leak no connection."""
    from hudi_sink.metadata import closing_options  # here, because a lesson on a disk needs none

    add_hudi_defaults(spark._jvm, closing_options(folder))


def check_asserts() -> None:
    """Raise SessionError if this Python skips `assert`, and with it every check of a lesson."""
    if sys.flags.optimize:
        given = os.environ.get("PYTHONOPTIMIZE")
        cause = f"PYTHONOPTIMIZE={given}" if given else "python -O"
        raise SessionError(
            f"{cause} makes Python skip each assert, so no lesson would check its results",
            "start it without that option: unset PYTHONOPTIMIZE",
        )


def hold(home: Path, lesson: str, folder: str, run_id: str) -> None:
    """Keep the lesson's tables in a folder for this process, until it ends.

    The lock is a file in the home: runs with different homes do not see each other.

    Raises:
        ParameterError: Another process runs the lesson in the same folder.
    """
    name = hashlib.sha256(f"{lesson}\n{folder}".encode()).hexdigest()[:16]
    file = home / "locks" / f"run-{name}"
    if file in _HELD:
        return
    private_folder(file.parent)
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        raise ParameterError(
            f"run_id={run_id!r}: process {other} is running {lesson} with the same tables, in "
            f"{folder}",
            "wait for it, shut down its kernel, or use another run_id: -p run_id NAME",
        ) from None
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    _HELD[file] = lock


def has_person() -> bool:
    """Return whether a front end that a person uses runs this kernel, and not a headless run."""
    kernel = getattr(get_ipython(), "kernel", None)  # none in a plain Python
    return bool(kernel and kernel.get_parent("shell").get("content", {}).get("allow_stdin"))


def show_sections(notebook: Path) -> None:
    """Show below the current cell which section of the notebook is running, and for how long.

    Jupyter's server sets JPY_SESSION_NAME to the notebook's path. Other front ends show nothing.
    """
    shell = get_ipython()
    if shell is None or notebook.suffix != ".ipynb" or not notebook.is_file():
        return
    section_of, titles = {}, [""]
    if not (cells := _saved_cells(notebook)):
        return
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            titles.append(text.splitlines()[0].removeprefix("## "))
        section_of[cell.get("id")] = len(titles) - 1
    began, line = time.monotonic(), display(Pretty(""), display_id=True)

    def update(cell: Any) -> None:
        if section := section_of.get(cell.cell_id, 0):
            seconds = f"{time.monotonic() - began:.0f} s after the start"
            where = f"section {section} of {len(titles) - 1}"
            line.update(Pretty(f"{where}: {titles[section]}, {seconds}"))

    shell.events.register("pre_run_cell", update)


def _saved_cells(notebook: Path) -> list[Any]:
    """Return the cells of a notebook's file; none if it has no whole notebook for a second."""
    for _ in range(10):
        try:
            return list(json.loads(notebook.read_text("utf-8"))["cells"])
        except ValueError:  # JupyterLab empties the file, and then writes it
            time.sleep(0.1)
    return []


def _text(name: str, value: Any) -> str:
    """Return a parameter as text; papermill has made a number of one that looks like a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ParameterError(
        f"{name}={value!r} is not text",
        f"write it in quotes in the parameters cell, or give it with papermill -r {name} TEXT",
    )


def _refuse_unknown() -> None:
    """Refuse parameters that the notebook lacks: papermill injects them, and only warns."""
    shell = get_ipython()
    cells = [str(cell) for cell in shell.user_ns.get("In", ())] if shell else []
    injected = [n for n, cell in enumerate(cells) if cell.startswith("# Parameters\n")]
    if not injected:
        return
    known = set().union(*map(_assigned, cells[: injected[-1]]))
    unknown = _assigned(cells[injected[-1]]) - known
    if unknown and {"run_id", "runtime"} <= known:  # else it is no lesson's cell of parameters
        raise ParameterError(
            f"unknown parameter {', '.join(sorted(unknown))}",
            "the notebook's parameters are described by: papermill --help-notebook NOTEBOOK",
        )


def _assigned(cell: str) -> set[str]:
    """Return the names that a cell gives values to; none if it is not plain Python."""
    try:
        lines = ast.parse(cell).body
    except SyntaxError:
        return set()
    targets = [target for line in lines if isinstance(line, ast.Assign) for target in line.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _show_pictures() -> None:
    """Show pictures in the notebook although MPLBACKEND names a window, or nothing at all.

    Without a screen, matplotlib has replaced a window's backend by another name.
    """
    shell, chosen = get_ipython(), os.environ.get("MPLBACKEND", "")
    inside = get_backend().lower().startswith(("module://", "inline", "ipympl", "widget"))
    if shell and getattr(shell, "kernel", None) and not (inside or chosen.startswith("module://")):
        shell.enable_matplotlib("inline")


def _show_streams_as_columns() -> None:
    """Let this notebook show a streaming DataFrame: its rows, which Spark tries to show, raise."""
    shell = get_ipython()
    if shell is None or shell.display_formatter is None:
        return

    def text(frame: DataFrame) -> str:
        if frame.isStreaming:
            return f"DataFrame[{', '.join(map(': '.join, frame.dtypes))}]"
        return repr(frame).rstrip()

    formatters = shell.display_formatter.formatters
    formatters["text/plain"].for_type(
        DataFrame, lambda frame, printer, _: printer.text(text(frame))
    )
    formatters["text/html"].for_type(
        DataFrame, lambda frame: None if frame.isStreaming else frame._repr_html_()
    )
