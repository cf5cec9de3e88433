#!/usr/bin/env bash
# Runs every test and ends with one line "N passed, N failed": tests/run.sh BUILD_DIR [--cpp-only].
#
# First the C++ test binaries (Boost.Test, one a folder), then the end-to-end tests, which start the real server and
# talk to it with the real `openai` client in a virtual environment under build/, and the page's tests in a real
# browser where there is one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=$1
cpp_only=false
[ "${2:-}" = --cpp-only ] && cpp_only=true

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

passed=0
failed=0
skipped=0
reports=$build/test-reports
rm -rf "$reports"
mkdir -p "$reports"

# Adds a report's cases to the totals: add NAME REPORT STATUS BEGAN.
add() {
  local ok bad not_run
  read -r ok bad not_run <<<"$(python3 tests/support/count_cases.py "$2" 2>/dev/null || echo 0 1 0)"
  # A crash leaves no failed case in the report, but the run did fail.
  [ "$3" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
  passed=$((passed + ok))
  failed=$((failed + bad))
  skipped=$((skipped + not_run))
  local note=""
  [ "$not_run" -eq 0 ] || note=", $not_run skipped"
  printf '%-22s %5d passed %3d failed  %3d s%s\n' "$1" "$ok" "$bad" $((SECONDS - $4)) "$note"
  [ "$bad" -eq 0 ]
}

for binary in "$build"/tests/hs_test_*; do
  [ -x "$binary" ] || continue
  name=$(basename "$binary")
  report=$reports/$name.xml
  start=$SECONDS
  "$binary" --report_format=XML --report_level=short --report_sink="$report" --log_level=error --color_output=no \
    --catch_system_errors=no
  add "$name" "$report" $? $start
done

if ! $cpp_only; then
  if ! tests/end_to_end/prepare.sh; then
    echo "the end-to-end tests could not be prepared" >&2
    failed=$((failed + 1))
  else
    suites=(tests/end_to_end)
    tests/browser/prepare.sh
    case $? in
      0) suites+=(tests/browser) ;;
      3) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)) ;;
    esac
    for suite in "${suites[@]}"; do
      start=$SECONDS
      name=$(basename "$suite")
      SERVER_BINARY=$PWD/$build/heteroserve build/venv/bin/python -m pytest -q --color=no -p no:cacheprovider \
        --junit-xml="$reports/$name.xml" -o junit_family=xunit1 "$suite" >"$reports/$name.log" 2>&1
      add "$name" "$reports/$name.xml" $? $start || tail -n 120 "$reports/$name.log"
    done
  fi
fi

[ "$skipped" -eq 0 ] || echo "$skipped skipped (see above)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
