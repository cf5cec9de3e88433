"""Plant bugs in the real CUDA kernels and in the backend, one at a time, and see that tests fail on emulated GPUs.

    python3 tests/cuda/mutants.py BUILD_DIR [--only TEXT]

Compiles each changed file with the command of the build, links it before the library, and runs the kernel's suite, or
those that are named beside a change of the backend. Exits 1 if a planted bug goes unnoticed, or no longer fits the
source.
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# what it is, the file of kernels/ to change, its old text (which stands there once), the new one, the file to compile
PREFILL, DECODE, CUT = "attention_prefill_cuda.cu", "attention_decode_cuda.cu", "sampling_cut.cuh"
MUTANTS = [
    ("no barrier before keys are read", PREFILL, "__syncthreads();  // the keys are there", "//"),
    ("no barrier before values are read", PREFILL, "__syncthreads();  // the values are there", "//"),
    ("no barrier after queries are read", PREFILL, "  __syncthreads();\n\n  Softmax", "\n  Softmax"),
    ("no wait for keys", PREFILL, "wait_async<0>();\n    __syncthreads();  // the keys", "__syncthreads();  //"),
    (
        "wait for values too lax",
        PREFILL,
        "wait_async<0>();\n    __syncthreads();  // the values",
        "wait_async<1>();\n//",
    ),
    ("fragment registers swapped", PREFILL, "scores[n + 1], q[k], b[2], b[3]", "scores[n + 1], q[k], b[3], b[2]"),
    ("value columns of the wrong tile", PREFILL, "n * 8 + lane / 16 * 8);", "n * 8);"),
    ("causal limit one too low", PREFILL, "context - length + first + 1", "context - length + first"),
    ("last row of a tile dropped", PREFILL, "left < kRows ? left : kRows", "left < kRows ? left : kRows - 1"),
    ("no barrier before warps are merged", DECODE, "  __syncthreads();\n  for (int i", "  for (int i"),
    ("a stream left out of the merge", DECODE, "int apart = kLanes; apart < kWarp", "int apart = kLanes; apart < 16"),
    ("sums not rescaled", DECODE, "s.sum[h] *= keep;\n    HS_UNROLL", "HS_UNROLL"),
    ("keys beyond the chunk", DECODE, "end ? dot : kLowest", "context ? dot : kLowest"),
    ("merged chunks not weighed", DECODE, "acc += keep * part[at]", "acc += part[at]"),
    ("no barrier before sums are read", "linear_cuda.cu", "  __syncthreads();\n  finish", "  finish"),
    ("operand registers swapped", "linear_cuda.cu", "{top.x, low.x, top.y, low.y}", "{top.x, top.y, low.x, low.y}"),
    ("a step of in_dim twice", "linear_cuda.cu", "(step + int64_t{a} * kWarps)", "(step + int64_t{a / 2} * kWarps)"),
    ("angles read before the barrier", "rope_cuda.cu", "  __syncthreads();\n}", "}"),
    ("one area for two reductions", "norm_cuda.cu", "area + kWarpsMax", "area"),
    (
        "no barrier between copy and penalty",
        "sampling_cuda.cu",
        "copy[id] = x; });\n  __syncthreads();",
        "copy[id] = x; });",
    ),
    ("place found before it is stored", CUT, "  __syncthreads();\n  const Reached", "  const Reached"),
    ("candidates counted from anything", CUT, "s.n_candidates = 0;\n  __syncthreads();", "s.n_candidates = 0;"),
    (
        "ties by the highest id",
        CUT,
        "const bool before = s.candidate_order[i] > mine",
        "const bool before = (s.candidate_order[i] ^ 0xFFFFFFFF) > (mine ^ 0xFFFFFFFF)",
    ),
]

RING, COPIES, OPS, BLAS = "cuda/pinned_ring.cpp", "cuda/copy_engine.cpp", "cuda/cuda_ops.cpp", "cuda/blas_lt.cpp"
AREA, GRAPHS, STAGING = "cuda/sampling_area.cpp", "cuda/step_graphs.cpp", "staging_ring.cpp"
GROUP = "communicator.cpp"
DEVICE_TESTS, OPS_TESTS, GRAPH_TESTS = "cuda_device_tests", "cuda_ops_tests", "step_graphs_cuda_tests"
SHARED_TESTS = "interleavings_cuda_tests"
# what it is, the file of src/device/, its old text, the new one, the suites that are to see it
HOST_MUTANTS = [
    ("no wait for a bounce buffer", RING, "HS_CUDA_TRY(*context_, cudaEventSynchronize(sent));", "", DEVICE_TESTS),
    (
        "a bounce buffer's copy not marked",
        RING,
        "HS_CUDA_TRY(*context_, cudaEventRecord(sent, stream_));",
        "",
        DEVICE_TESTS,
    ),
    (
        "downloads read before they are there",
        RING,
        "HS_CUDA(*context_, cudaStreamSynchronize(stream_))",
        "Status{}",
        DEVICE_TESTS,
    ),
    (
        "an upload in another stream",
        RING,
        "cudaMemcpyHostToDevice, stream_",
        "cudaMemcpyHostToDevice, nullptr",
        DEVICE_TESTS,
    ),
    (
        "a download in another stream",
        RING,
        "cudaMemcpyDeviceToHost, stream_",
        "cudaMemcpyDeviceToHost, nullptr",
        DEVICE_TESTS,
    ),
    (
        "copies that are not waited for",
        COPIES,
        "  return HS_CUDA(context_, cudaStreamSynchronize(stream_.get()));\n}\n\nStatus CopyEngine::read",
        "  return {};\n}\n\nStatus CopyEngine::read",
        DEVICE_TESTS,
    ),
    (
        "peer copies that are not waited for",
        COPIES,
        "  return HS_CUDA(context_, cudaStreamSynchronize(stream_.get()));\n}\n\nResult",
        "  return {};\n}\n\nResult",
        DEVICE_TESTS,
    ),
    (
        "checksums read before they are there",
        COPIES,
        "HS_CUDA_TRY(context_, cudaStreamSynchronize(stream));",
        "",
        DEVICE_TESTS,
    ),
    (
        "a checksum in another stream",
        COPIES,
        ".n_parts = n_parts},\n                                 stream));",
        ".n_parts = n_parts},\n                                 nullptr));",
        DEVICE_TESTS,
    ),
    (
        "zeros not waited for",
        "cuda/memory.cpp",
        "HS_CUDA_TRY(context, cudaStreamSynchronize(stream));",
        "",
        DEVICE_TESTS,
    ),
    (
        "a product of few rows in another stream",
        OPS,
        "few_rows_linear(params, stream_)",
        "few_rows_linear(params, nullptr)",
        OPS_TESTS,
    ),
    (
        "a norm in another stream",
        OPS,
        "cuda::rms_norm(params, stream_)",
        "cuda::rms_norm(params, nullptr)",
        GRAPH_TESTS,
    ),
    (
        "a product in another stream",
        BLAS,
        "workspace_.bytes(), stream_));",
        "workspace_.bytes(), nullptr));",
        OPS_TESTS,
    ),
    ("a sum added beside its rows", BLAS, "    part.y = y;\n", "", OPS_TESTS),
    (
        "sampling in another stream",
        AREA,
        "workspace_.as<float>()},\n                                     stream_",
        "workspace_.as<float>()},\n                                     nullptr",
        f"{OPS_TESTS},{SHARED_TESTS}",
    ),
    (
        "a graph in another stream",
        GRAPHS,
        "cudaGraphLaunch(known->second, stream_)",
        "cudaGraphLaunch(known->second, nullptr)",
        GRAPH_TESTS,
    ),
    (
        "one graph for all batch sizes",
        GRAPHS,
        "graphs_.find(key);",
        "graphs_.find(graphs_.empty() ? key : graphs_.begin()->first);",
        GRAPH_TESTS,
    ),
    ("graphs that are not given back", GRAPHS, "cudaGraphExecDestroy(graph)", "(void)graph", GRAPH_TESTS),
    ("a lost device goes on", "cuda/context.cpp", "    case cudaErrorIllegalAddress:\n", "", DEVICE_TESTS),
    (
        "a failed op is not told",
        "cuda/cuda_device.cpp",
        "  if (Status deferred = context_.take_deferred(); !deferred) return deferred;\n",
        "",
        DEVICE_TESTS,
    ),
    (
        "weights cut off instead of rounded",
        "cuda/convert.cpp",
        "bits + 0x7FFFU + ((bits >> 16U) & 1U)",
        "bits",
        DEVICE_TESTS,
    ),
    (
        "a chunk is read before it is filled",
        STAGING,
        "n_filled_ > n || failed_",
        "n_filled_ >= n || failed_",
        f"{DEVICE_TESTS},{SHARED_TESTS}",
    ),
    (
        "a chunk is filled before it is read",
        STAGING,
        "n - n_emptied_ < n_chunks_",
        "n - n_emptied_ <= n_chunks_",
        f"{DEVICE_TESTS},{SHARED_TESTS}",
    ),
    (
        "a part is read before it is finished",
        GROUP,
        "if (Status written = rank.device->sync(); !written || is_direct_) return written;",
        "if (is_direct_) return {};",
        SHARED_TESTS,
    ),
    (
        "parts of two sums in one area",
        GROUP,
        "rank.host.as<std::byte>() + call % 2 *",
        "rank.host.as<std::byte>() + call % 1 *",
        SHARED_TESTS,
    ),
]


def source_of(file: str) -> str:
    """The .cu file whose object a change of `file` is seen in."""
    return file if file.endswith(".cu") else "sampling_cuda.cu"


def run(command: list[str], directory: Path, timeout_s: int = 400) -> subprocess.CompletedProcess:
    """Run to the end; the output is kept."""
    environment = os.environ | {"HS_INTERLEAVINGS": "24"}
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=timeout_s, env=environment)


def chosen(mutants: list[tuple], text: str) -> list[int]:
    """The indices of those whose description or file has the text."""
    return [i for i, mutant in enumerate(mutants) if text in mutant[0] or text in mutant[1]]


def plant(index: int, build: Path, commands: dict[str, dict]) -> str:
    """Make, link and run one mutant: "" if its tests fail, else what is wrong."""
    what, file, old, new = MUTANTS[index]
    text = (ROOT / "kernels" / file).read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{what}: the text stands {text.count(old)} times in {file}"
    place = build / "mutants" / str(index)
    (place / "kernels").mkdir(parents=True, exist_ok=True)
    changed = place / "kernels" / file
    changed.write_text(text.replace(old, new), encoding="utf-8")
    entry = commands[source_of(file)]
    compile_command = shlex.split(entry["command"])
    target, source = compile_command.index("-o") + 1, entry["file"]
    compile_command[target] = str(place / "kernel.o")
    compile_command = [str(changed) if a == source and file.endswith(".cu") else a for a in compile_command]
    compiler = next(i for i, a in enumerate(compile_command) if a.endswith("c++"))
    compile_command[compiler + 1 : compiler + 1] = [f"-I{place}", "-Wno-error"]
    if (made := run(compile_command, Path(entry["directory"]))).returncode != 0:
        return f"{what}: does not compile: {made.stderr[:300]}"
    suite = source_of(file).removesuffix(".cu") + "_tests"
    made_by_build = build / "tests/CMakeFiles/hs_test_cuda.dir"
    objects = [str(made_by_build / o) for o in (f"cuda/{suite}.cpp.o", "support/main.cpp.o")]
    libraries = [
        str(build / p) for p in ("tests/libhs_cuda_emulated.a", "kernels/libhs_kernels.a", "src/base/libhs_base.a")
    ]
    binary = place / "tests"
    link = [compile_command[compiler], "-o", str(binary), *objects, str(place / "kernel.o"), *libraries]
    if (made := run([*link, "-lboost_unit_test_framework", "-lfmt", "-lpthread"], build)).returncode != 0:
        return f"{what}: does not link: {made.stderr[:300]}"
    try:
        ran = run([str(binary), "-t", suite, "--catch_system_errors=no"], build)
    except subprocess.TimeoutExpired:
        return f"{what}: its tests did not end"
    finally:
        binary.unlink()
    if "Running" not in ran.stdout + ran.stderr:
        return f"{what}: suite {suite} did not run"
    return f"{what} ({file}) was not noticed" if ran.returncode == 0 else ""


def plant_in_host(index: int, build: Path, commands: dict[str, dict], link: str) -> str:
    """The same for a change of the backend, with the whole test program."""
    what, file, old, new, suites = HOST_MUTANTS[index]
    source = ROOT / "src/device" / file
    text = source.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{what}: the text stands {text.count(old)} times in {file}"
    place = build / "mutants" / f"host{index}"
    place.mkdir(parents=True, exist_ok=True)
    changed, made_object, binary = place / source.name, place / "changed.o", place / "tests"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    entry = commands[str(source)]
    compile_command = [str(changed) if a == entry["file"] else a for a in shlex.split(entry["command"])]
    compile_command[compile_command.index("-o") + 1] = str(made_object)
    if (made := run([*compile_command, "-Wno-error"], Path(entry["directory"]))).returncode != 0:
        return f"{what}: does not compile: {made.stderr[:300]}"
    linked = link.replace("-o tests/hs_test_cuda ", f"-o {binary} {made_object} ")
    if (made := run(["bash", "-c", linked], build)).returncode != 0:
        return f"{what}: does not link: {made.stderr[:300]}"
    try:
        ran = run([str(binary), "-t", suites, "--catch_system_errors=no"], build)
    except subprocess.TimeoutExpired:
        return ""  # it stands still: noticed
    finally:
        binary.unlink()
    if "Test setup error" in ran.stdout + ran.stderr:
        return f"{what}: suites {suites} did not run"
    return f"{what} ({file}) was not noticed" if ran.returncode == 0 else ""


def main() -> int:
    """Plant every bug; 1 if one goes unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default="", help="plant only bugs whose description or file has this text")
    args = parser.parse_args()
    build = args.build.resolve()
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {Path(e["file"]).name: e for e in entries if "HS_CUDA_EMU" in e["command"]}
    host_commands = {e["file"]: e for e in entries if "hs_device.dir" in e["command"]}
    host_commands |= {e["file"]: e for e in entries if "hs_cuda_backend_emulated.dir" in e["command"]}
    steps = run(["ninja", "-t", "commands", "hs_test_cuda"], build).stdout.splitlines()
    link = next(step for step in steps if "-o tests/hs_test_cuda " in step)
    jobs = [lambda i=i: plant(i, build, commands) for i in chosen(MUTANTS, args.only)]
    jobs += [lambda i=i: plant_in_host(i, build, host_commands, link) for i in chosen(HOST_MUTANTS, args.only)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [f for f in pool.map(lambda job: job(), jobs) if f]
    print("".join(f"mutants: {fault}\n" for fault in faults), end="")
    print(f"mutants: {len(jobs) - len(faults)} of {len(jobs)} planted bugs are caught")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
