#!/usr/bin/env bash
# Measures the GPUs of this machine: tests/gpu/run.sh BUILD_DIR. `make gpu-check` builds what it needs before.
#
# First the kernels' tests on the GPU, then the measurements (a table here, JSON in BUILD_DIR/gpu-check.json), then, as
# time allows, compute-sanitizer. All of it with the build stays under 8 minutes. docs/performance.md says what is
# measured and why. Exit status 0: all targets met; 1: not; 3: no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$1
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
  echo "gpu-check: no NVIDIA device: neither /dev/nvidiactl nor /dev/dxg is there; nothing was measured" >&2
  exit 3
fi
JOBS=${JOBS:-$(nproc)} tools/build.sh cuda hs_cuda_plugin hs_gpu_check hs_gpu_kernels || exit 1

status=0
kernels=$build/gpu-check-kernels.log
if timeout 90 "$build/tests/hs_gpu_kernels" --color_output=no >"$kernels" 2>&1; then
  echo "kernels on the GPU: $(grep -o 'Running [0-9]* test cases' "$kernels"), all passed"
else
  echo "kernels on the GPU: FAILED, see $kernels"
  tail -n 20 "$kernels"
  status=1
fi

# A checkpoint of random weights in the size of LLaVA-1.5-7B, where there is room for it.
scratch=$build/gpu-check-model
model=()
if python3 tests/bench/full_size_bench.py room llava-1.5-7b "$scratch"; then
  [ -f "$scratch/llava-1.5-7b/config.json" ] ||
    python3 tests/bench/make_full_size.py llava-1.5-7b "$scratch/llava-1.5-7b" || exit 1
  model=(--model "$scratch/llava-1.5-7b")
fi
timeout 240 "$build/tests/hs_gpu_check" "${model[@]}" --demo models/demo/llava --json "$build/gpu-check.json"
measured=$?
[ "$measured" -eq 0 ] || status=$measured

if command -v compute-sanitizer >/dev/null; then
  if timeout 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$build/tests/hs_gpu_kernels" \
    -t norm_cuda_tests,linear_cuda_tests >"$build/gpu-check-sanitizer.log" 2>&1; then
    echo "compute-sanitizer: nothing found"
  else
    echo "compute-sanitizer: see $build/gpu-check-sanitizer.log (status $?; 124: out of time)"
  fi
fi
exit "$status"
