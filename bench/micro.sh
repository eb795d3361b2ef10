#!/bin/sh
# micro.sh BUILD_FOLDER: every microbenchmark of the build, one after the other.
set -eu
found=no
for program in "$1"/*_bench; do
  [ -x "$program" ] || continue
  found=yes
  echo "== $(basename "$program")"
  "$program" --benchmark_min_time=0.2 --benchmark_counters_tabular=true
done
[ "$found" = yes ] || { echo "micro: no *_bench in $1" >&2; exit 1; }
