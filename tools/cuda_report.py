"""Compare registers, stack and spills of the CUDA kernels with the committed report.

    python3 tools/cuda_report.py BUILD_DIR [--write]

Reads what tools/cuda_compile.py kept. --write replaces kernels/cuda_resources.txt. Numbers are those of one compiler:
with another nvcc than the report's only spills count as a fault.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

REPORT = Path(__file__).resolve().parent.parent / "kernels" / "cuda_resources.txt"
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def readable(names: list[str]) -> dict[str, str]:
    """Mangled names to what a person would write, without the parts that change with each compilation."""
    run = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    shown = {}
    for name, full in zip(names, run.stdout.splitlines(), strict=True):
        plain = re.sub(r"_GLOBAL__N__\w+|\(anonymous namespace\)", "", full.removeprefix("void "))
        plain = plain.replace("hs::cuda::::", "").replace("hs::cuda::", "").replace("(bool)", "").replace("(int)", "")
        shown[name] = plain[: plain.index("(")] if "(" in plain else plain
    return shown


def collect(build: Path) -> tuple[dict[tuple[str, str], dict[str, str]], list[str]]:
    """(file, kernel) to the numbers of each architecture, and which of them spill, from every kept output."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    spilled = []
    for path in sorted(build.rglob("*.cu.o.ptxas")):
        text, file = path.read_text(encoding="utf-8"), path.name.removesuffix(".o.ptxas")
        shown = readable(sorted({name for name, _ in ENTRY.findall(text)}))
        for part in re.split(r"(?=ptxas info\s*: Compiling entry)", text):
            if not (entry := ENTRY.search(part)):
                continue
            kernel, architecture = shown[entry.group(1)], entry.group(2)
            stack, stores, loads = FRAME.search(part).groups()
            numbers = USED.search(part).group(1)
            if stack != "0":
                numbers += f" (stack {stack})"
            if (stores, loads) != ("0", "0"):
                numbers += f" (spills {stores}/{loads})"
                spilled.append(f"{file} {kernel} {architecture}: {numbers}")
            rows.setdefault((file, kernel), {})[architecture] = numbers
    return rows, spilled


def compiler_version(build: Path) -> str:
    """The nvcc of a build directory."""
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    nvcc = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.*)$", cache, re.M).group(1)
    out = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", out).group(1)


def compare(text: str, version: str, spilled: list[str], n_kernels: int) -> int:
    """Say how the report differs from the committed one; 1 on a difference, or on spills with another compiler."""
    wanted = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
    if f"# nvcc {version}\n" not in wanted:
        print("\n".join(spilled), end="\n" if spilled else "")
        print(f"cuda_report: {len(spilled)} spills; nvcc {version} is not the report's, registers are not compared")
        return 1 if spilled else 0
    old, new = wanted.splitlines(), text.splitlines()
    differences = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    if differences:
        print("\n".join(differences[:60]))
        print(f"cuda_report: {len(differences)} lines differ from {REPORT.name}; if that is meant: make cuda-report")
        return 1
    print(f"cuda_report: {n_kernels} kernels use what {REPORT.name} says (nvcc {version})")
    return 0


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    (rows, spilled), version = collect(args.build), compiler_version(args.build)
    if not rows:
        print(f"cuda_report: nothing was kept below {args.build}", file=sys.stderr)
        return 1
    architectures = sorted({a for row in rows.values() for a in row})
    text = (
        f"# Registers of each kernel for {', '.join(architectures)}; written by `make cuda-report`.\n# nvcc {version}\n"
    )
    for (file, kernel), row in sorted(rows.items()):
        text += f"{file} {kernel}: {' '.join(row.get(a, '-') for a in architectures)}\n"
    if args.write:
        REPORT.write_text(text, encoding="utf-8")
        return 0
    return compare(text, version, spilled, len(rows))


if __name__ == "__main__":
    sys.exit(main())
