"""Run notebooks headless, and save the executed notebooks as HTML, too."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import papermill
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from papermill.exceptions import PapermillExecutionError

from hudilab.errors import LabError, ParameterError, PathError, is_full, root_cause
from hudilab.files import private_folder
from hudilab.generate import check_sizes
from hudilab.paths import check_run_id
from hudilab.settings import Settings
from hudilab_cli import kernel
from hudilab_cli.parameters import defaults, parse
from hudilab_jobs.settings import load_settings
from hudilab_spark.environment import JAVA_OPTIONS, take_over
from hudilab_spark.java import FAST_START
from hudilab_spark.jvm import ENDED
from hudilab_spark.preflight import check_machine

TIMEOUT = 3600  # seconds per cell; the slowest cell of the lessons takes a minute
# A fast start makes lessons 02 and 03 faster up to some 500,000 rows, and slower with two million.
SMALL = 200_000

_Failure: TypeAlias = PapermillExecutionError | DeadKernelError | CellTimeoutError
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_EXERCISES = frozenset({"exercise", "check", "solution"})  # tags of their cells
# nbconvert's own template drops the alternative text of a cell's picture.
_PAGE = """{%- extends "index.html.j2" -%}
{% block data_png scoped %}
{%- set alt = '<img alt="%s" ' | format(output | get_metadata("alt", "image/png") | escape_html) -%}
{{ super() | replace("<img ", alt, 1) }}
{%- endblock data_png %}
"""
_PREDICTION = "prediction"  # its cell may contain code that later cells need
_SIZES = ("rows", "batches", "sensors", "tickers", "seed", "trigger_seconds", "table_type")


class NotebookFailed(LabError):
    """A notebook failed; the error contains the cause, the log and the executed notebook."""


def find_notebook(name: str, project: Path) -> Path:
    """Return the notebook with this path, or with this name or number in `notebooks/`.

    Raises:
        ParameterError: no notebook has this path, name or number.
    """
    folder = project / "notebooks"
    numbered = sorted(folder.glob("[0-9]*.ipynb"))
    by_number = [path for path in numbered if path.name.startswith(f"{name:0>2}_")]
    for path in (Path(name), folder / name, folder / f"{name}.ipynb", *by_number):
        if path.suffix == ".ipynb" and path.is_file():
            return path.resolve()
    names = ", ".join(path.stem for path in numbered)
    raise ParameterError(f"notebook {name!r} does not exist", f"give a path, or one of: {names}")


def run_notebooks(
    names: Sequence[str],
    given: Sequence[tuple[str, str]],
    settings: Settings,
    out: Path | None,
    timeout: int = TIMEOUT,
    exercises: bool = False,
) -> list[str]:
    """Run the notebooks in order, each with the given parameters that it declares.

    Return the output of the cells tagged `result`.

    Args:
        out: folder for the executed notebooks and their HTML; by default `<home>/executed`.
        timeout: maximum seconds of a cell; 0 for no limit.
        exercises: Also run the cells of the exercises, with their solutions.

    Raises:
        ParameterError: a notebook or parameter is wrong (raised before any kernel starts), or
            another run is writing the same executed notebook.
        PathError: a folder cannot be created.
        NotebookFailed: a cell or the kernel failed; later notebooks do not run.
    """
    notebooks = [find_notebook(name, settings.project) for name in names]
    known = [defaults(notebook) for notebook in notebooks]
    union = {name: value for parameters in known for name, value in parameters.items()}
    values = parse(given, union, ", ".join(notebook.name for notebook in notebooks))
    for parameters in known:
        sizes = {name: values.get(name, parameters[name]) for name in _SIZES if name in parameters}
        if {"rows", "batches"} <= sizes.keys():
            check_sizes(**sizes)
    check_run_id(str(values.get("run_id", "")))
    if runtime := values.get("runtime"):
        load_settings(str(runtime))
    check_machine(settings)
    take_over(str(values.get("runtime") or settings.runtime))
    folder = (out or settings.home / "executed").absolute()
    _make_folders(folder, notebooks, settings)
    results: list[str] = []
    for notebook, parameters in zip(notebooks, known, strict=True):
        changed = {name: value for name, value in values.items() if name in parameters}
        executed = folder / notebook.name
        with _alone(executed, settings), _room_for(executed):
            copy_notebook(notebook, executed, exercises=exercises)
            inherited = os.environ.get(JAVA_OPTIONS, "")
            options = jvm_options(parameters | changed, settings.runtime, inherited)
            with _inherited(**{JAVA_OPTIONS: options}):
                results += _run(executed, changed, settings, timeout, notebook.parent)
    return results


@contextmanager
def _room_for(executed: Path) -> Iterator[None]:
    """Raise PathError if the disk is full, because papermill saves the notebook after each cell."""
    try:
        yield
    except OSError as error:
        if not is_full(str(error)):
            raise
        raise PathError(
            f"the executed notebook {executed} cannot be written ({error.strerror})",
            "free space on that disk, or set HUDILAB_HOME to a folder on another disk, and run it "
            "again",
        ) from None


def _make_folders(folder: Path, notebooks: Sequence[Path], settings: Settings) -> None:
    """Create the folders of the executed notebooks and the logs."""
    if any(notebook.parent == folder.resolve() for notebook in notebooks):
        raise ParameterError(
            f"--out {folder} would overwrite the notebook", "choose another folder"
        )
    for needed in (folder, settings.home / "logs"):
        try:
            private_folder(settings.home)
            needed.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PathError(
                f"cannot create {needed}: {error.strerror}", "choose another --out or HUDILAB_HOME"
            ) from None


def jvm_options(values: Mapping[str, Any], runtime: str, inherited: str = "") -> str:
    """Return the options of a notebook's JVM, for a fast start if it writes few rows.

    On AWS, where a job may have many machines, there is no fast start. A cluster's executors get
    the same options.

    Args:
        values: The notebook's parameters; without `rows`, it may write many rows.
        runtime: The runtime, unless the parameter `runtime` overrides it.
        inherited: Options of the caller, which come last, because the JVM uses the last value.
    """
    rows, where = values.get("rows"), str(values.get("runtime") or runtime).upper()
    if where in ("LOCAL", "DOCKER") and isinstance(rows, int) and rows <= SMALL:
        return f"{FAST_START} {inherited}".rstrip()
    return inherited


@contextmanager
def _inherited(**variables: str) -> Iterator[None]:
    """Set variables for the next kernel and its JVM, then restore the caller's own."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _alone(executed: Path, settings: Settings) -> Iterator[None]:
    """Raise ParameterError if another run is writing the same executed notebook."""
    locks = settings.home / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / hashlib.sha256(bytes(executed)).hexdigest()[:16]).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(
                f"another run is writing {executed}", "wait for it, or choose another --out"
            ) from None
        yield


