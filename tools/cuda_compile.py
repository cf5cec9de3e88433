"""Run a compiler command of the CUDA kernels, and keep what ptxas says of each kernel beside the object.

    python3 tools/cuda_compile.py nvcc ... -o FILE.o

Writes FILE.o.ptxas (input of tools/cuda_report.py); everything else that the compiler says goes through.
"""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run the command; its exit status."""
    command = sys.argv[1:]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    kept, shown = [], []
    for line in run.stderr.splitlines():
        about_kernels = line.startswith("ptxas info") or "bytes stack frame" in line
        (kept if about_kernels else shown).append(line)
    if shown:
        print("\n".join(shown), file=sys.stderr)
    if kept and "-o" in command:
        target = Path(command[command.index("-o") + 1])
        target.with_name(target.name + ".ptxas").write_text("\n".join(kept) + "\n", encoding="utf-8")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
