#!/usr/bin/env bash
# Objects compiled for a wide instruction set may define shared symbols only inside their own namespace, hs::isa_LEVEL:
# the linker keeps one copy of an inline function, and if it kept the wide one, the program would die on a machine
# without those instructions. tools/check_isa_symbols.sh BUILD_DIR
set -euo pipefail
build=$1
bad=0
found=0
for level in avx2 avx512 avx512bf16 amx; do
  while IFS= read -r object; do
    found=$((found + 1))
    # Upper-case letters and u are global, weak or unique symbols. Mangled, a name of namespace hs::isa_x holds
    # "2hs" and the length of isa_x followed by isa_x. Sanitizers add symbols of their own, which hold no wide code.
    name=isa_$level
    stray=$(nm --defined-only "$object" | grep -E '^[0-9a-f]+ [A-Zu] ' | grep -v "2hs${#name}$name" |
      grep -vE ' (DW\.ref\.|__asan_|__tsan_|__ubsan_|__odr_asan)' || true)
    if [ -n "$stray" ]; then
      echo "$object defines symbols outside hs::$name:" >&2
      c++filt <<<"$stray" | sed 's/^/  /' >&2
      bad=1
    fi
  done < <(find "$build/kernels" -path "*hs_kernels_$level.dir*" -name '*.o')
done
if [ "$found" -eq 0 ]; then
  echo "check_isa_symbols: no objects under $build/kernels; build hs_kernels first" >&2
  exit 1
fi
exit $bad
