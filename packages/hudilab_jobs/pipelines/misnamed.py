"""Let Spark plan a batch again after a file with an unreadable name was renamed.

Spark keeps the names of a planned batch's files in the checkpoint, so each start would refuse the
batch because of the old name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.commits import Commits
from hudi_sink.files import delete_file, exists, file_size, read_text_or_none, write_text
from hudi_sink.rows import files_gone
from hudilab.paths import TableLocation
from hudilab_jobs.pipelines.listing import SourceLog

NOTE = "hudilab-misnamed"  # a file in the checkpoint


def keep_misnamed(spark: SparkSession, checkpoint: str, batch: int, files: Sequence[str]) -> None:
    """Store the URIs of a refused batch's misnamed files in the checkpoint."""
    sizes = {uri: file_size(spark, uri) for uri in files}
    write_text(spark, f"{checkpoint}/{NOTE}", json.dumps({"batch": batch, "files": sizes}))


def forget_misnamed(spark: SparkSession, checkpoint: str) -> None:
    """Delete the file of `keep_misnamed`, because the names are now correct."""
    delete_file(spark, f"{checkpoint}/{NOTE}")


def plan_again(
    spark: SparkSession, location: TableLocation, there: Callable[[], Mapping[str, int]]
) -> str:
    """Remove the plan of a batch whose files were renamed; return a line, or an empty string.

    This applies to the batch after the last done batch, if the table doesn't contain it. Spark then
    plans that batch again from all files that no earlier batch has read.

    Args:
        there: Returns sizes by the URIs of the files that Spark would read now.

    Raises:
        StreamError: Files of the batch were deleted, so their rows would be lost.
    """
    try:
        note = json.loads(read_text_or_none(spark, f"{location.checkpoint}/{NOTE}") or "{}")
    except ValueError:  # an earlier start was killed during the write
        return ""
    files = CheckpointFiles(spark, location.checkpoint)
    batch = files.done() + 1
    if note.get("batch") != batch or max(files.batches("offsets"), default=batch) > batch:
        return ""
    query = files.query()
    written = (commit.metadata for commit in Commits(spark, location.table).newest_first())
    if any(commit and commit.query == query and commit.batch >= batch for commit in written):
        return ""
    log = SourceLog(spark, location.checkpoint)
    log.read()
    done = files.log_end(batch - 1)
    planned = [path for path, entry in log.files.items() if entry.number > done]
    gone = [path for path in planned if not exists(spark, path)]
    if not set(gone) & set(note["files"]):
        return ""
    new, lost = Counter(size for path, size in there().items() if path not in log.files), []
    for path in gone:
        size = note["files"].get(path, -1)
        new[size] -= 1
        if new[size] < 0:
            lost.append(path)
    if lost:
        raise files_gone(batch, lost)
    files.forget_plan(batch)
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return (
        f"batch {batch} is planned again, because {gone[0]}{more}, which Spark could not read, was "
        "renamed"
    )
