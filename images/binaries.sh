#!/bin/sh
# binaries.sh BUILD_DIR PROGRAM OUT: puts into OUT what images/rootfs.sh needs to know of a program. It runs where
# the program was linked: on a Debian machine, or in the build stage of the image.
#   PROGRAM   stripped
#   needs     the Debian packages of the shared libraries that it loads
#   compiled  the Debian packages that are in it as headers or static libraries, with their versions
#   doc/      the licences of those, and ours
set -eu
export LC_ALL=C
here=$(dirname "$0")
build=$1
program=$2
out=$3

# The Debian packages of the files in stdin; a library's path has /usr in it or not.
packages_of() {
  while read -r file; do
    (dpkg-query -S "$file" || dpkg-query -S "/usr$file" || dpkg-query -S "$(readlink -f "$file")") 2>/dev/null |
      head -n 1 | sed 's/:.*//' | grep . || {
      echo "binaries: no Debian package has $file, which $program needs; install it with apt" >&2
      return 2
    }
  done >"$out/found"
  sort -u "$out/found"
  rm "$out/found"
}

rm -rf "$out"
mkdir -p "$out/doc/trainyard"
strip -o "$out/$program" "$build/$program"
cp "$here/../LICENSE" "$out/doc/trainyard/copyright"

ldd "$build/$program" >"$out/ldd"
if grep 'not found' "$out/ldd" >&2; then
  echo "binaries: $program lacks the libraries above; run make deps" >&2
  exit 2
fi
awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' "$out/ldd" | sort -u >"$out/libraries"
packages_of <"$out/libraries" >"$out/needs"

# Ninja knows each header that went into each object, and what was linked.
ninja -C "$build" -t inputs "$program" | grep '\.o$' >"$out/objects"
(cd "$build" && xargs ninja -t deps) <"$out/objects" | grep -o '/usr/include/.*\|/usr/lib/.*' | sort -u >"$out/headers"
ninja -C "$build" -t commands "$program" | tail -n 1 | tr ' ' '\n' | grep '^/.*\.a$' | sort -u >"$out/archives" || true
xargs dpkg-query -S <"$out/headers" | sed 's/:.*//' >"$out/compiled-in"
packages_of <"$out/archives" >>"$out/compiled-in"
sort -u "$out/compiled-in" | while read -r package; do
  dpkg-query -W -f '${Package} ${Version}\n' "$package"
  install -D -m 644 "/usr/share/doc/$package/copyright" "$out/doc/$package/copyright"
done >"$out/compiled"
cd "$out"
rm ldd libraries objects headers archives compiled-in
