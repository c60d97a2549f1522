#!/usr/bin/env bash
# Installs from Debian's packages what a build needs: tools/setup.sh [build|test].
# Says what it installs; does nothing when all is there.
set -euo pipefail

what=${1:-test}
packages=(g++ meson ninja-build pkg-config python3
  libabsl-dev libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev
  libcli11-dev libssl-dev libxxhash-dev libpcre2-dev libutf8proc-dev libhwy-dev)
case $what in
  build) ;;
  test) packages+=(libgtest-dev) ;;
  *) echo "setup.sh: allowed are build, test; got $what" >&2; exit 2 ;;
esac

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: everything is installed"
  exit 0
fi
echo "setup: installing ${missing[*]}"
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