def copy_notebook(notebook: Path, executed: Path, *, exercises: bool) -> None:
    """Copy the notebook for its execution, with `exercises` including the exercises' cells."""
    nb = nbformat.read(notebook, as_version=4)
    if not exercises:
        tagged = [(set(cell.metadata.get("tags", [])), cell) for cell in nb.cells]
        nb.cells = [cell for tags, cell in tagged if _PREDICTION in tags or not _EXERCISES & tags]
    nbformat.write(nb, executed)


class _Kernel(AsyncKernelManager):
    """Starts this Python's own kernel, not the kernel that a notebook or a user's folders name."""

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, str(kernel.__file__), "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")

    async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
        """Start the kernel with the log as its stdout and stderr."""
        with Path(os.environ["HUDILAB_LOG_FILE"]).open("ab") as log:
            await super().start_kernel(**options, stdout=log, stderr=log)


@contextmanager
def _messages_to(log: Path) -> Iterator[None]:
    """Write the log messages of a run's libraries to its log."""
    handler, root = logging.FileHandler(log), logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        handler.close()


def _run(
    executed: Path, values: dict[str, Any], settings: Settings, timeout: int, folder: Path
) -> list[str]:
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    log = settings.home / "logs" / f"{executed.stem}-{started}-{os.getpid()}.log"
    print(f"{executed.name}: log {log}", flush=True)
    failure: _Failure | None = None
    path = str(executed).replace("{", "{{").replace("}", "}}")  # papermill formats it
    try:
        with _inherited(HUDILAB_LOG_FILE=str(log)), _messages_to(log):
            papermill.execute_notebook(
                path,
                path,
                parameters=values,
                kernel_name="python3",
                language="python",
                kernel_manager_class=_Kernel,
                log_output=False,
                progress_bar={"disable": None},  # a terminal has one
                execution_timeout=timeout,
                extra_arguments=["--log-level=CRITICAL"],  # hide the kernel's own messages
            )
    except (PapermillExecutionError, DeadKernelError, CellTimeoutError) as error:
        failure = error
    except OSError as error:
        if is_full(str(error)):
            raise
        raise NotebookFailed(
            f"{executed.name}: the run stopped: {error}",
            f"see the log {log}, and check memory and disk with: hudilab doctor",
        ) from error
    except RuntimeError as error:  # of nbclient, while it waits for the kernel
        raise NotebookFailed(
            f"{executed.name}: the kernel did not start: {_last(log, error)}",
            f"see the log {log}, and check this machine with: hudilab doctor",
        ) from error
    html = executed.with_suffix(".html")
    html.write_text(as_html(executed, folder), encoding="utf-8")
    if failure is not None:
        raise _failed(failure, log, executed, timeout) from failure
    print(f"{executed.name}: executed {executed}, HTML {html}", flush=True)
    return _results(executed)


