#!/usr/bin/env bash
# Prints the root of a CUDA toolkit, 12.4 or later: tools/cuda_toolkit.sh [--wheels | --here].
#
# The system's if there is one (CUDA_HOME, CUDA_PATH, then nvcc on the PATH), else the packages of
# tools/cuda-requirements.txt from PyPI (some 100 MB, 280 MB installed), unpacked once below build/cuda-toolkit.
# --wheels takes the packages in any case; --here takes what is there and fetches nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

usable() {
  local version
  [ -x "$1/bin/nvcc" ] && [ -f "$1/include/cuda_runtime_api.h" ] || return 1
  version=$("$1/bin/nvcc" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\),.*/\1 \2/p')
  read -r major minor <<<"$version"
  [ "$((major * 100 + minor))" -ge 1204 ]
}

if [ "${1:-}" != --wheels ]; then
  candidates=("${CUDA_HOME:-}" "${CUDA_PATH:-}")
  # nvcc may be a link or a script: it says itself where it lives.
  if command -v nvcc >/dev/null; then
    candidates+=("$(nvcc --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')")
  fi
  for root in "${candidates[@]}"; do
    if [ -n "$root" ] && usable "$root"; then
      realpath "$root"
      exit 0
    fi
  done
fi

target=build/cuda-toolkit
root=$PWD/$target/nvidia/cu13
if [ "${1:-}" = --here ]; then
  usable "$root" || exit 1
  echo "$root"
  exit 0
fi
if ! cmp -s tools/cuda-requirements.txt "$target/.requirements" 2>/dev/null; then
  rm -rf "$target"
  mkdir -p "$target"
  python3 -m venv "$target/venv" >"$target/install.log" 2>&1
  if ! "$target/venv/bin/pip" install -q --disable-pip-version-check --no-deps --target "$target" \
    -r tools/cuda-requirements.txt >>"$target/install.log" 2>&1; then
    tail -n 5 "$target/install.log" >&2
    echo "cuda_toolkit: could not install tools/cuda-requirements.txt (is the network up?)" >&2
    exit 1
  fi
  # CMake and nvcc look for lib64, and for libraries without a version in their names.
  ln -sfn lib "$root/lib64"
  for library in "$root"/lib/lib*.so.*; do
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
  done
  cp tools/cuda-requirements.txt "$target/.requirements"
fi
usable "$root" || { echo "cuda_toolkit: $root has no working nvcc" >&2; exit 1; }
echo "$root"
