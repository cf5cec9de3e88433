#!/usr/bin/env bash
# Builds the Debian packages into build/deb: tools/deb.sh.
#
# From a copy of the tree (what git knows, as it is now), so that nothing is written beside it. heteroserve-cuda is built
# where a CUDA toolkit is: CUDA_HOME, nvcc on the PATH, or one that `make cuda-build` has fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/deb
tree=$out/tree

version=$(<VERSION)
changelog=$(dpkg-parsechangelog -l debian/changelog -S Version)
if [ "$version" != "$changelog" ]; then
  echo "deb: VERSION is $version but debian/changelog begins with $changelog" >&2
  exit 1
fi

profiles=${DEB_BUILD_PROFILES:-}
if [ -f src/device/cuda/CMakeLists.txt ] && root=$(tools/cuda_toolkit.sh --here); then
  export HETEROSERVE_CUDA_ROOT=$root
  profiles="$profiles pkg.heteroserve.cuda"
else
  echo "deb: no CUDA toolkit or no plug-in to build, so heteroserve-cuda is left out" >&2
fi

# debhelper gives the build a home of its own; the compiler cache is this user's.
if command -v ccache >/dev/null; then
  CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
  export CCACHE_DIR
fi
mkdir -p "$tree"
# The objects stay; everything else is what the tree holds now.
find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --create --null --files-from=- | tar --extract --directory "$tree"
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo

log=$out/build.log
if ! (cd "$tree" && DEB_BUILD_PROFILES=$profiles DEB_BUILD_OPTIONS="parallel=${JOBS:-$(nproc)} noautodbgsym" \
  dpkg-buildpackage --build=binary --no-sign --no-pre-clean) >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "deb: the build failed, see $log" >&2
  exit 1
fi
ls -l "$out"/*.deb
