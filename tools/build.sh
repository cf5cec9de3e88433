#!/usr/bin/env bash
# Configures and builds one preset: tools/build.sh PRESET [target ...].
#
# The product alone (target heteroserve) is configured without tests, which need packages that running it does not;
# whatever else is asked for adds them.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
build=build/$preset
tests=ON
[ "$*" != heteroserve ] || tests=OFF
if [ ! -f "$build/build.ninja" ] || { [ $tests = ON ] && ! grep -q '^HETEROSERVE_TESTS:BOOL=ON' "$build/CMakeCache.txt"; }; then
  mkdir -p "$build"
  log=$build/configure.log
  if ! cmake --preset "$preset" -DHETEROSERVE_TESTS=$tests ${CI:+-DHETEROSERVE_WERROR=ON} >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "build: configuring failed, see $log" >&2
    exit 1
  fi
fi
targets=()
for target in "$@"; do targets+=(--target "$target"); done
exec cmake --build "$build" -j "${JOBS:-$(nproc)}" "${targets[@]}"
