"""The command line as a user starts it: a process with an environment, whose output and exit code are looked at."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from tenure.cli.main import run

ROOT = Path(__file__).parents[2]


class Tenure:
    """`tenure` against one database. `environment` replaces or (None) removes variables."""

    def __init__(self, home: Path, **environment: str | None) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        given = {
            "TENURE_HOME": str(home),
            "TENURE_KINDS": "tests.support.kinds",
            "PYTHONPATH": str(ROOT),
            **environment,
        }
        self._environment = inherited | {name: value for name, value in given.items() if value is not None}
        self._home = home
        self._given = given

    def having(self, **environment: str | None) -> "Tenure":
        """The same with other variables."""
        return Tenure(self._home, **{**self._given, **environment})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it and let it run."""
        return subprocess.Popen(
            [sys.executable, "-m", "tenure.cli.main", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "tenure.cli.main", *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """The one JSON document a successful command prints. Run in this process: most of a process's second is imports."""
        return json.loads(self.line(*arguments, "--json"))

    def line(self, *arguments: str) -> str:
        """What a successful command prints. Run in this process, like `json`."""
        code, out, errors = self._here(arguments)
        assert code == 0, errors
        return out.strip()

    def refused(self, code: int, *arguments: str) -> str:
        """The one line on stderr of a command that must end with this code. Run in this process, like `json`."""
        ended, out, errors = self._here(arguments)
        assert (ended, out, len(errors.splitlines())) == (code, "", 1), (ended, out, errors)
        return errors.strip()

    def _here(self, arguments: tuple[str, ...]) -> tuple[int, str, str]:
        out, errors = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self._environment, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            code = run(list(arguments))
        return code, out.getvalue(), errors.getvalue()

    def refusal(self, code: int, *arguments: str, stdin: str = "") -> str:
        """The one line on stderr of a command that must end with this code, saying nothing on stdout."""
        done = self(*arguments, stdin=stdin)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "psycopg2" not in done.stderr.replace("postgresql+psycopg2://", "")
        return lines[0]
