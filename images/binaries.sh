#!/bin/sh
# binaries.sh BUILD_DIR PROGRAM OUT: puts into OUT the stripped program and two lists for images/rootfs.sh, so
# that they are made where the program was linked (a Debian machine, or the build stage of the image):
#   needs   the Debian packages of the shared libraries that the program loads
#   linked  the Debian packages whose static libraries are in it, with their versions
set -eu
build=$1
program=$2
out=$3

# The package that a file came with; Debian 12's database knows libraries under /lib or /usr/lib.
package_of() {
  (dpkg-query -S "$1" || dpkg-query -S "/usr$1" || dpkg-query -S "$(readlink -f "$1")") 2>/dev/null |
    head -n 1 | sed 's/:.*//' | grep . || {
    echo "binaries: no Debian package has $1, which $program needs; install its libraries with apt" >&2
    exit 2
  }
}

mkdir -p "$out"
strip -o "$out/$program" "$build/$program"
ldd "$build/$program" >"$out/ldd"
if grep 'not found' "$out/ldd"; then
  echo "binaries: $program lacks the libraries above; run make deps" >&2
  exit 2
fi
awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' "$out/ldd" | sort -u |
  while read -r library; do package_of "$library"; done | sort -u >"$out/needs"
ninja -C "$build" -t commands "$program" | tail -n 1 | grep -oE '/[^ ,]+\.a( |$)' | sort -u |
  while read -r archive; do package_of "$archive"; done | sort -u |
  while read -r package; do dpkg-query -W -f '${Package} ${Version}\n' "$package"; done >"$out/linked"
rm "$out/ldd"
