#!/usr/bin/env bash
# Compares random-weight models of many shapes with Hugging Face transformers: tests/reference/run.sh BUILD_DIR.
#
# Installs PyTorch and transformers (about 1 GB) into build/reference-venv the first time, and keeps the checkpoints
# and their reference numbers in build/reference; both are made again when what they come from has changed.
# HS_REFERENCE_PYTHON=PYTHON uses an interpreter that has the packages of requirements.txt already.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
venv=build/reference-venv
cases=build/reference
requirements=tests/reference/requirements.txt

python=${HS_REFERENCE_PYTHON:-$venv/bin/python}
if [ -z "${HS_REFERENCE_PYTHON:-}" ] && ! cmp -s $requirements $venv/.requirements 2>/dev/null; then
  echo "reference: installing PyTorch and transformers into $venv"
  mkdir -p build
  [ -x $venv/bin/python ] || python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check -r $requirements >$venv/install.log 2>&1 || {
    tail -n 5 $venv/install.log >&2
    echo "reference: could not install $requirements (is the network up?)" >&2
    exit 1
  }
  cp $requirements $venv/.requirements
fi

stamp=$(cat tests/reference/make_cases.py tests/golden/make_goldens.py models/demo/training/demo_checkpoints.py \
  $requirements | sha256sum)
if [ "$stamp" != "$(cat $cases/.stamp 2>/dev/null)" ]; then
  rm -rf $cases
  mkdir -p $cases
  $python tests/reference/make_cases.py $cases 2>$cases/make.log || {
    tail -n 20 $cases/make.log >&2
    echo "reference: could not make the cases" >&2
    exit 1
  }
  echo "$stamp" >$cases/.stamp
fi

HS_REFERENCE_DIR=$cases "$build/tests/reference_check"
