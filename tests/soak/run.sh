#!/usr/bin/env bash
# Runs one of this folder's programs on a build's server: tests/soak/run.sh BUILD_DIR PROGRAM [FLAGS...].
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
program=$2
shift 2
tests/end_to_end/prepare.sh
SERVER_BINARY=$PWD/$build/heteroserve exec build/venv/bin/python "tests/soak/$program" "$@"
