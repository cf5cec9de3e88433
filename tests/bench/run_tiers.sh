#!/usr/bin/env bash
# What two tiers are worth on this machine: tests/bench/run_tiers.sh BUILD_DIR [options of hs_bench_tiers].
# Prints a table, then one line of JSON that is also saved under build/bench. The model has random weights and is made there.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
out=build/bench
model=$out/llava-tiers
mkdir -p "$out"
[ -f "$model/model.safetensors" ] || python3 tests/bench/make_random_llava.py "$model"
"$build/tests/hs_bench_tiers" "$model" "$@" | tee "$out/last.txt"
line="{\"date\": \"$(date -u +%FT%TZ)\", \"commit\": \"$(git rev-parse --short HEAD 2>/dev/null || echo none)\","
line+=" \"cpu\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)\", \"cores\": $(nproc),"
line+=" \"tiers\": $(tail -n 1 "$out/last.txt")}"
rm -f "$out/last.txt"
echo "$line" | tee "$out/tiers-$(date -u +%Y%m%dT%H%M%SZ).json"
