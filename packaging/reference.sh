#!/usr/bin/env bash
# What the package holds besides the program and is made by it: packaging/reference.sh BINARY FOLDER.
#
# Manual pages, completion scripts and the settings file with every key commented out.
set -euo pipefail
binary=$1
out=$2
mkdir -p "$out"
"$binary" manual 1 | scdoc >"$out/heteroserve.1"
"$binary" manual 5 | scdoc >"$out/heteroserve.toml.5"
"$binary" completion bash >"$out/heteroserve"
"$binary" completion zsh >"$out/_heteroserve"
"$binary" completion fish >"$out/heteroserve.fish"
"$binary" config template >"$out/heteroserve.toml"
