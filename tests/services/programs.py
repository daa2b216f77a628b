"""The lab's programs as processes, with the broker and the home of the tests."""

from __future__ import annotations

import subprocess

from running import start_program

from hudilab.settings import Settings

USER, SECRET = "lab", "correct horse that must not be seen"


class Programs:
    """The lab's programs, started as users start them."""

    def __init__(self, settings: Settings, servers: str) -> None:
        self._env = {"HUDILAB_HOME": str(settings.home), "BOOTSTRAP_SERVERS": servers}

    def start(self, *command: str, **env: str) -> subprocess.Popen[str]:
        """Start `python -m hudilab.COMMAND`."""
        return start_program("-m", *command, env=self._env | env, cwd="/")

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return finished(self.start(*command, **env))


def finished(
    process: subprocess.Popen[str], patience: float = 300
) -> subprocess.CompletedProcess[str]:
    """Wait for a program's end, so many seconds at most."""
    out, err = process.communicate(timeout=patience)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
