#!/bin/sh
# peers.sh FOLDER: environments with the libraries that `make bench` compares with.
set -eu
folder=$1
mkdir -p "$folder"
make_environment() {
  [ -x "$folder/$1/bin/python" ] || python3 -m venv "$folder/$1"
  environment=$folder/$1
  shift
  "$environment/bin/pip" install -q --disable-pip-version-check "$@"
}
make_environment venv tensorflow-cpu==2.21.0 torch==2.15.0
make_environment venv_jax jax==0.10.2 numpy
