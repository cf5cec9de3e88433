#!/usr/bin/env bash
# The simulator against two CPU devices of this machine: tests/bench/run_truth.sh BUILD_DIR [options of hs_bench_truth].
# Measures the devices, serves, simulates; prints a table, then one line of JSON that is also saved under build/bench.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
out=build/bench
model=$out/llava-tiers
mkdir -p "$out"
[ -f "$model/model.safetensors" ] || python3 tests/bench/make_random_llava.py "$model"
[ $# -gt 0 ] || set -- --calibrate 40 --rounds 3
"$build/tests/hs_bench_truth" "$model" --profile "$out/truth-profile.toml" "$@" | tee "$out/last-truth.txt"
line="{\"date\": \"$(date -u +%FT%TZ)\", \"commit\": \"$(git rev-parse --short HEAD 2>/dev/null || echo none)\","
line+=" \"cpu\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)\", \"cores\": $(nproc),"
line+=" \"truth\": $(tail -n 1 "$out/last-truth.txt")}"
rm -f "$out/last-truth.txt"
echo "$line" | tee "$out/truth-$(date -u +%Y%m%dT%H%M%SZ).json"
