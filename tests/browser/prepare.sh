#!/usr/bin/env bash
# Adds what the browser tests need to build/venv. Exit status 3, with one line that says so: there is no browser here.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v chromium >/dev/null; then
  echo "skipped: browser tests: chromium is not installed (packaging/install-deps.sh --browser installs it)"
  exit 3
fi
requirements=tests/browser/requirements.txt
stamp=build/venv/.browser_requirements
if [ -f "$stamp" ] && cmp -s "$requirements" "$stamp"; then exit 0; fi
echo "preparing the browser tests"
if ! build/venv/bin/pip install -q --disable-pip-version-check -r "$requirements" >build/venv/install.log 2>&1; then
  tail -n 5 build/venv/install.log >&2
  echo "browser: could not install $requirements (is the network up?)" >&2
  exit 1
fi
cp "$requirements" "$stamp"
