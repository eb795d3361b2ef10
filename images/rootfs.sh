#!/bin/sh
# rootfs.sh IN PROGRAM VERSION OUT: the whole root file system of an image, in OUT: the program, the shared
# libraries that it loads, what name lookups, TLS and getpwuid read, the licences, and an SBOM. No shell,
# no package manager. IN is what images/binaries.sh made. Runs in the build stage, as root.
# Every file gets the time SOURCE_DATE_EPOCH; nothing depends on the order of a folder.
set -eu
in=$1
program=$2
version=$3
out=$4
user=65532

# The Debian package that a file came with, or nothing.
package_of() {
  (dpkg-query -S "$1" || dpkg-query -S "/usr$1" || dpkg-query -S "$(readlink -f "$1")") 2>/dev/null |
    head -n 1 | sed 's/:.*//'
}

mkdir -p "$out/usr/local/bin" "$out/usr/lib" "$out/etc/ssl/certs" "$out/usr/share/sbom" "$out/home/nonroot" "$out/tmp"
for folder in lib lib64; do ln -s "usr/$folder" "$out/$folder"; done
install -m 755 "$in/$program" "$out/usr/local/bin/$program"

# Libraries keep the name under which the program asks for them.
ldd "$in/$program" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | sort -u >/tmp/libraries
while read -r library; do
  case $library in /usr/*) to=$library ;; *) to=/usr$library ;; esac
  install -D -m 644 "$library" "$out$to"
done </tmp/libraries
chmod 755 "$out"/usr/lib64/ld-linux-*

# glibc looks up names by files and DNS by itself; it only has to be told so.
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"
printf 'root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:%s:%s:nonroot:/home/nonroot:/usr/sbin/nologin\n' $user $user >"$out/etc/passwd"
printf 'root:x:0:\nnonroot:x:%s:\n' $user >"$out/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$out/etc/hosts"
cp -L /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
mkdir -p "$out/usr/lib/ssl"
ln -s /etc/ssl/certs "$out/usr/lib/ssl/certs"  # where Debian's OpenSSL looks
ln -s /etc/ssl/certs/ca-certificates.crt "$out/usr/lib/ssl/cert.pem"

# Which packages are in: those of the copied files, and those that were linked in.
{
  while read -r library; do package_of "$library"; done </tmp/libraries
  echo ca-certificates
} | sort -u | while read -r package; do
  echo "$package $(dpkg-query -W -f '${Version}' "$package") copied"
  install -D -m 644 "/usr/share/doc/$package/copyright" "$out/usr/share/doc/$package/copyright"
done >/tmp/packages
sed 's/$/ linked/' "$in/linked" >>/tmp/packages

created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
architecture=$(dpkg --print-architecture)
{
  cat <<HEAD
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$program-$version",
  "documentNamespace": "https://trainyard.invalid/spdx/$program-$version-$(sha256sum /tmp/packages "$in/$program" | sha256sum | cut -c 1-32)",
  "creationInfo": {"created": "$created", "creators": ["Tool: trainyard-images-$version"]},
  "packages": [
    {"SPDXID": "SPDXRef-program", "name": "$program", "versionInfo": "$version", "downloadLocation": "NOASSERTION",
     "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
     "checksums": [{"algorithm": "SHA256", "checksumValue": "$(sha256sum "$in/$program" | cut -d ' ' -f 1)"}]}
HEAD
  while read -r package at how; do
    id=$(echo "$package" | tr -c 'a-zA-Z0-9.\n' -)-$how
    cat <<PACKAGE
    ,{"SPDXID": "SPDXRef-$id", "name": "$package", "versionInfo": "$at", "supplier": "Organization: Debian",
     "downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "NOASSERTION",
     "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION", "comment": "$how",
     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
      "referenceLocator": "pkg:deb/debian/$(echo "$package" | sed 's/+/%2B/g')@$(echo "$at" | sed 's/+/%2B/g; s/:/%3A/g')?arch=$architecture"}]}
PACKAGE
  done </tmp/packages
  printf '  ],\n  "relationships": [\n'
  printf '    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-program"}\n'
  while read -r package at how; do
    id=$(echo "$package" | tr -c 'a-zA-Z0-9.\n' -)-$how
    if [ "$how" = linked ]; then relation=STATIC_LINK; else relation=DEPENDS_ON; fi
    printf '    ,{"spdxElementId": "SPDXRef-program", "relationshipType": "%s", "relatedSpdxElement": "SPDXRef-%s"}\n' $relation "$id"
  done </tmp/packages
  printf '  ]\n}\n'
} >"$out/usr/share/sbom/$program.spdx.json"

chown -R 0:0 "$out"
chown $user:$user "$out/home/nonroot"
chmod 1777 "$out/tmp"
find "$out" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
