#!/usr/bin/env bash
# Serves checkpoints of full size with random weights: tests/bench/run_full_size.sh BUILD_DIR [MODEL...].
#
# Each is written to a scratch folder ($HS_SCRATCH, else build/full-size), served on the CPU, measured and removed
# (HS_KEEP=1 keeps it). A model that disk or memory has no room for is skipped with one line. Ends with one line of
# JSON that is also saved under build/bench.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(qwen2.5-vl-3b llava-1.5-7b)
scratch=${HS_SCRATCH:-build/full-size}
out=build/bench
mkdir -p "$out" "$scratch"

limits=$("$build/tests/hs_bench_machine")
echo "this machine: $limits"
reports=()
for model in "${models[@]}"; do
  if ! python3 tests/bench/full_size_bench.py room "$model" "$scratch"; then continue; fi
  if [ ! -f "$scratch/$model/config.json" ]; then
    echo "$model: writing random weights to $scratch/$model"
    python3 tests/bench/make_full_size.py "$model" "$scratch/$model"
  fi
  python3 tests/bench/full_size_bench.py measure "$model" "$scratch" --binary "$build/heteroserve" \
    --limits "$limits" | tee "$out/last.txt"
  reports+=("$(tail -n 1 "$out/last.txt")")
  rm -f "$out/last.txt"
  [ -n "${HS_KEEP:-}" ] || rm -rf "${scratch:?}/$model"
done

line="{\"date\": \"$(date -u +%FT%TZ)\", \"commit\": \"$(git rev-parse --short HEAD 2>/dev/null || echo none)\","
line+=" \"cpu\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)\", \"cores\": $(nproc),"
line+=" \"machine\": $limits, \"full_size\": [$(IFS=,; echo "${reports[*]-}")]}"
echo "$line" | tee "$out/full-size-$(date -u +%Y%m%dT%H%M%SZ).json"
