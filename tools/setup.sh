#!/usr/bin/env bash
# Installs what a build needs: tools/setup.sh [build|test]. Libraries come from
# Debian's packages; NVRTC, which compiles kernels for GPUs and needs none, from
# PyPI where no CUDA toolkit is found (to ~/.local/share/deepslice/nvrtc, where
# dscompile looks). Says what it installs; does nothing when all is there.
set -euo pipefail

what=${1:-test}
packages=(g++ meson ninja-build pkg-config python3
  libabsl-dev libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev
  libcli11-dev libssl-dev libxxhash-dev libpcre2-dev libutf8proc-dev libhwy-dev
  libpng-dev libjpeg62-turbo-dev)
case $what in
  build) ;;
  test) packages+=(libgtest-dev openmpi-bin python3-jinja2 graphviz
    groff-base) ;;
  *) echo "setup.sh: allowed are build, test; got $what" >&2; exit 2 ;;
esac

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$p")
done

nvrtc_folder=${XDG_DATA_HOME:-$HOME/.local/share}/deepslice/nvrtc
# Whether a library is where compiler/jit/nvrtc.cc looks.
has_nvrtc() {
  [ -n "${DEEPSLICE_NVRTC:-}" ] && return
  /sbin/ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' && return
  local root
  for root in "${CUDA_HOME:-/usr/local/cuda}" /usr/local/cuda "$nvrtc_folder"; do
    compgen -G "$root/lib*/libnvrtc.so.1[23]" >/dev/null && return
    compgen -G "$root/nvidia/*/lib/libnvrtc.so.1[23]" >/dev/null && return
  done
  return 1
}
nvrtc=
if ! has_nvrtc; then
  nvrtc='nvidia-cuda-nvrtc==13.0.*'
  python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
fi

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  if ! command -v apt-get >/dev/null ||
    ! command -v "${sudo:-sh}" >/dev/null; then
    echo "setup: that takes Debian's apt-get, and root or sudo; install these" \
      "by hand, and run it again" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
if [ -n "$nvrtc" ]; then
  echo "setup: installing $nvrtc (about 90 MB) to $nvrtc_folder"
  # The rest of the build does without.
  python3 -m pip install -q --root-user-action=ignore --no-deps \
    --target "$nvrtc_folder" "$nvrtc" ||
    echo "setup: no NVRTC: dscompile can't compile for GPUs here" >&2
fi
if [ ${#missing[@]} -eq 0 ] && [ -z "$nvrtc" ]; then
  echo "setup: everything is installed"
else
  echo "setup: done"
fi
