#!/usr/bin/env bash
# Makes build/venv with what the end-to-end tests need; does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
requirements=tests/end_to_end/requirements.txt
stamp=build/venv/.requirements
if [ -f "$stamp" ] && cmp -s "$requirements" "$stamp"; then exit 0; fi
echo "preparing the Python client for the end-to-end tests"
mkdir -p build
[ -x build/venv/bin/python ] || python3 -m venv build/venv
if ! build/venv/bin/pip install -q --disable-pip-version-check -r "$requirements" >build/venv/install.log 2>&1; then
  tail -n 5 build/venv/install.log >&2
  echo "end_to_end: could not install $requirements (is the network up?)" >&2
  exit 1
fi
cp "$requirements" "$stamp"
