#!/usr/bin/env bash
# Packs what tools/gpu_check.sh needs on a machine that has a GPU but not our
# sources' build: tools/gpu_stage.sh BUILD_DIR WHAT [STAGE_DIR]
#
#   WHAT         holds
#   correctness  tools, golden cases, hashes of three plans compiled here
#   speed, load  tools, the peer and ceilings of DEEPSLICE_BENCH
#   smollm2      SmolLM2's GGUF (DEEPSLICE_GGUF) in parts smollm2.0, .1, ...: the
#                folder then holds one part, named by PART=N
#
# CASES="llama,qwen2" packs those cases alone, as gpu_check.sh's CASES runs them
# alone. DEEPSLICE_CONFORMANCE and DEEPSLICE_BENCH default to
# ../shared/conformance and ../shared/bench beside the sources. The folder is
# made anew; its MiB are printed.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
what=$2
stage=${3:-$top/stage}
conformance=${DEEPSLICE_CONFORMANCE:-$top/../shared/conformance}
bench=${DEEPSLICE_BENCH:-$top/../shared/bench}
part_bytes=$((40 << 20))

rm -rf "$stage"
mkdir -p "$stage"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$what" = smollm2 ]; then
  split -b $part_bytes -d -a 1 "$DEEPSLICE_GGUF" "$work/smollm2."
  cp "$work/smollm2.${PART:-0}" "$stage/"
  (cd "$work" && ls smollm2.*) >"$stage/smollm2.parts"
  sha256sum <"$DEEPSLICE_GGUF" >"$stage/smollm2.sha256"
  du -sm "$stage"
  exit
fi

# Stripped, and with the libraries that are not in every system.
mkdir "$work/bin"
for tool in tools/dscompile tools/dsrun tools/dsplan \
  tests/gpu/gpu_kernel_check tests/gpu/gpu_comm_check; do
  cp "$build/$tool" "$work/bin/"
done
strip "$work"/bin/*
for tool in "$work"/bin/*; do
  ldd "$tool" | awk '/libhwy|libpng|libjpeg/ {print $3}' | xargs -r cp -Lt "$work/bin" -u
done
cp "$build"/runtime/api/deepslice-*.whl "$work/bin/"
tar -C "$work" -cJf "$stage/bin.tar.xz" bin

case $what in
correctness)
  mkdir "$work/cases"
  cases=$(grep -v '^#' "$top/tests/conformance_cases.txt" | cut -d' ' -f1 |
    tr ',' '\n' | sort -u)
  cases=${CASES:-$cases}
  for name in ${cases//,/ }; do
    for kind in models formats real; do
      [ ! -d "$conformance/$kind/$name" ] ||
        cp -rL "$conformance/$kind/$name" "$work/cases/"
    done
  done
  tar -C "$work" -cJf "$stage/cases.tar.xz" cases
  # The same three plans are compiled there.
  while read -r name dtype; do
    "$work/bin/dscompile" "$work/cases/$name" --target sm_90a --dtype "$dtype" \
      -q -o "$work/$name-$dtype"
    (cd "$work" && sha256sum "$name-$dtype"/*)
  done <"$top/tests/gpu/identical_plans.txt" >"$stage/plans.sha256"
  ;;
speed | load)
  cp "$bench/peer_torch.py" "$bench/ceilings.py" "$stage/"
  ;;
*)
  echo "gpu_stage: $what is nothing to pack; correctness, speed, load and" \
    "smollm2 are" >&2
  exit 2
  ;;
esac
du -sm "$stage"
