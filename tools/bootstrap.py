"""Make `.venv` from the lock, every download held to its hash. Standard library only.

Any Python 3 may start this: it hands over to one that the lab supports. So the file keeps to the
syntax of Python 3.6. A second run finds its stamp and does nothing.
"""

import argparse
import ast
import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = ("3.11", "3.12", "3.13")  # as pyproject.toml has it; the first that is there is used
NEEDED = "Python " + ", ".join(SUPPORTED[:-1]) + " or " + SUPPORTED[-1]
# Prints "3.12 True": "3.13t" has no global lock, and "pypy 3.11" other packages. The second word is
# whether it can make an environment: Debian packages that part of Python apart.
ABOUT = """import sys
from importlib.util import find_spec
number = ".".join(map(str, sys.version_info[:2]))
number += "t" if "t" in getattr(sys, "abiflags", "") else ""
other = "" if sys.implementation.name == "cpython" else sys.implementation.name + "-"
print(other + number, bool(find_spec("ensurepip") and find_spec("venv")))
"""
ROOTS = ("lib", "packages")  # of the lab's own packages
# What pip takes from the user's pip.conf and variables: where packages come from, and how to get
# there. The rest (user, target, constraint, no-binary, ...) changes what is installed, or where.
SOURCES = [
    "index-url",
    "extra-index-url",
    "no-index",
    "find-links",
    "trusted-host",
    "proxy",
    "cert",
    "client-cert",
    "keyring-provider",
    "timeout",
    "default-timeout",
    "retries",
    "resume-retries",
    "cache-dir",
    "no-cache-dir",
    "use-feature",
    "use-deprecated",
]
READ = """import sys
from pip._internal.configuration import Configuration
from pip._internal.exceptions import ConfigurationError
given = Configuration(isolated=False)
try:
    given.load()
except ConfigurationError as error:
    sys.exit(str(error))
for name in sys.argv[1:]:
    for section in (":env:", "install", "global"):
        try:
            print((name, given.get_value(section + "." + name)))
            break
        except ConfigurationError:
            pass
"""
NETWORK = "check network, proxy and disk space, then try again"
STAMP = "hudilab-setup.json"
BUILD_TOOLS = ("packaging", "setuptools", "wheel")
DISK = 1.5e9  # bytes of .venv


class SetupError(Exception):
    """One line that ends in the remedy."""


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a path need not fit the locale
    parser = argparse.ArgumentParser(description="Make .venv from the lock.")
    parser.add_argument("--dev", action="store_true", help="also install what `make test` needs")
    parser.add_argument("--add", metavar="NAME", help="only install requirements-NAME.lock, too")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--find", action="store_true", help="hand over to a Python that fits")
    which.add_argument("--python", metavar="PATH", help="hand over to this Python")
    arguments = parser.parse_args()
    home = Path(os.environ.get("HUDILAB_HOME") or ROOT / ".lab")
    try:
        if arguments.python:
            use(arguments.python)
        check_python(arguments.find)
        log = home.absolute() / "logs" / "setup.log"
        setup = Setup(ROOT, log, arguments.dev, arguments.find)
        setup.add(arguments.add) if arguments.add else setup.run()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"setup: {in_words(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run it again to rebuild .venv", file=sys.stderr)
        return 130
    return 0


def in_words(error: OSError) -> str:
    """What the disk or its rights refuse, in one line."""
    where = Path(str(error.filename or ROOT))
    remedy = "make that folder writable, or clone the repository into another one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "free some space"
    elif os.environ.get("HUDILAB_HOME") and ROOT not in (where, *where.parents):
        remedy = "set HUDILAB_HOME to a folder of your own"
    return f"cannot write {where} ({error.strerror}); {remedy}, then run: make setup"


def check_python(find: bool = False, python: str = sys.executable) -> None:
    """Return if this Python is supported, else hand over.

    Errors: SetupError if no other takes over.
    """
    version, _ = about(python)
    if version not in SUPPORTED:
        hand_over(f"{python} is Python {version}, but the lab needs {NEEDED}", find)


