#!/usr/bin/env bash
# Everything that can be checked without running the product: tools/lint.sh [--fix] [--fast].
#
# --fix formats in place and stops there; --fast leaves out clang-tidy.
# Tools are pinned in tools/lint-requirements.txt and live in build/lint-venv.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=false
fast=false
for option in "$@"; do
  case "$option" in
    --fix) fix=true ;;
    --fast) fast=true ;;
    *) echo "lint: unknown option $option (known: --fix --fast)" >&2; exit 2 ;;
  esac
done

venv=build/lint-venv
if ! cmp -s tools/lint-requirements.txt "$venv/.requirements" 2>/dev/null; then
  mkdir -p build
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tools/lint-requirements.txt >"$venv/install.log" 2>&1 || {
    tail -n 5 "$venv/install.log" >&2
    echo "lint: could not install tools/lint-requirements.txt (is the network up?)" >&2
    exit 1
  }
  cp tools/lint-requirements.txt "$venv/.requirements"
fi

mapfile -t cpp < <(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
if $fix; then
  "$venv/bin/clang-format" -i "${cpp[@]}"
  exit 0
fi

bad=0
step() {
  local name=$1
  shift
  local start=$SECONDS
  if "$@"; then
    printf 'lint: %-28s ok   %3d s\n' "$name" $((SECONDS - start))
  else
    printf 'lint: %-28s FAILED\n' "$name"
    bad=1
  fi
}

tidy() {
  # The compile commands of the release build say how each file is compiled; files built several times are checked once.
  tools/build.sh release heteroserve >/dev/null
  git ls-files 'src/*.cpp' 'kernels/*.cpp' ':!kernels/*_amx_cpu.cpp' ':!kernels/*_avx512bf16_cpu.cpp' |
    xargs -P "$(nproc)" -n 2 "$venv/bin/clang-tidy" -p build/release --quiet --extra-arg=-Wno-unknown-warning-option >build/clang-tidy.log 2>&1 || {
    grep -E 'error:|warning:' build/clang-tidy.log | sort -u | head -n 40
    return 1
  }
}
isa_symbols() { tools/build.sh release hs_kernels >/dev/null && tools/check_isa_symbols.sh build/release; }
shell_scripts() { git ls-files '*.sh' .ci/run | xargs shellcheck -e SC2317; }
python_sources() { git ls-files '*.py' | xargs "$venv/bin/ruff" check -q --no-cache && git ls-files '*.py' | xargs "$venv/bin/ruff" format -q --check --no-cache; }
spelling() { git ls-files '*.md' '*.h' '*.cpp' '*.py' '*.sh' ':!tests/golden' | xargs codespell -q 3 -L te,hist,ans,crosse,fo,nd,hel,nknown,iif,alph; }

step "clang-format" "$venv/bin/clang-format" --dry-run -Werror "${cpp[@]}"
step "include direction, cycles" python3 tools/check_includes.py
step "sizes of files, functions" "$venv/bin/python" tools/check_sizes.py
step "ISA symbols" isa_symbols
step "web page, its build" tools/web.sh --check
step "shellcheck" shell_scripts
step "ruff" python_sources
step "codespell" spelling
$fast || step "clang-tidy" tidy
exit $bad
