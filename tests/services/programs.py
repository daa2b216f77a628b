"""The lab's programs as processes, with the broker and the home of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

from hudilab.config import Settings

USER, SECRET = "lab", "correct horse that must not be seen"


class Programs:
    """The lab's programs, started as users start them."""

    def __init__(self, settings: Settings, servers: str) -> None:
        self._env = {"HUDILAB_HOME": str(settings.home), "BOOTSTRAP_SERVERS": servers}

    def start(self, *command: str, **env: str) -> subprocess.Popen[str]:
        """Start `python -m hudilab.COMMAND`."""
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            env=os.environ | self._env | env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *command: str, patience: float = 300, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        process = self.start(*command, **env)
        out, err = process.communicate(timeout=patience)
        return subprocess.CompletedProcess(command, process.returncode, out, err)
