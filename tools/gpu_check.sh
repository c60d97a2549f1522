#!/usr/bin/env bash
# Checks and measures on a machine that has a GPU, over what tools/gpu_stage.sh
# packed: tools/gpu_check.sh PART [STAGE_DIR]
#
#   PART         does
#   correctness  kernels, ranks, golden cases, encoders, encoder-decoders, SmolLM2
#                where its parts were kept, the compute-sanitizer, plans against
#                those compiled elsewhere
#   speed-1b     Llama-3.2-1B and SmolLM2 shapes beside the peer
#   speed-8b     the Llama-3.1-8B shape beside the peer
#   load         a made-up checkpoint of 16 GB: compiled, then loaded
#   keep         puts the stage's part of SmolLM2's GGUF aside for correctness
#
# ONLY="cases sanitizer ..." runs some steps of a part, RUNS="fp32:1,bf16:2" and
# CASES="llama,qwen2" some of the cases, KERNELS="encoder,cross" some families of
# kernels; ROWS="b1@16384,prefill" some rows of a speed, in at most LIMIT seconds.
# Logs go to $OUT (default ./gpu_out), a table to stdout at the end; exit code 1
# when a step failed. Needs python3 with torch for the peer, no compiler.
set -uo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
part=${1:?tools/gpu_check.sh PART [STAGE_DIR]}
stage=$(cd "${2:-$top/stage}" && pwd)
out=${OUT:-$PWD/gpu_out}
work=${WORK:-/tmp/deepslice-gpu}
kept=${KEPT:-/tmp/deepslice-gguf}
mkdir -p "$out" "$work" "$kept"
log=$out/$part.log
table=$out/$part.table
: >"$log"
: >"$table"

if [ "$part" = keep ]; then
  cp "$stage"/smollm2.* "$kept/"
  ls -l "$kept"
  exit
fi

# NVRTC, cuBLASLt and NCCL where pip put them, and what was carried along.
pip_libraries=$(python3 - <<'PY'
import glob
import os
import sys
print(':'.join(sorted({d for p in sys.path if os.path.isdir(p) for d in
                       glob.glob(os.path.join(p, 'nvidia', '*', 'lib'))})))
PY
)
rm -rf "$work/bin" "$work/cases"
tar -C "$work" -xJf "$stage/bin.tar.xz"
bin=$work/bin
export LD_LIBRARY_PATH=$bin:$pip_libraries:/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}
export PATH=$bin:$PATH
export XDG_CACHE_HOME=$work/cache NCCL_NVLS_ENABLE=0 PYTHONUNBUFFERED=1
export TORCHINDUCTOR_CACHE_DIR=$work/inductor

