#!/usr/bin/env bash
# Measures this machine and prints a table, then one line of JSON that is also saved: tests/bench/run.sh BUILD_DIR.
# On the demo model, and on a random-weight Llama of 135 M parameters made under build/bench.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
out=build/bench
llama=$out/llama-135m
mkdir -p "$out"
[ -f "$llama/model.safetensors" ] || python3 tests/bench/make_random_llama.py "$llama"

engine=()
for model in models/demo/llava "$llama"; do
  echo "== $model, in process"
  "$build/tests/hs_bench_engine" "$model" | tee "$out/last.txt"
  engine+=("$(tail -n 1 "$out/last.txt")")
done
serve=()
echo "== over HTTP"
serve+=("$(python3 tests/bench/serve_bench.py "$build/heteroserve" models/demo/llava --picture models/demo/examples/picture2.jpg)")
serve+=("$(python3 tests/bench/serve_bench.py "$build/heteroserve" "$llama")")
printf '%s\n' "${serve[@]}"
rm -f "$out/last.txt"

line="{\"date\": \"$(date -u +%FT%TZ)\", \"commit\": \"$(git rev-parse --short HEAD 2>/dev/null || echo none)\","
line+=" \"cpu\": \"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)\", \"cores\": $(nproc),"
line+=" \"engine\": [${engine[0]}, ${engine[1]}], \"serve\": [${serve[0]}, ${serve[1]}]}"
echo "$line" | tee "$out/$(date -u +%Y%m%dT%H%M%SZ).json"
