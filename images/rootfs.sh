#!/bin/sh
# rootfs.sh IN PROGRAM VERSION OUT: the whole root file system of an image, in OUT: the program, the shared
# libraries that it loads, what name lookups and TLS read, the licences, and an SBOM (SPDX 2.3). No shell and no
# package manager. IN is what images/binaries.sh made. Runs in the build stage, as root.
# Nothing in it depends on the time or on the order of a folder: equal programs and packages make an equal root.
set -eu
export LC_ALL=C
in=$1
program=$2
version=$3
out=$4
user=65532  # the number that distroless images and the chart use

mkdir -p "$out/usr/local/bin" "$out/usr/lib/ssl" "$out/etc/ssl/certs" "$out/usr/share/sbom" "$out/home/nonroot" "$out/tmp"
install -m 755 "$in/$program" "$out/usr/local/bin/$program"

if [ -d "$in/cuda" ]; then
  mkdir -p "$out/usr/local/lib"
  cp -r "$in/cuda/lib/trainyard" "$out/usr/local/lib/"
fi

# Libraries keep the name under which they are asked for.
for file in "$in/$program" "$out"/usr/local/lib/trainyard/*; do
  if [ -f "$file" ]; then ldd "$file"; fi
done >/tmp/ldd
awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' /tmp/ldd | sort -u | while read -r library; do
  case $library in /usr/*) to=$library ;; *) to=/usr$library ;; esac
  install -D -m 644 "$library" "$out$to"
done
for folder in lib lib64; do
  if [ -d "$out/usr/$folder" ]; then ln -s "usr/$folder" "$out/$folder"; fi
done
find "$out/usr" -name 'ld-linux-*' -exec chmod 755 {} +  # the loader may be run by itself

# glibc and c-ares ask files and DNS by themselves; they only have to be told so. A runtime mounts resolv.conf and hosts.
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"
printf 'root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:%s:%s:nonroot:/home/nonroot:/usr/sbin/nologin\n' $user $user >"$out/etc/passwd"
printf 'root:x:0:\nnonroot:x:%s:\n' $user >"$out/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$out/etc/hosts"
cp -L /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/"
ln -s /etc/ssl/certs "$out/usr/lib/ssl/certs"  # both are where Debian's OpenSSL looks
ln -s /etc/ssl/certs/ca-certificates.crt "$out/usr/lib/ssl/cert.pem"

cp -r "$in/doc" "$out/usr/share/doc"
(cat "$in/needs"; echo ca-certificates) | sort -u | while read -r package; do
  echo "$package $(dpkg-query -W -f '${Version}' "$package") DEPENDS_ON"
  install -D -m 644 "/usr/share/doc/$package/copyright" "$out/usr/share/doc/$package/copyright"
done >/tmp/packages
sed 's/$/ STATIC_LINK/' "$in/compiled" >>/tmp/packages
if [ -d "$in/cuda" ]; then sed 's/$/ DEPENDS_ON/' "$in/cuda/needs" >>/tmp/packages; fi

sbom() {
  cat <<HEAD
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$program-$version",
  "documentNamespace": "https://trainyard.invalid/spdx/$program-$version-$(sha256sum /tmp/packages "$in/$program" | sha256sum | cut -c 1-32)",
  "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: trainyard-images-$version"]},
  "packages": [
    {"SPDXID": "SPDXRef-program", "name": "$program", "versionInfo": "$version", "filesAnalyzed": false,
     "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0",
     "copyrightText": "NOASSERTION",
     "checksums": [{"algorithm": "SHA256", "checksumValue": "$(sha256sum "$in/$program" | cut -d ' ' -f 1)"}]}
HEAD
  while read -r package at relation; do
    case $package in
      nvidia-*) supplier='NVIDIA Corporation' purl=pkg:generic/$package@$at ;;
      *)
        supplier=Debian
        purl=$(echo "pkg:deb/debian/$package@$at" | sed 's/+/%2B/g; s/\([0-9]\):/\1%3A/')?arch=$(dpkg --print-architecture)'&distro=bookworm'
        ;;
    esac
    cat <<PACKAGE
    ,{"SPDXID": "SPDXRef-$(echo "$package" | tr + -)", "name": "$package", "versionInfo": "$at", "filesAnalyzed": false,
     "supplier": "Organization: $supplier", "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
     "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                       "referenceLocator": "$purl"}]}
PACKAGE
  done </tmp/packages
  echo '  ],'
  echo '  "relationships": ['
  echo '    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-program"}'
  while read -r package at relation; do
    printf '    ,{"spdxElementId": "SPDXRef-program", "relationshipType": "%s", "relatedSpdxElement": "SPDXRef-%s"}\n' \
      "$relation" "$(echo "$package" | tr + -)"
  done </tmp/packages
  printf '  ]\n}\n'
}
sbom >"$out/usr/share/sbom/$program.spdx.json"

chown -R 0:0 "$out"
chmod -R u=rwX,go=rX "$out"
chown $user:$user "$out/home/nonroot"
chmod 1777 "$out/tmp"
