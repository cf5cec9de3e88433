#!/usr/bin/env bash
# Installs the Debian packages this project needs: the single list of them.
#
#   packaging/install-deps.sh [--build] [--test] [--browser] [--proxies] [--deb] [--lint] [--list]
#
# --build    what it takes to build and run (the default); --test adds what the tests need; --lint what the lint needs.
# --browser  what the tests of the page need besides (some 400 MB; without it they are skipped).
# --proxies  proxies and shells that tests run the real ones of (without them they are skipped; Debian starts them, too).
# --deb      what makes and checks the Debian packages.
# --list     prints the package names instead of installing them.
# Safe to repeat: nothing is done, and no root is needed, when everything is there.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libuv1-dev node-llhttp libsqlite3-dev zlib1g-dev libssl-dev libcurl4-openssl-dev
  nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libfmt-dev libpcre2-dev libutf8proc-dev
  libturbojpeg0-dev libspng-dev libwebp-dev libgif-dev)
test=(libboost-test-dev python3 python3-venv curl)
browser=(chromium)
proxies=(haproxy nginx-light caddy openssl zsh fish)
deb=(debhelper dpkg-dev scdoc lintian debootstrap)
lint=(python3 python3-venv shellcheck codespell)

want=()
list=false
for option in "$@"; do
  case "$option" in
    --build) want+=("${build[@]}") ;;
    --test) want+=("${build[@]}" "${test[@]}") ;;
    --browser) want+=("${browser[@]}") ;;
    --proxies) want+=("${proxies[@]}") ;;
    --deb) want+=("${build[@]}" "${deb[@]}" curl) ;;
    --lint) want+=("${build[@]}" "${test[@]}" "${lint[@]}") ;;
    --list) list=true ;;
    *) echo "install-deps: unknown option $option (known: --build --test --browser --proxies --deb --lint --list)" >&2; exit 2 ;;
  esac
done
[ ${#want[@]} -gt 0 ] || want=("${build[@]}")
mapfile -t want < <(printf '%s\n' "${want[@]}" | sort -u)

if $list; then
  printf '%s\n' "${want[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null; then
  echo "install-deps: this is not a Debian system; install the equivalents of: ${want[*]}" >&2
  exit 1
fi
missing=()
for package in "${want[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "install-deps: root is needed once, to run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
echo "install-deps: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_missing() {
  "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# The package lists of a fresh machine are empty or old: fetch them only when the install needs it.
if ! install_missing; then
  "${as_root[@]}" apt-get update >"$log" 2>&1 || true
  if ! install_missing; then
    tail -n 5 "$log" >&2
    echo "install-deps: could not install (is the network up?): ${missing[*]}" >&2
    exit 1
  fi
fi