def use(name: str) -> None:
    """Start again with the Python of this name or path.

    Errors: SetupError if it is none that the lab supports.
    """
    path, problem = shutil.which(name), "is not there"
    if path and not about(path)[0]:
        # Such as pyenv's shim of a version that is not switched on.
        path = pythons().get(name[6:]) if name.startswith("python") else None
        problem = "is no Python 3 that starts"
    if path is None:
        hand_over(f"PYTHON={name} {problem}", False)
    else:
        check_python(False, path)
        dev = [word for word in sys.argv[1:] if word == "--dev"]
        os.execv(path, [path, sys.argv[0], *dev])


def about(python: str) -> "tuple[str, bool]":
    """(version, whether it can make an environment); ("", False) if it does not start."""
    command = [python, "-I", "-c", ABOUT]
    try:
        done = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "", False
    version, _, able = done.decode("ascii", "replace").strip().partition(" ")
    return version, able == "True"


def hand_over(problem: str, find: bool) -> None:
    """Start again with another Python of this machine, or with one that uv brings.

    Errors: SetupError unless `find` is given and there is one; it names those that there are.
    """
    others = pythons()
    if find and not others and shutil.which("uv"):
        print(f"setup: {problem}; uv brings one", flush=True)
        others = from_uv()
    if find and others:
        python = next(iter(others.values()))
        if not (ROOT / ".venv" / STAMP).exists():
            print(f"setup: {problem}; continuing with {python}", flush=True)
        os.execv(python, [python, *sys.argv])
    if not others:
        raise SetupError(
            f"{problem}, and there is none on the PATH or in ~/.pyenv; install Python "
            f"{SUPPORTED[-1]}, or uv, which brings one, then run: make run"
        )
    named = ", ".join(f"{version} ({path})" for version, path in others.items())
    python = next(iter(others.values()))
    name = Path(python).name
    short = name != "python3" and shutil.which(name) == python
    python = name if short else shlex.quote(python)
    raise SetupError(f"{problem}; there is {named}, so use: make run PYTHON={python}")


def pythons() -> "dict[str, str]":
    """Version -> path of the Pythons here that the lab supports and that can make .venv."""
    names = [*(f"python{number}" for number in SUPPORTED), "python3"]
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    paths = [folder / name for name in names for folder in folders]
    # With no home there is none to expand.
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")  # noqa: PTH111
    if os.access(pyenv, os.R_OK | os.X_OK):  # another account's may be closed
        for number in SUPPORTED:
            paths += sorted(Path(pyenv, "versions").glob(f"{number}.*/bin/python"))
    python_by_version = {}  # type: dict[str, str]
    for path in map(str, paths):
        number, able = about(path) if os.access(path, os.X_OK) else ("", False)
        if able and number in SUPPORTED:
            python_by_version.setdefault(number, path)
    return {
        number: python_by_version[number] for number in SUPPORTED if number in python_by_version
    }


def from_uv() -> "dict[str, str]":
    """The Python that uv installs, or finds.

    Errors: SetupError if it cannot.
    """
    number = SUPPORTED[0]
    try:
        for action in (["install"], ["find", "--system", "--no-project"]):
            done = subprocess.check_output(
                ["uv", "python", *action, number], stderr=subprocess.STDOUT
            )
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "output", b"").decode("utf-8", "replace").strip().split("\n")
        reason = (output[-1] or str(error)).strip()
        raise SetupError(
            f"uv cannot install Python {number} ({reason}); check the network, or install {NEEDED} "
            "another way, then run: make run"
        ) from None
    return {number: done.decode("utf-8", "surrogateescape").strip().split("\n")[-1]}


def requirement_blocks(lock: str, names: "tuple[str, ...]") -> str:
    """The entries of a lock, hashes included, of the packages named."""
    return "".join(block for block in entries(lock) if block.split("==")[0] in names)


