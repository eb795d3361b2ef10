#!/bin/sh
# python_deps.sh VENV REQUIREMENTS: a virtual environment with these packages; made again when the list changes.
set -eu
venv=$1
requirements=$2
if cmp -s "$requirements" "$venv/requirements.txt"; then
  exit 0
fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"
cp "$requirements" "$venv/requirements.txt"
