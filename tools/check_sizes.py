"""Report files over 500 lines and functions over 70, and fail on what is beyond any excuse.

A size is a question, not a verdict: a few long tables or state machines read better whole. The hard limits are 800
lines a file and 150 lines a function.
"""

import subprocess
import sys

import lizard

FILE_ASK, FILE_MAX = 500, 800
FUNCTION_ASK, FUNCTION_MAX = 70, 150


def main() -> int:
    """Print what is large; 1 if something is over a hard limit."""
    listed = subprocess.run(["git", "ls-files", "src", "kernels"], capture_output=True, text=True, check=True)
    bad, asked = False, []
    for path in listed.stdout.split():
        if not path.endswith((".cpp", ".h", ".cu", ".cuh")):
            continue
        with open(path, encoding="utf-8") as file:
            lines = file.read().count("\n")
        if lines > FILE_ASK:
            asked.append(f"{path}: {lines} lines")
            bad |= lines > FILE_MAX
        for function in lizard.analyze_file(path).function_list:
            length = function.end_line - function.start_line + 1
            if length > FUNCTION_ASK:
                asked.append(f"{path}:{function.start_line}: {function.name} has {length} lines")
                bad |= length > FUNCTION_MAX
    for line in asked:
        print("  large:", line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