def entries(lock: str) -> "list[str]":
    """Each package's pin and hashes."""
    return [f"{block}\n" for block in re.split(r"\n(?=\S)", lock.rstrip("\n"))]


def shares(lock: str) -> "list[str]":
    """The lock in four parts to install side by side; pyspark is built, so it has its own."""
    built = requirement_blocks(lock, ("pyspark",))
    others = [block for block in entries(lock) if block != built]
    return [built, *("".join(others[first::3]) for first in range(3))]


def digest(root: Path) -> str:
    """Changes when the locks, or what pyproject.toml says of the package, change."""
    import tomllib  # not there in the Pythons that check_python refuses

    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [json.dumps([pyproject["build-system"], pyproject["project"]], sort_keys=True)]
    parts += [(root / f"requirements{kind}.lock").read_text("utf-8") for kind in ("", "-dev")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def environment(temporary: Path) -> "dict[str, str]":
    """This process's variables without those that would change what Python and pip do."""
    prefixes = ("PYTHON", "PIP_", "SETUPTOOLS_", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    env = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    # setuptools writes this folder's path in the encoding of the locale, UTF-8 mode or not.
    env["LC_ALL"] = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    if not has_home(env):  # pip, and what builds packages, keep files there
        env["HOME"] = str(temporary)
    return {**env, "PYTHONUTF8": "1", "TMPDIR": str(temporary), "PIP_CONFIG_FILE": os.devnull}


def has_home(env: "dict[str, str]") -> bool:
    """Whether HOME, or else this account's folder in /etc/passwd, can be written."""
    try:
        home = env.get("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # an account without a name
        home = env.get("HOME", "")
    # Path.is_dir raises an error for a folder below one that is closed.
    is_folder = home.startswith("/") and os.path.isdir(home)  # noqa: PTH112
    return is_folder and os.access(home, os.W_OK | os.X_OK)


class Setup:
    """One run: the environment of `root`, with pip's words in `log`.

    With `find`, an environment of any supported Python will do.
    """

    def __init__(self, root: Path, log: Path, dev: bool, find: bool = False) -> None:
        self.root, self.log, self.dev = root, log, dev
        self.venv = root / ".venv"
        self.python = str(self.venv / "bin" / "python")
        self.stamp = self.venv / STAMP
        self.find, self.version = find, list(sys.version_info[:2])
        # On the disk of .venv, which has to have room for it: /tmp may be small, or in memory.
        self.temporary = self.venv / "tmp"
        self.env = environment(self.temporary)

    def run(self) -> None:
        """Do what is missing; silent when nothing is."""
        if self.done():
            return
        with self.alone():
            if self.done():  # by the set-up that this one waited for
                return
            started = time.monotonic()
            self.begin_log()
            self.update()
        seconds = time.monotonic() - started
        print(f"setup: {self.venv} is ready, {seconds:.0f} s (log: {self.log})")

    def begin_log(self) -> None:
        # The lab's home is for its owner only, whoever makes it first.
        self.log.parents[1].mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(exist_ok=True)
        self.log.write_text("", encoding="utf-8")

    def add(self, name: str) -> None:
        """Install the packages of another lock, which few need, into the .venv that is there."""
        lock = self.root / f"requirements-{name}.lock"
        with self.alone():
            self.begin_log()
            self.temporary.mkdir(exist_ok=True)
            try:
                self.env.update(self.sources())
                with self.step(f"installing packages of {lock.name}"):
                    self.pip(["--no-deps", "--require-hashes", "-r", str(lock)], remedy=NETWORK)
            finally:
                shutil.rmtree(str(self.temporary), ignore_errors=True)

    def done(self) -> bool:
        made = self.made()
        return made.get("digest") == digest(self.root) and bool(made["dev"] or not self.dev)

    def made(self) -> "dict[str, object]":
        """The stamp of an environment that can be used or brought up to date, else {}."""
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
            version = ".".join(map(str, stamp["python"]))
            fits = version in SUPPORTED if self.find else stamp["python"] == self.version
            here = stamp["root"] == str(self.root)
        except (OSError, ValueError, TypeError, KeyError):
            return {}
        is_complete = all((self.venv / "bin" / name).exists() for name in ("python", "hudilab"))
        return stamp if here and fits and is_complete else {}

    @contextmanager
    def alone(self) -> "Iterator[None]":
        """Let no other set-up of this checkout run; wait for one that does."""
        folder = os.open(str(self.root), os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"setup: waiting for another set-up of {self.root} to end", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError:
            pass  # a disk without locks
        try:
            yield
        finally:
            os.close(folder)

    def update(self) -> None:
        made = self.made()
        self.dev = self.dev or bool(made.get("dev"))
        # Without its stamp an environment is half-made: an interrupted run is not trusted.
        if self.stamp.exists():
            self.stamp.unlink()
        try:
            if not made:
                self.create()
            self.temporary.mkdir(exist_ok=True)
            self.install()
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
        version = made.get("python") or self.version
        stamp = {"root": str(self.root), "python": version, "dev": self.dev}
        self.stamp.write_text(json.dumps({**stamp, "digest": digest(self.root)}), encoding="utf-8")

    def create(self) -> None:
        if os.pathsep in str(self.root):
            raise SetupError(
                f"a virtual environment cannot be in a path with a colon ({self.root}); rename the "
                "folder, then run: make setup"
            )
        shutil.rmtree(self.venv, ignore_errors=True)
        free = shutil.disk_usage(self.root).free
        if free < DISK:
            raise SetupError(
                f"{self.root} has {free / 1e9:.2f} GB free, but .venv needs {DISK / 1e9:.1f} GB; "
                "free some space, then run: make setup"
            )
        self.temporary.mkdir(parents=True, exist_ok=True)
        if not (find_spec("venv") and find_spec("ensurepip")):
            number = ".".join(map(str, self.version))
            problem = f"{sys.executable} has no modules venv and ensurepip"
            if not self.find or not pythons():
                raise SetupError(
                    f"{problem}, which Debian and Ubuntu package apart; install them, such as "
                    f"with: apt install python{number}-venv"
                )
            hand_over(problem, self.find)
        with self.step("creating .venv"):
            # Also when this Python is that of the environment just removed.
            python = getattr(sys, "_base_executable", sys.executable)
            made = [python, "-m", "venv", str(self.venv)]
            self.call(made, remedy="see the log")

    def install(self) -> None:
        lock = self.root / ("requirements-dev.lock" if self.dev else "requirements.lock")
        self.env.update(self.sources())
        # pyspark comes as source. Built in isolation it would fetch build tools without a hash.
        with self.step("installing build tools"):
            tools = self.temporary / "build-tools.lock"
            tools.write_text(requirement_blocks(lock.read_text("utf-8"), BUILD_TOOLS), "utf-8")
            self.pip(["--require-hashes", "-r", str(tools)], remedy=NETWORK)
        with self.step(f"installing packages of {lock.name}"):
            files = []
            for number, text in enumerate(shares(lock.read_text("utf-8"))):
                files.append(self.temporary / f"{number}.lock")
                files[-1].write_text(text, encoding="utf-8")
            # The lock is complete, so that no part needs to know of the others.
            given = ["--no-deps", "--require-hashes", "--no-build-isolation", "-r"]
            self.pip(*([*given, str(file)] for file in files), remedy=NETWORK)
        with self.step("installing hudilab"):
            source = ["--no-build-isolation", "-e", str(self.root)]
            self.pip(["--no-deps", *source], remedy="see the log")
            # Python 3.11 reads these files in the locale's encoding: in locale C, an umlaut in this
            # folder's path would end each start. A relative path has none.
            for file in self.venv.glob("lib/python3.*/site-packages/__editable__*.pth"):
                sources = [os.path.relpath(self.root / name, file.parent) for name in ROOTS]
                file.write_text("\n".join([*sources, ""]), "ascii")
        with self.step("compiling"):
            # Where PYTHONDONTWRITEBYTECODE is set, each process would compile what it imports.
            given = ["-qq", "-x", r"[/\\]tests?[/\\]"]
            # From Python 3.12 on, processes find each other by a socket in the temporary folder,
            # and the path of a socket has at most 104 bytes.
            if len(os.fsencode(str(self.temporary))) < 70:
                given += ["-j", "0"]
            folders = [str(self.venv / "lib"), *(str(self.root / name) for name in ROOTS)]
            compiled = [self.python, "-m", "compileall", *given, *folders]
            self.call(compiled, remedy="see the log")

    def sources(self) -> "dict[str, str]":
        """The variables that tell pip what the user's pip.conf and variables say of SOURCES.

        Errors: SetupError for a pip.conf that pip cannot read.
        """
        command = [self.python, "-c", READ, *SOURCES]
        # Also in a HOME that cannot be written there may be a pip.conf.
        env = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k == "HOME"}
        env = {**environment(self.temporary), "PIP_CONFIG_FILE": "", **env}
        done = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(self.root)
        )
        output, error = (text.decode("utf-8", "replace") for text in done.communicate())
        if done.returncode:
            problem = " ".join(error.split()).rstrip(".")
            raise SetupError(
                f"pip cannot read its settings ({problem}); correct or remove that file, then run: "
                "make setup"
            )
        options = dict(ast.literal_eval(line) for line in output.splitlines())
        return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in options.items()}

    def pip(self, *runs: "list[str]", remedy: str) -> None:
        """Run pip with each of the argument lists, all at once."""
        # `install` compiles, on all cores and without the packages' tests.
        given = ["install", "--no-compile", "--no-input", "--disable-pip-version-check"]
        given += ["--progress-bar", "off"]
        pip = [self.python, "-m", "pip", *given]
        self.call(*([*pip, *arguments] for arguments in runs), remedy=remedy)

    def call(self, *commands: "list[str]", remedy: str) -> None:
        """Run the commands at once; the log gets what they say one after the other."""
        null, stderr = subprocess.DEVNULL, subprocess.STDOUT
        with ExitStack() as stack:
            folder = str(self.temporary)
            outputs = [stack.enter_context(TemporaryFile(dir=folder)) for _ in commands]
            running = [
                subprocess.Popen(command, stdin=null, stdout=output, stderr=stderr, env=self.env)
                for command, output in zip(commands, outputs)  # noqa: B905 (from Python 3.10)
            ]
            codes = [process.wait() for process in running]
            log = stack.enter_context(self.log.open("ab"))
            ended = zip(codes, commands, outputs)  # noqa: B905
            # What failed comes last.
            for _, command, output in sorted(ended, key=lambda result: result[0] != 0):
                output.seek(0)
                log.write(f"$ {' '.join(command)}\n".encode() + output.read())
        if any(codes):
            print(flush=True)
            problem = self.cause(command)
            if "No space left" in self.output():
                remedy = "free some space, then run it again"
            raise SetupError(f"{problem}; {remedy} (log: {self.log})")

    def cause(self, command: "list[str]") -> str:
        text = self.output().rpartition("\n$ ")[2]
        if "DO NOT MATCH THE HASHES" in text:
            return "a download does not match its hash in the lock and was rejected"
        errors = re.findall(r"^\s*(?:ERROR|Error): *(.+?)\.?$", text, re.MULTILINE)
        return errors[0] if errors else f"{' '.join(command[:4])} failed"

    def output(self) -> str:
        """The log; what pip wrote in the encoding of another locale is no reason to fail."""
        return self.log.read_text("utf-8", "replace")

    @contextmanager
    def step(self, name: str) -> "Iterator[None]":
        started = time.monotonic()
        print(f"setup: {name} ...", end=" ", flush=True)
        yield
        print(f"{time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
