"""What can be asked of `inspect`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hudi_inspect.store import S3Access


@dataclass(frozen=True)
class Options:
    """What to inspect, and how.

    Attributes:
        archived: Include the instants of the archived timeline.
        count: Count the rows with hudi-rs, which reads the data; for tables whose commits do not
            give the number.
        since: Show only instants from this time on: an instant, or ISO 8601 (UTC).
        partition: Include the file slices of this partition.
        stuck_after: Seconds without activity after which a pending instant counts as stuck.
        now: The time to compare with.
        s3: Where S3 is; AWS's own environment variables and files by default.
    """

    archived: bool = False
    count: bool = False
    since: str = ""
    partition: str = ""
    stuck_after: float = 600.0
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    s3: S3Access = field(default_factory=S3Access)
