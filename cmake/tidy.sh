#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER JOBS [FILE...]: clang-tidy over the sources (default: all of ours that the build
# knows), JOBS at once. Prints findings only; ends with status 1 if there are any.
set -euo pipefail
build=$1
jobs=$2
shift 2
if [ $# -eq 0 ]; then
  mapfile -t files < <(python3 - "$build" <<'EOF'
import json, os, sys
root = os.getcwd()
for entry in json.load(open(os.path.join(sys.argv[1], 'compile_commands.json'))):
    path = os.path.relpath(entry['file'], root)
    if path.split(os.sep)[0] in ('base', 'operator', 'trainer'):
        print(path)
EOF
  )
else
  files=("$@")
fi
printf '%s\n' "${files[@]}" | sort -u |
  xargs -P "$jobs" -n 4 clang-tidy-19 -p "$build" --quiet 2> >(grep -v 'warnings generated' >&2)
echo "tidy: no findings in $(printf '%s\n' "${files[@]}" | sort -u | wc -l) files"
