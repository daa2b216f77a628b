"""A stream of appends on S3, as a process of its own that tests kill.

At its end it compares the table with the generator and prints what is wrong, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.cases import KILLED
from crash.harness import Lab, history_of, open_on_s3, write

from hudilab.settings import load_settings


def main() -> None:
    settings, case = load_settings(), KILLED
    spark = open_on_s3(settings, case)
    lab = Lab(spark, case, "ledger", settings.home)
    location, store = lab.s3(0)
    write(spark, case, location, "ledger", case.batches)
    history = history_of(spark, location.table)
    problems = lab.problems(location, store / "lab" / "readings", history)
    spark.stop()
    print(json.dumps({"problems": problems, "rollbacks": history.actions["rollback"]}))


if __name__ == "__main__":
    main()
