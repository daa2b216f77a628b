"""Names in Hudi's files and in the metadata of the lab's commits."""

from __future__ import annotations

PROPERTIES = ".hoodie/hoodie.properties"  # of a table
# The names under which a commit's metadata holds its stamp.
PREFIX = "hudilab."
QUERY, BATCH = PREFIX + "query_id", PREFIX + "batch_id"
COVERS, SOURCE = PREFIX + "covers", PREFIX + "source"
QUARANTINED = PREFIX + "quarantined"  # how many rows of the batch were set aside
MOST_BUCKETS = 10_000  # more than any table has; a random id of a file group is not below it
SHARED = PREFIX + "shared"  # which lock the writer took; see hudilab.table.sharing_options
