#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows that the delay build finds faults of synchronisation: takes the proxy fence out of the epilogue driver,
# and the producer's wait for an empty stage out of the mainloop, and expects `coda check` to fail on each and
# to pass on the text as it is.
#   delay_demo.sh CODA TEXT_DIR [OUT]    the binary; src/cuda; where the logs go (default: a new folder)
# A fault that 100 launches do not show gets 1000. Exit status: 0 as expected, 1 otherwise, 2 bad input.
# CODA_DEMO_SECONDS limits each run (60).
set -uo pipefail
if (($# < 2)); then
  sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
coda=$(realpath "$1") || exit 2
folder=$(realpath "$2") || exit 2
out=${3:-$(mktemp -d)}
mkdir -p "$out"
out=$(realpath "$out")
limit=${CODA_DEMO_SECONDS:-60}
export CODA_CACHE_DIR=$out/cache NO_COLOR=1 CODA_LOG=warning
rows=()
failed=0

# fault NAME FILE PATTERN: a copy of the device text without the one line that PATTERN, an extended regular
# expression, matches.
fault() {
  local name=$1 file=$2 pattern=$3 count
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  cp -r "$folder"/. "$out/$name" || exit 2
  [[ -n $file ]] || return 0
  count=$(grep -cE "$pattern" "$out/$name/$file")
  if [[ $count != 1 ]]; then
    echo "delay_demo.sh: $folder/$file: expected one line like '$pattern', got ${count:-no file}" >&2
    exit 2
  fi
  sed -E -i "\\|$pattern|d" "$out/$name/$file"
  diff "$folder/$file" "$out/$name/$file" >"$out/$name.diff"
  if [[ $(grep -c '^[<>]' "$out/$name.diff") != 1 ]]; then
    echo "delay_demo.sh: $file: expected one line less, got:" >&2
    cat "$out/$name.diff" >&2
    exit 2
  fi
}

# check NAME CONFIG K LAUNCHES: one run; sets `status`, `found` (what the run says of a wrong result) and `log`.
check() {
  log=$out/$1-${2%% *}-$4.log
  CODA_DEVICE_TEXT=$out/$1 timeout -k 2 "$limit" "$coda" check --device cuda residual_rms --no-derivatives \
    --config "$2 delays" --case "640x776x$3:bf16" --launches "$4" >"$log" 2>&1
  status=$?
  # A text that does not compile fails too, and shows nothing.
  found=$(grep -oE '^(HANG|FAIL) .*|launch [0-9]+ gives other bits|element \[.*are off' "$log" | head -n 1)
}

# expect_fault NAME K: both configurations fail, at the latest with 1000 launches.
# expect_sound NAME K: both pass.
configs=('pingpong 128x192 2x1' 'cooperative 128x256 1x2')
row() { rows+=("$1|$2|$3|$4|$5|$6"); }

expect_fault() {
  local config launches start word
  for config in "${configs[@]}"; do
    for launches in 100 1000; do
      start=$SECONDS
      check "$1" "$config" "$2" "$launches"
      case $status in
        0) word='not caught' ;;
        1) if [[ -n $found ]]; then word=caught; else word='failed otherwise'; fi ;;
        124 | 137) word=timeout ;;
        *) word="status $status" ;;
      esac
      row "$1" "$config" "$2" "$launches" "$word, $((SECONDS - start)) s" "${found:-$(tail -n 1 "$log")}"
      [[ $word == 'not caught' ]] || break
    done
    [[ $word == caught ]] || failed=1
  done
}

expect_sound() {
  local config start word
  for config in "${configs[@]}"; do
    start=$SECONDS
    check "$1" "$config" "$2" 1000
    word=passes
    if ((status != 0)); then word="FAILED $status" failed=1; fi
    # What no kernel of the mainloop ran has shown nothing.
    if ((status == 0)) && ! grep -qE '^[1-9][0-9]* cases ran fused' "$log"; then word='ran unfused' failed=1; fi
    row "$1" "$config" "$2" 1000 "$word, $((SECONDS - start)) s" "${found:-$(grep 'cases of' "$log" | tail -n 1)}"
  done
}

fault untouched '' ''
fault no_fence device/epilogue.cuh '^ *fence_async\(\);$'
fault no_empty_wait device/mainloop.cuh '^ *barrier_wait\(barriers\.empty\(at\.slot\), at\.phase \^ 1\);$'

expect_sound untouched 200
expect_sound untouched 2048
expect_fault no_fence 200
expect_fault no_empty_wait 2048  # the ring of stages is gone round several times

printf '%-14s %-24s %5s %8s  %-24s %s\n' text configuration K launches result line
for row in "${rows[@]}"; do
  IFS='|' read -r name config k launches word line <<<"$row"
  printf '%-14s %-24s %5s %8s  %-24s %s\n' "$name" "$config" "$k" "$launches" "$word" "${line:0:110}"
done
printf '%s; %d s in all; logs in %s\n' "$( ((failed)) && echo 'NOT as expected' || echo 'as expected')" "$SECONDS" "$out"
exit "$failed"
