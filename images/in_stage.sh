#!/bin/sh
# in_stage.sh BINARIES PROGRAM VERSION JOBS OUT [CUDA]: the build stage of all images. Gets the program, compiled here
# from /src (BINARIES=source; with CUDA=yes the GPU plug-in, too) or as it lies in /src/bin (prebuilt), installs the
# Debian packages of its shared libraries, and makes the root file system of the final image in OUT.
set -eu
binaries=$1
program=$2
version=$3
jobs=$4
out=$5
cuda=${6:-no}
export DEBIAN_FRONTEND=noninteractive

apt-get update -q
case $binaries in
  source)
    apt-get install -y -q --no-install-recommends $(awk '$1 == "build" { print $2 }' /src/cmake/packages.txt)
    cd /src
    cmake --preset release -Wno-dev -DTRAINYARD_BENCHMARKS=OFF
    cmake --build --preset release -j "$jobs" --target "$program"
    sh images/binaries.sh build/release "$program" /bin-in
    if [ "$cuda" = yes ]; then
      sh cmake/cuda_toolkit.sh build/cuda-toolkit
      cmake --preset cuda -Wno-dev -DTRAINYARD_BENCHMARKS=OFF
      cmake --build --preset cuda -j "$jobs" --target trainer_cuda_plugin
      sh images/cuda.sh build/cuda /bin-in
    fi
    ;;
  prebuilt)
    cp -r /src/bin/. /bin-in
    ;;
  *)
    echo "BINARIES is \"$binaries\"; it is source or prebuilt" >&2
    exit 2
    ;;
esac
apt-get install -y -q --no-install-recommends ca-certificates $(cat /bin-in/needs)
sh /src/images/rootfs.sh /bin-in "$program" "$version" "$out"