wanted() { [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $1 "* ]]; }

# step NAME SECONDS COMMAND...: runs it, at most so long, with its output in the
# log; its last line goes into the table.
failed=0
step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  wanted "$name" || return 0
  echo "== $name: $*" >>"$log"
  timeout -k 5 "$limit" "$@" >"$work/step.log" 2>&1
  local rc=$?
  cat "$work/step.log" >>"$log"
  local verdict=ok
  if [ $rc -ne 0 ]; then
    verdict="FAILED ($rc)"
    failed=1
    grep -aE 'FAIL|rror' "$work/step.log" | head -n 12 | cut -c1-300
  fi
  printf '%-14s %-12s %4d s  %s\n' "$name" "$verdict" $((SECONDS - begin)) \
    "$(tail -n 1 "$work/step.log" | cut -c1-160)" >>"$table"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >>"$log" 2>&1

same_plans() {
  local bad=0
  cd "$work" || return 1
  while read -r name dtype; do
    rm -rf "$name-$dtype"
    dscompile "cases/$name" --target sm_90a --dtype "$dtype" -q \
      -o "$name-$dtype" || bad=1
  done <"$top/tests/gpu/identical_plans.txt"
  grep -h nvrtc ./*-*/manifest.json | sort -u
  sha256sum -c "$stage/plans.sha256" || bad=1
  while read -r name dtype; do
    rm -rf "$name-$dtype"
  done <"$top/tests/gpu/identical_plans.txt"
  return $bad
}

sanitize() {
  local tool sanitizer
  sanitizer=$(command -v compute-sanitizer || ls \
    /usr/local/cuda/bin/compute-sanitizer \
    /opt/nvidia/*/compute-sanitizer 2>/dev/null | head -n 1)
  [ -n "$sanitizer" ] || { echo "no compute-sanitizer here"; return 1; }
  rm -rf "$work/small"
  dscompile "$work/cases/llama-gqa-tied" --target sm_90a --dtype bf16 -q \
    -o "$work/small" || return 1
  for tool in memcheck racecheck; do
    "$sanitizer" --tool $tool --error-exitcode 9 --print-limit 20 \
      "$bin/dsrun" "$work/small" --prompt-ids '5,6,7,8,9;10,11' -n 6 --greedy \
      --ignore-eos --print-ids --device cuda || return 1
  done
  rm -rf "$work/small"
}

smollm2() {
  if [ ! -f "$kept/smollm2.parts" ]; then
    echo "left out: the model's parts were not kept on this machine"
    return 0
  fi
  (cd "$kept" && xargs cat <smollm2.parts) >"$work/smollm2.gguf"
  sha256sum <"$work/smollm2.gguf" | cmp - "$kept/smollm2.sha256" || return 1
  python3 "$top/tests/gpu/smollm2_gpu.py" "$bin" "$work/smollm2.gguf"
  local rc=$?
  rm -f "$work/smollm2.gguf"
  return $rc
}

# For the shells that `timeout` starts.
export -f same_plans sanitize smollm2
export top stage work kept bin

case $part in
correctness)
  tar -C "$work" -xJf "$stage/cases.tar.xz"
  step kernels 240 gpu_kernel_check --cache="$work/cache/kernels" \
    ${KERNELS:+--only="$KERNELS"}
  step ranks2 60 gpu_comm_check --world=2 --share-gpu \
    --cache="$work/cache/kernels"
  step ranks4 90 gpu_comm_check --world=4 --share-gpu \
    --cache="$work/cache/kernels"
  step cases 480 python3 "$top/tests/run_gpu_cases.py" --bin "$bin" \
    --cases "$top/tests/golden_cases/models" --cases "$work/cases" -j 8 \
    ${RUNS:+--runs "$RUNS"} ${CASES:+--only "$CASES"}
  step many-plans 200 python3 "$top/tests/gpu/many_plans.py" --wheel \
    "$bin"/deepslice-*.whl --dscompile "$bin/dscompile" \
    --cases "$top/tests/golden_cases/models" --cases "$work/cases" -j 8 \
    ${CASES:+--only "$CASES"}
  step nccl-alone 60 env DEEPSLICE_ONE_SHOT_BYTES=0 python3 \
    "$top/tests/run_gpu_cases.py" --bin "$bin" --cases "$work/cases" \
    --runs fp32:2 --only llama-gqa-tied
  step encoders 240 python3 "$top/tests/e2e/encoder_outputs.py" \
    "$bin/dscompile" "$bin/dsrun" "$bin/dsplan" sm_90a cuda "$work/cases"
  step seq2seq 150 python3 "$top/tests/e2e/seq2seq.py" \
    "$bin/dscompile" "$bin/dsrun" "$bin/dsplan" sm_90a cuda "$work/cases" \
    "${CASES:-}"
  step generation 200 python3 "$top/tests/e2e/dsrun_generation.py" \
    "$bin/dscompile" "$bin/dsrun" sm_90a cuda
  step smollm2 120 bash -c smollm2
  step same-plans 60 bash -c same_plans
  step sanitizer 120 bash -c sanitize
  ;;
speed-1b | speed-8b)
  step "$part" $((${LIMIT:-440} + 20)) python3 "$top/tools/gpu_speed.py" \
    "$part" --bin "$bin" --stage "$stage" --work "$work" --out "$out" \
    --seconds "${LIMIT:-440}" ${ROWS:+--rows "$ROWS"}
  ;;
load)
  step load 460 python3 "$top/tools/gpu_load.py" --bin "$bin" --work "$work" \
    --out "$out"
  ;;
*)
  echo "gpu_check: no part $part; correctness, speed-1b, speed-8b, load and" \
    "keep are" >&2
  exit 2
  ;;
esac
if [ "$part" != correctness ]; then cat "$work/step.log"; fi
grep -aE ' tp [0-9]: ' "$log" | grep -a agree
cat "$table"
exit $failed
