#!/usr/bin/env bash
# fuzz.sh BUILD_FOLDER SECONDS JOBS: makes seeds, runs every fuzzer of the build for SECONDS, JOBS at once.
# A finding ends with status 1; the input that caused it stays in BUILD_FOLDER/findings.
set -euo pipefail
build=$1
seconds=$2
jobs=$3
here=$(cd "$(dirname "$0")" && pwd)

python3 "$here/fuzz_seeds.py" "$build/seeds"
mkdir -p "$build/findings"

# Options: an input may take 10 s and 1 GiB, and no more than 64 KiB of it are tried.
run_one() {
  local name=$1 build=$2 seconds=$3
  mkdir -p "$build/corpus/$name"
  # The same seed every time, so that a change and not chance decides; SEED=N explores elsewhere.
  if "$build/$name" -seed="${SEED:-1}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512 \
      -max_len=65536 -print_final_stats=1 -artifact_prefix="$build/findings/$name-" \
      "$build/corpus/$name" "$build/seeds/$name" >"$build/$name.log" 2>&1; then
    echo "fuzz: $name: no finding in $(awk '/stat::number_of_executed_units/ { print $2 }' "$build/$name.log") runs"
  else
    tail -n 40 "$build/$name.log"
    echo "fuzz: $name: FINDING, see $build/findings" >&2
    return 1
  fi
}
export -f run_one

fuzzers=$(find "$build" -maxdepth 1 -name '*_fuzz' -type f -executable -printf '%f\n' | sort)
[ -n "$fuzzers" ] || { echo "fuzz: no fuzzer in $build" >&2; exit 1; }
export ASAN_OPTIONS=allocator_may_return_null=0:detect_leaks=1
printf '%s\n' "$fuzzers" |
  xargs -P "$jobs" -I NAME bash -c 'run_one NAME "$1" "$2"' _ "$build" "$seconds"