def as_html(executed: Path, folder: Path) -> str:
    """Return an executed notebook as an HTML page with the pictures that it links in `folder`."""
    nb = nbformat.read(executed, as_version=4)
    where = {"path": str(folder), "name": executed.stem}
    exporter = HTMLExporter(embed_images=True, raw_template=_PAGE)
    return str(exporter.from_notebook_node(nb, resources={"metadata": where})[0])


def _failed(failure: _Failure, log: Path, executed: Path, timeout: int) -> NotebookFailed:
    """Return the error for a failed cell or kernel."""
    remedy = f"see the log {log} and the executed notebook {executed}"
    if isinstance(failure, DeadKernelError):
        problem = "the kernel was killed"
        remedy = f"free memory, or use fewer rows; {remedy}"
    elif isinstance(failure, CellTimeoutError):
        cells = nbformat.read(executed, as_version=4).cells
        number, cell = [(n, cell) for n, cell in enumerate(cells) if _has_started(cell)][-1]
        problem = f"cell {number} did not finish within {timeout} s: {_first(cell.source)!r}"
        remedy = f"raise the limit with --timeout SECONDS (0: no limit); {remedy}"
    else:
        cause = root_cause(_ANSI.sub("", f"{failure.ename}: {failure.evalue}"))
        if failure.ename.startswith(("Py4J", "ConnectionRefused")):
            cause = _java_end(log) or cause
        problem = f"cell {failure.cell_index} failed at {_first(failure.source)!r}: {cause}"
        if is_full(cause) and "free space" not in cause:
            remedy = f"free space on that disk and run it again; {remedy}"
    return NotebookFailed(f"{executed.name}: {problem}", remedy)


def _last(log: Path, error: Exception) -> str:
    """Return the kernel's last line before this error in its log, or the error."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    words = [line.strip() for line in lines if line.strip() and str(error) not in line]
    return words[-1] if words else str(error)


def _java_end(log: Path) -> str:
    """Return the log's line about the end of a session's JVM; empty if it is running."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    return next((line.removeprefix(ENDED) for line in lines if line.startswith(f"{ENDED}Java")), "")


def _first(source: str) -> str:
    return next((line for line in source.splitlines() if line.strip()), "")


def _has_started(cell: Any) -> bool:
    return cell.metadata.get("papermill", {}).get("start_time") is not None


def _results(executed: Path) -> list[str]:
    return [
        str(output.text).strip()
        for cell in nbformat.read(executed, as_version=4).cells
        if "result" in cell.metadata.get("tags", [])
        for output in cell.outputs
        if output.output_type == "stream"
    ]
