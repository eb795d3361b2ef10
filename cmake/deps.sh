#!/bin/sh
# Installs the Debian packages of the given groups of packages.txt ("build" when none is given).
# Asks the package database first: with everything present it ends at once and needs no privileges.
set -eu
here=$(dirname "$0")
groups=${*:-build}

wanted=$(for group in $groups; do
  awk -v group="$group" '$1 == group { print $2 }' "$here/packages.txt"
done)
if ! command -v dpkg-query >/dev/null; then
  echo "deps: this is not a Debian system; install the equivalents of these packages yourself:" >&2
  echo $wanted >&2
  exit 2
fi
have=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
  awk '$2 == "installed" { sub(/:.*/, "", $1); print $1 }' || true)
missing=$(for package in $wanted; do
  printf '%s\n' "$have" | grep -qxF "$package" || echo "$package"
done)
[ -n "$missing" ] || exit 0

echo "deps: installing" $missing
if [ "$(id -u)" -eq 0 ]; then
  as_root=
elif command -v sudo >/dev/null; then
  as_root=sudo
else
  echo "deps: not root and no sudo; ask an administrator to run:" >&2
  echo "  apt-get install --no-install-recommends" $missing >&2
  exit 2
fi
$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends $missing
