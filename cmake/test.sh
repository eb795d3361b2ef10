#!/bin/sh
# test.sh PRESET JOBS: runs the tests of PRESET. Many of them start clusters of processes with real deadlines,
# which a busy machine can miss: so the few that failed run once more, one at a time and with their output.
# A test that fails twice fails the run; one that passed only then is named in the last lines, to be looked into.
set -u
preset=$1
jobs=$2
ctest --preset "$preset" -j "$jobs" && exit 0

failed=$(sed 's/^[0-9]*://' "build/$preset/Testing/Temporary/LastTestsFailed.log" 2>/dev/null)
count=$(printf '%s\n' "$failed" | grep -c .)
if [ "$count" -eq 0 ] || [ "$count" -gt 5 ]; then exit 8; fi
printf '\nA second try, alone, of the tests that failed:\n%s\n' "$failed"
ctest --preset "$preset" -j 1 --rerun-failed || exit 8
printf 'UNSTABLE: passed only at the second try:\n%s\n' "$failed"
