#!/usr/bin/env bash
# Configures and builds one preset: tools/build.sh PRESET [target ...].
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
if [ ! -f "build/$preset/build.ninja" ]; then
  mkdir -p "build/$preset"
  log=build/$preset/configure.log
  if ! cmake --preset "$preset" ${CI:+-DHETEROSERVE_WERROR=ON} >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "build: configuring failed, see $log" >&2
    exit 1
  fi
fi
targets=()
for target in "$@"; do targets+=(--target "$target"); done
exec cmake --build "build/$preset" -j "${JOBS:-$(nproc)}" "${targets[@]}"
