#!/usr/bin/env bash
# Builds everything and runs every test, or those named: tools/test.sh [NAME...]
# with flags of `meson test`, such as -t 4 for four times the time limits on a
# slow machine. The last line counts them: "N passed, N failed". May be run
# again.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD_DIR:-build}
echo "test: packages"
bash tools/setup.sh test
echo "test: building in $build"
[ -f "$build/build.ninja" ] || meson setup "$build" >/dev/null
ninja -C "$build"
echo "test: running"
python3 tools/check_layers.py
result=0
meson test -C "$build" --no-rebuild --print-errorlogs -t 2 "$@" || result=$?
python3 tools/count_tests.py "$build/meson-logs" || result=1
exit $result
