"""Tests run as in an activated environment: the shell finds `hudilab`, and remedies name it so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["PATH"] = os.pathsep.join((str(Path(sys.prefix, "bin")), os.environ.get("PATH", "")))
