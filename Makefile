# A thin front: every target calls CMake presets or a script. `make help` lists them.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
MODEL ?= models/demo/llava
ARGS ?=
SECONDS_OF_SOAK = $(or $(SECONDS),1800)
PRESET ?= release

.DEFAULT_GOAL := build
.PHONY: web deb deb-check run build test test-cuda test-cuda-mutants cuda-build cuda-report gpu-check test-reference bench bench-cuda-host bench-tiers bench-truth bench-plan bench-full-size bench-streams soak lint fmt asan tsan fuzz clean help

run: build  ## install what is missing, build, and serve the demo model at http://127.0.0.1:8080
	build/release/heteroserve serve $(MODEL) $(ARGS)

build:  ## build the binary at build/release/heteroserve
	@packaging/install-deps.sh --build
	@tools/build.sh $(PRESET) heteroserve

test:  ## run all tests
	@packaging/install-deps.sh --test
	@tools/build.sh $(PRESET)
	@tests/run.sh build/$(PRESET)

cuda-build:  ## build the CUDA plug-in for sm_80, sm_89 and sm_90, and compare registers and spills with the committed report
	@packaging/install-deps.sh --build
	@tools/build.sh cuda hs_kernels_cuda hs_cuda_plugin
	@python3 tools/cuda_report.py build/cuda

cuda-report:  ## write that report anew
	@packaging/install-deps.sh --build
	@tools/build.sh cuda hs_kernels_cuda
	@python3 tools/cuda_report.py build/cuda --write

test-cuda: cuda-build  ## that, and all kernels and the backend on emulated GPUs (no GPU needed)
	@packaging/install-deps.sh --test
	@tools/build.sh cuda hs_test_cuda
	@tests/run.sh build/cuda --cpp-only

test-cuda-mutants: cuda-build  ## plant bugs in the CUDA kernels and backend one by one: the tests must see each (minutes, both cores)
	@packaging/install-deps.sh --test
	@tools/build.sh cuda hs_test_cuda
	@python3 tests/cuda/mutants.py build/cuda

gpu-check:  ## measure this machine's GPUs against what they could do; under 8 minutes (docs/performance.md)
	@packaging/install-deps.sh --test
	@tests/gpu/run.sh build/cuda

bench-cuda-host:  ## the host's work in a decode step of the CUDA backend, on the emulated runtime without kernels
	@packaging/install-deps.sh --test
	@tools/build.sh cuda hs_bench_cuda_host
	@build/cuda/tests/hs_bench_cuda_host $(ARGS)

test-reference:  ## optional: compare random-weight models with Hugging Face transformers (installs PyTorch)
	@packaging/install-deps.sh --test
	@tools/build.sh release
	@tests/reference/run.sh build/release

bench:  ## measure speed against this machine's limits; ends with one line of JSON
	@packaging/install-deps.sh --test
	@tools/build.sh release heteroserve hs_bench_engine
	@tests/bench/run.sh build/release $(ARGS)

bench-tiers:  ## compare partitions and work stealing on two CPU devices of one core each; ends with one line of JSON
	@packaging/install-deps.sh --test
	@tools/build.sh release hs_bench_tiers
	@tests/bench/run_tiers.sh build/release $(ARGS)

bench-truth:  ## what the simulator says against what two CPU devices serve; ends with one line of JSON
	@packaging/install-deps.sh --test
	@tools/build.sh release hs_bench_truth
	@tests/bench/run_truth.sh build/release $(ARGS)

bench-plan:  ## cost of a scheduler step and of a million simulated requests on one core
	@packaging/install-deps.sh --test
	@tools/build.sh release hs_bench_plan
	@build/release/tests/hs_bench_plan $(ARGS)

bench-full-size:  ## random-weight LLaVA-1.5-7B and Qwen2.5-VL-3B on the CPU; needs 15 GB of disk and 18 GB of memory
	@packaging/install-deps.sh --test
	@tools/build.sh release heteroserve hs_bench_machine
	@tests/bench/run_full_size.sh build/release $(ARGS)

soak:  ## random clients against one server for half an hour (SECONDS=..., ARGS=--seed N): gauges end at zero, memory stays flat
	@packaging/install-deps.sh --test
	@tools/build.sh release heteroserve
	@tests/soak/run.sh build/release soak.py --seconds $(SECONDS_OF_SOAK) --answer-ms 100 $(ARGS)

bench-streams:  ## what each of 10,000 open streams costs in memory, and whether the server still answers others
	@packaging/install-deps.sh --test
	@tools/build.sh release heteroserve
	@tests/soak/run.sh build/release streams.py $(ARGS)

web:  ## build web/dist, the page that is compiled into the binary; only after a change of web/
	@tools/web.sh

deb:  ## build the Debian packages into build/deb
	@packaging/install-deps.sh --deb
	@tools/deb.sh
	@lintian --fail-on error,warning build/deb/*.changes

deb-check: deb  ## install, run, upgrade, downgrade, remove and purge them in a small Debian (needs root; the first run a mirror)
	@python3 tools/deb_check.py $(ARGS)

lint:  ## formatting, include direction, sizes, scripts, spelling, static analysis (ARGS=--fast leaves that out)
	@packaging/install-deps.sh --lint
	@tools/lint.sh $(ARGS)

fmt:  ## format the C++ sources in place
	@packaging/install-deps.sh --lint
	@tools/lint.sh --fix

asan:  ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@packaging/install-deps.sh --test
	@tools/build.sh asan
	@tests/run.sh build/asan --cpp-only

tsan:  ## the C++ tests under ThreadSanitizer
	@packaging/install-deps.sh --test
	@tools/build.sh tsan
	@tests/run.sh build/tsan --cpp-only

fuzz:  ## hostile bytes through every parser, under the sanitizers
	@packaging/install-deps.sh --test
	@tools/build.sh asan
	@tests/fuzz/run.sh build/asan

clean:  ## remove everything that was built
	rm -rf build

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"
