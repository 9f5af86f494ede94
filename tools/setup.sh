#!/usr/bin/env bash
# Build $VENV from requirements.lock. Installs with uv (from the venv); falls back to pip when uv cannot be had.
set -euo pipefail
python="${PYTHON:-python3}"
venv="${VENV:-.venv}"

"$python" - <<'PY' || { echo "setup: Python 3.11 or newer is needed (set PYTHON=/path/to/python3.11)" >&2; exit 1; }
import sys
raise SystemExit(0 if sys.version_info >= (3, 11) else 1)
PY

if ! "$venv/bin/python" -c '' 2>/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv" || {
        echo "setup: '$python -m venv' failed; on Debian install python3-venv" >&2
        exit 1
    }
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/$venv"
# A network hiccup must not turn into a half-made environment: each install is tried again.
again() { "$@" || { sleep 2; "$@"; } || { sleep 5; "$@"; }; }

if "$venv/bin/uv" --version >/dev/null 2>&1 || again "$venv/bin/python" -m pip install -q uv 2>/dev/null; then
    again "$venv/bin/uv" pip install -q --require-hashes -r requirements.lock
    again "$venv/bin/uv" pip install -q --no-deps -e .
else
    again "$venv/bin/python" -m pip install -q --require-hashes -r requirements.lock
    again "$venv/bin/python" -m pip install -q --no-deps -e .
fi
