"""Plant bugs in the real CUDA kernels, one at a time, and see that their tests fail on the emulated GPU.

    python3 tests/cuda/mutants.py BUILD_DIR [--only TEXT]

Compiles each changed kernel with the command of the build, links it before the library, and runs the kernel's suite.
Exits 1 if a planted bug goes unnoticed, or no longer fits the source.
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


def source_of(file: str) -> str:
    """The .cu file whose object a change of `file` is seen in."""
    return file if file.endswith(".cu") else "sampling_cuda.cu"


def run(command: list[str], directory: Path, timeout_s: int = 400) -> subprocess.CompletedProcess:
    """Run to the end; the output is kept."""
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=timeout_s)


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


def main() -> int:
    """Plant every bug; 1 if one goes unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default="", help="plant only bugs whose description or file has this text")
    args = parser.parse_args()
    build = args.build.resolve()
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {Path(e["file"]).name: e for e in entries if "HS_CUDA_EMU" in e["command"]}
    chosen = [i for i, m in enumerate(MUTANTS) if args.only in m[0] or args.only in m[1]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [f for f in pool.map(lambda i: plant(i, build, commands), chosen) if f]
    print("".join(f"mutants: {fault}\n" for fault in faults), end="")
    print(f"mutants: {len(chosen) - len(faults)} of {len(chosen)} planted bugs are caught")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
