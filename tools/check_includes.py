"""Hold the include direction of docs/architecture.md, and look for cycles.

    python3 tools/check_includes.py [--root DIR]

A file may include its own folder and the folders its row names; outside libraries only where the table allows them.
Prints one line for each offence and exits 1 if there was any.
"""

import argparse
import re
import sys
from pathlib import Path

# folder -> folders it may include (besides itself), from the top of the house to the bottom
MAY_INCLUDE = {
    "src/app": "src/api src/http src/plan src/store src/hub src/fetch src/engine src/model src/text "
    "src/media src/loop src/device src/device/cpu kernels src/base",
    "src/api": "src/http src/loop src/store src/hub src/fetch src/engine src/model src/grammar src/text "
    "src/media src/device kernels src/base",
    "src/http": "src/loop src/base",
    "src/plan": "src/store src/engine src/model src/media src/base",
    "src/store": "src/base",
    "src/hub": "src/fetch src/model src/base",
    "src/fetch": "src/base",
    "src/engine": "src/model src/grammar src/text src/media src/device kernels src/base",
    "src/model": "src/text src/media src/device kernels src/base",
    "src/grammar": "src/base",
    "src/text": "src/base",
    "src/media": "src/base",
    "src/loop": "src/base",
    "src/device/cpu": "src/device kernels src/base",
    "src/device/cuda": "src/device kernels src/base",
    "src/device": "kernels src/base",
    "kernels": "src/base",
    "src/base": "",
}
# outside header -> folders that may include it
LIBRARIES = {
    r"uv\.h": "src/loop",
    r"llhttp\.h": "src/http",
    r"sqlite3\.h": "src/store",
    r"nlohmann/.*": "src/api src/text src/grammar src/model src/plan src/hub src/app",
    r"CLI/.*": "src/app",
    r"toml\+\+/.*|toml\.hpp": "src/plan src/app",
    r"pcre2\.h|utf8proc\.h": "src/text",
    r"turbojpeg\.h|jpeglib\.h|spng\.h": "src/media",
    r"openssl/.*": "src/media src/model src/store src/hub",
    r"curl/.*": "src/fetch",
    r"zlib\.h": "src/http src/media",
    r"cuda_runtime_api\.h|library_types\.h|cuda_emu/.*": "kernels src/device/cuda",
    r"immintrin\.h|x86intrin\.h|cpuid\.h": "kernels src/device/cpu",
}
# word -> folders where it may appear at all
WORDS = {
    r"\buv_\w+": "src/loop",
    r"\bsqlite3_\w+": "src/store",
    r"\bllhttp_\w+": "src/http",
    r"\bcurl_\w+": "src/fetch",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def folder_of(path: Path, root: Path) -> str:
    """The folder of the table a file belongs to."""
    return path.parent.relative_to(root).as_posix()


def sources(root: Path) -> list[Path]:
    """Every C++ file of the product, tests left out."""
    found = []
    for top in ("src", "kernels"):
        for ending in ("*.h", "*.cpp", "*.cu", "*.cuh"):
            found += (root / top).rglob(ending)
    return sorted(found)


def resolve(name: str, path: Path, root: Path) -> Path | None:
    """The project file an include names, or None when it is an outside header."""
    for base in (path.parent, root / "src", root):
        candidate = base / name
        if candidate.is_file():
            return candidate.resolve()
    return None


def find_cycle(graph: dict[Path, set[Path]]) -> list[Path]:
    """One cycle of the include graph, or an empty list."""
    state: dict[Path, int] = {}
    trail: list[Path] = []

    def visit(node: Path) -> list[Path]:
        state[node] = 1
        trail.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == 1:
                return trail[trail.index(other) :] + [other]
            if other not in state and (cycle := visit(other)):
                return cycle
        state[node] = 2
        trail.pop()
        return []

    for node in sorted(graph):
        if node not in state and (cycle := visit(node)):
            return cycle
    return []


def main() -> int:
    """Check every source file; 1 if something points the wrong way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    offences, graph = [], {}
    for path in sources(root):
        folder, shown, text = folder_of(path, root), path.relative_to(root), path.read_text(encoding="utf-8")
        if folder not in MAY_INCLUDE:
            offences.append(f"{shown}: folder {folder} is not in the table of tools/check_includes.py")
            continue
        allowed = {folder, *MAY_INCLUDE[folder].split()}
        graph[path.resolve()] = set()
        for _, name in INCLUDE.findall(text):
            target = resolve(name, path, root)
            if target is None:
                for pattern, folders in LIBRARIES.items():
                    if re.fullmatch(pattern, name) and folder not in folders.split():
                        offences.append(f"{shown}: <{name}> may only be included in {folders}")
                continue
            graph[path.resolve()].add(target)
            if (other := folder_of(target, root)) not in allowed:
                offences.append(f"{shown}: {folder} may not include {other} ({name})")
        if path.suffix == ".cpp" and (own := path.with_suffix(".h")).is_file():
            first = INCLUDE.search(text)
            if first and resolve(first.group(2), path, root) != own.resolve():
                offences.append(f"{shown}: must include {own.name} first, so that the header stands alone")
        code = re.sub(r"//.*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"", "", text)
        for pattern, folders in WORDS.items():
            if folder not in folders.split() and (hit := re.search(pattern, code)):
                offences.append(f"{shown}: {hit.group(0)} may only appear in {folders}")
    if cycle := find_cycle(graph):
        offences.append("include cycle: " + " -> ".join(str(p.relative_to(root)) for p in cycle))
    print("\n".join(offences), end="\n" if offences else "")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
