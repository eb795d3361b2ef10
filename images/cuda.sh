#!/bin/sh
# cuda.sh BUILD OUT [CUBLASLT]: adds to OUT (of binaries.sh) what the trainer's image for GPUs has beyond the other: the
# plug-in of BUILD (`make cuda`), the cuBLASLt of the toolkit that it was built with, or CUBLASLT, and NVIDIA's licence.
set -eu
build=$1
out=$2
toolkit=$(sed -n 's/^CUDA_cublasLt_LIBRARY:FILEPATH=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
[ -f "$build/libtrainer_cuda.so" ] && [ -n "$toolkit" ] || {
  echo "cuda: $build has no libtrainer_cuda.so; build it first: make cuda" >&2
  exit 2
}
folder=$(dirname "$toolkit")
library=${3:-$(find -L "$folder" -maxdepth 1 -name 'libcublasLt.so.[0-9]*' | sort | head -n 1)}
[ -f "$library" ] || {
  echo "cuda: no libcublasLt.so.* beside $toolkit; install CUDA's cuBLAS, or name the file" >&2
  exit 2
}
to=$out/cuda/lib/trainyard
cmake --install "$build" --component cuda --strip --prefix "$out/cuda" >/dev/null
install -m 644 "$library" "$to/$(basename "$library" | sed 's/\(\.so\.[0-9]*\).*/\1/')"  # under the name that is asked for

# Of a package of Python's index, or of NVIDIA's installer.
root=$(dirname "$(readlink -f "$folder")")
licence=$(ls "$root"/../../nvidia_cublas-*.dist-info/licenses/License.txt "$root"/EULA.txt 2>/dev/null | head -n 1)
[ -n "$licence" ] || {
  echo "cuda: NVIDIA's licence is not in $root; an image must have it" >&2
  exit 2
}
install -D -m 644 "$licence" "$out/doc/nvidia-cublas/copyright"
version=$(echo "$licence" | sed -n 's/.*nvidia_cublas-\([0-9.]*\)\.dist-info.*/\1/p')
echo "nvidia-cublas ${version:-$(readlink -f "$library" | sed 's/.*\.so\.//')}" >"$out/cuda/needs"
