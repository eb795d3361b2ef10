#!/bin/sh
# cuda_toolkit.sh LINK: a CUDA toolkit of the packages that requirements-cuda.txt pins, for machines without one.
# It lies in ~/.cache/trainyard (TRAINYARD_CACHE), keyed on that list, and LINK points to it. With it in place
# there is nothing to do. Nothing of it is part of what Trainyard ships.
set -eu
link=$1
requirements=$(cd "$(dirname "$0")" && pwd)/requirements-cuda.txt
key=$(sha256sum "$requirements" | cut -c 1-16)
cache=${TRAINYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trainyard}/cuda-toolkit
tree=$cache/$key

fail() {
  echo "cuda-toolkit: $*" >&2
  echo "cuda-toolkit: a CUDA Toolkit of this machine serves as well: -DCMAKE_CUDA_COMPILER=PATH/bin/nvcc" >&2
  exit 1
}

# Packages give nvidia/cu13/{bin,include,lib,nvvm}; compilers and CMake also look in lib64 and targets/.
assemble() {
  rm -rf "$tree.new"
  python3 -m venv "$tree.new/venv" || fail "python3 -m venv failed (Debian: python3-venv)"
  echo "cuda-toolkit: fetching 530 MB of packages into $tree (once)"
  "$tree.new/venv/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes --no-compile \
    --target "$tree.new/packages" -r "$requirements" || fail "the packages of $requirements could not be fetched"
  root=$tree.new/packages/nvidia/cu13
  [ -x "$root/bin/nvcc" ] || fail "there is no nvidia/cu13/bin/nvcc in the packages of $requirements"
  mkdir -p "$root/targets/x86_64-linux"
  ln -s lib "$root/lib64"
  ln -s ../../include "$root/targets/x86_64-linux/include"
  ln -s ../../lib "$root/targets/x86_64-linux/lib"
  for library in "$root"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
  "$root/bin/nvcc" --version >/dev/null || fail "$root/bin/nvcc does not run"
  rm -rf "$tree.new/venv" "$tree"
  mv "$tree.new" "$tree"
}

[ "$(uname -sm)" = "Linux x86_64" ] || fail "the packages are for Linux on x86-64, not for $(uname -sm)"
mkdir -p "$cache" "$(dirname "$link")"
exec 9>"$cache/.lock"
flock 9  # two builds at once fetch once
[ -x "$tree/packages/nvidia/cu13/bin/nvcc" ] || assemble
ln -sfn "$tree/packages/nvidia/cu13" "$link"
echo "cuda-toolkit: $("$link/bin/nvcc" --version | tail -n 2 | head -n 1), in $link"
