#!/usr/bin/env bash
# Runs every test and ends with one line "N passed, N failed": tests/run.sh BUILD_DIR [--cpp-only].
#
# First the C++ test binaries (Boost.Test, one a folder), then the end-to-end tests, which start the real server and
# talk to it with the real `openai` client in a virtual environment under build/.
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
reports=$build/test-reports
rm -rf "$reports"
mkdir -p "$reports"

for binary in "$build"/tests/hs_test_*; do
  [ -x "$binary" ] || continue
  name=$(basename "$binary")
  report=$reports/$name.xml
  start=$SECONDS
  "$binary" --report_format=XML --report_level=short --report_sink="$report" --log_level=error --color_output=no \
    --catch_system_errors=no
  status=$?
  counts=$(python3 tests/support/count_cases.py "$report" 2>/dev/null) || counts="0 1"
  read -r ok bad <<<"$counts"
  # A crash leaves no failed case in the report, but the run did fail.
  [ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
  passed=$((passed + ok))
  failed=$((failed + bad))
  printf '%-22s %5d passed %3d failed  %3d s\n' "$name" "$ok" "$bad" $((SECONDS - start))
done

if ! $cpp_only; then
  if ! tests/end_to_end/prepare.sh; then
    echo "the end-to-end tests could not be prepared" >&2
    failed=$((failed + 1))
  else
    start=$SECONDS
    report=$reports/end_to_end.xml
    SERVER_BINARY=$PWD/$build/heteroserve build/venv/bin/python -m pytest -q --color=no -p no:cacheprovider \
      --junit-xml="$report" -o junit_family=xunit1 tests/end_to_end >"$reports/end_to_end.log" 2>&1
    status=$?
    counts=$(python3 tests/support/count_cases.py "$report" 2>/dev/null) || counts="0 1"
    read -r ok bad <<<"$counts"
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    [ "$bad" -eq 0 ] || tail -n 120 "$reports/end_to_end.log"
    passed=$((passed + ok))
    failed=$((failed + bad))
    printf '%-22s %5d passed %3d failed  %3d s\n' end_to_end "$ok" "$bad" $((SECONDS - start))
  fi
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
