"""Run notebooks and rewrite the outputs that git keeps; no argument: all. Review the diff.

Each runs in a fresh HUDILAB_HOME, so that no table of a user has a say in what is kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from nbstripout import strip_output

from hudilab.errors import LabError, root_cause
from hudilab_cli.runner import find_notebook

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
from contract.checks import METADATA, unkept  # noqa: E402

# They choose other settings; what is kept is what a reader gets who has set none of them.
UNSET = (
    *("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_LOG_FILE", "BOOTSTRAP_SERVERS"),
    *("SPARK_MASTER_URL", "SPARK_MASTER_WEBUI_PORT", "HUDILAB_WAREHOUSE"),
)


def main(names: list[str]) -> int:
    """Exit code 1 if a notebook fails, or prints what must not be kept; the others are done."""
    code = 0
    for name in names or sorted(map(str, (ROOT / "notebooks").glob("*.ipynb"))):
        try:
            path = find_notebook(name, ROOT)
            print(f"{path.name}: {'rewritten' if rewrite(path) else 'unchanged'}", flush=True)
        except LabError as error:
            print(f"golden: {error}", file=sys.stderr, flush=True)
            code = 1
    return code


def rewrite(path: Path) -> bool:
    """Run one notebook and write it back; whether that changed it."""
    before = path.read_bytes()
    with tempfile.TemporaryDirectory() as home:
        try:
            nb = stripped(executed(path, home))
        except LabError as error:
            raise LabError(
                f"{path.name} was not rewritten: {error.problem}", error.remedy
            ) from error
    if problems := list(unkept(nb)):
        raise LabError(
            f"{path.name} was not rewritten: {'; '.join(problems)}",
            "print only facts that are the same in every run",
        )
    nbformat.write(nb, path)
    return path.read_bytes() != before


def executed(path: Path, home: str) -> NotebookNode:
    """The notebook after a run from top to bottom, in this directory.

    Errors: LabError with the cause when a cell fails.
    """
    nb: NotebookNode = nbformat.read(path, as_version=4)
    env = {name: value for name, value in os.environ.items() if name not in UNSET}
    # As in an activated environment: remedies name `hudilab` without its path.
    env["PATH"] = os.pathsep.join((f"{sys.prefix}/bin", env.get("PATH", "")))
    client = NotebookClient(
        nb,
        kernel_name="python3",
        timeout=600,
        coalesce_streams=True,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": home}},
    )
    try:
        client.execute(env=env | {"HUDILAB_HOME": home})
    except (CellExecutionError, DeadKernelError) as error:
        text = "kernel killed"
        if isinstance(error, CellExecutionError):
            text = f"{error.ename}: {error.evalue}"
        raise LabError(f"{root_cause(text)}", "fix the notebook") from error
    return nb


def stripped(nb: NotebookNode) -> NotebookNode:
    """Without the outputs of cells not tagged keep_output, and without traces of one run.

    Execution counts stay: nbval does not compare a cell that has none.
    """
    strip_output(nb, keep_output=False, keep_count=True, keep_id=True)
    kept_tags = {"tags": nb.metadata["tags"]} if nb.metadata.get("tags") else {}
    nb.metadata = nbformat.from_dict(METADATA | kept_tags)
    for cell in nb.cells:
        kept = {
            name: cell.metadata[name] for name in ("tags", "jupyter") if cell.metadata.get(name)
        }
        cell.metadata = nbformat.from_dict(kept)
    return nb


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
