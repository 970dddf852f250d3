#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what a Markdown file says and compares: readme.sh FILE.md...
# A block ```coda NAME or ```json NAME becomes the file NAME; in a block ```console each line "$ command" is
# run, in a folder of its own, and must print the lines that follow. Of check and bench, which measure, the
# numbers with a decimal point are compared as numbers only.
# `coda` must be on the PATH.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 commands=0

check() {  # COMMAND EXPECTED-FILE
  local actual=$work/.actual numbers=()
  commands=$((commands + 1))
  (cd "$work" && bash -c "$1" >"$actual" 2>&1 </dev/null) || true
  if [[ $1 == 'coda check'* || $1 == 'coda bench'* ]]; then
    numbers=(-e 's/[0-9]+\.[0-9]+(e-?[0-9]+)?|[0-9]+e-?[0-9]+/#/g' -e 's/ +/ /g')
  fi
  if ! diff <(sed -E "${numbers[@]}" -e '' "$2") <(sed -E "${numbers[@]}" -e '' "$actual"); then
    failures=$((failures + 1))
    echo "FAILED, lines > are new: $1"
  fi
}

for file in "$@"; do
  kind='' command='' expected=$work/.expected
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line == '```'* ]]; then
      if [[ -n $command ]]; then check "$command" "$expected"; fi
      command=''
      if [[ -n $kind ]]; then kind=''; else kind=${line#'```'}; fi
      if [[ $kind == @(coda|json)' '* ]]; then : >"$work/${kind#* }"; fi
    elif [[ $kind == @(coda|json)' '* ]]; then
      printf '%s\n' "$line" >>"$work/${kind#* }"
    elif [[ $kind == console && $line == '$ '* ]]; then
      if [[ -n $command ]]; then check "$command" "$expected"; fi
      command=${line#'$ '}
      : >"$expected"
    elif [[ $kind == console ]]; then
      printf '%s\n' "$line" >>"$expected"
    fi
  done <"$file"
done
echo "$commands commands run, $failures failed"
((failures == 0 && commands > 0))
