#!/usr/bin/env bash
# Puts hostile bytes through every parser: tests/fuzz/run.sh BUILD_DIR [MUTATIONS].
# Stops at the first target that crashes; its seed is in the line above.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
mutations=${2:-20000}
count=0
for target in "$build"/tests/fuzz_*; do
  [ -x "$target" ] || continue
  name=$(basename "$target")
  "$target" "tests/fuzz/corpus/${name#fuzz_}" --mutations "$mutations"
  count=$((count + 1))
done
echo "fuzz: $count targets survived $mutations mutations each"
[ "$count" -gt 0 ]
