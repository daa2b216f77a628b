"""After a file was renamed that a batch was refused for, let Spark plan the batch anew.

Spark keeps the names of a planned batch's files in the checkpoint. So without this, the batch would
be refused for the old name at each start.
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

NOTE = "hudilab-misnamed"  # in the checkpoint, beside the note of the group


def keep_misnamed(spark: SparkSession, checkpoint: str, batch: int, files: Sequence[str]) -> None:
    """Keep the URIs of files in the checkpoint whose names a batch was refused for."""
    sizes = {uri: file_size(spark, uri) for uri in files}
    write_text(spark, f"{checkpoint}/{NOTE}", json.dumps({"batch": batch, "files": sizes}))


def forget_misnamed(spark: SparkSession, checkpoint: str) -> None:
    """Remove what `keep_misnamed` has kept, because the names are right now."""
    delete_file(spark, f"{checkpoint}/{NOTE}")


def plan_again(
    spark: SparkSession, location: TableLocation, there: Callable[[], Mapping[str, int]]
) -> str:
    """Remove the plan of a batch whose files were renamed; return a line, empty if there is none.

    Only the batch after the last one that is done, and only if the table doesn't have it: Spark
    then plans a batch with the same number from all files that no earlier batch has read.

    Args:
        there: Returns the URI of each file that Spark would read now, with its size.

    Raises:
        StreamError: Files of the batch were deleted, so their rows would be lost.
    """
    try:
        note = json.loads(read_text_or_none(spark, f"{location.checkpoint}/{NOTE}") or "{}")
    except ValueError:  # a start was killed while writing it
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
        f"batch {batch} is planned again, because {gone[0]}{more}, which it was refused for, has "
        "another name now"
    )
