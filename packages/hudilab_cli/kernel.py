"""The kernel of a headless run: IPython without a user's files, as a separate program.

Start-up files, profiles and PYTHONSTARTUP could open another Spark session, or change a result.
"""

import os
import sys


def main() -> None:
    """Serve the connection file of the command line, like `python -m ipykernel_launcher`."""
    from ipykernel.kernelapp import IPKernelApp

    class LessonKernel(IPKernelApp):
        def load_config_file(self, *_: object, **__: object) -> None:
            """Read no configuration."""

        def init_code(self) -> None:
            """Run no start-up files."""

        def start(self) -> None:
            """Serve until the client asks for a shutdown.

            The control thread answers that request while this thread closes the output channel.
            ipykernel waits for neither, so the answer could reach a closed socket.
            """
            super().start()  # type: ignore[no-untyped-call]
            self.control_thread.stop()
            self.control_thread.join()

    LessonKernel.launch_instance()


if __name__ == "__main__":
    del sys.path[0]  # this folder; IPython adds the working directory
    os.environ.pop("MPLBACKEND", None)  # so that pictures appear in the notebook
    main()
