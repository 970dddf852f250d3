# SPDX-License-Identifier: Apache-2.0
# Shared by .ci/run and .ci/nightly: the set-up, and step NAME COMMAND..., which runs a command under a
# heading with its time; the first one that fails ends the run.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"
export CTEST_OUTPUT_ON_FAILURE=1
checkers=(clang clang-format clang-tidy libclang-rt-dev libomp-dev ccache git)

step() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if ! "$@"; then
    printf '== %s FAILED after %d s\n' "$name" $((SECONDS - start))
    exit 1
  fi
  printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

run_tests() {  # PRESET CTEST-ARGUMENT...
  local preset=$1
  shift
  ctest --test-dir "build/$preset" -j "$(nproc)" "$@"
}

# Runs each fuzz target for SECONDS from its seed inputs; what it finds stays in build/fuzz/findings.
fuzz() {
  mkdir -p build/fuzz/findings
  find build/fuzz/bin -name 'fuzz_*' -type f | xargs -r -P "$(nproc)" -I{} bash -c '
    name=${1##*/fuzz_} log=build/fuzz/$name.log seeds=library
    [[ $name == config ]] && seeds=tests/cli/models
    [[ -d tests/fuzz/seeds/$name ]] && seeds=tests/fuzz/seeds/$name
    mkdir -p "build/fuzz/corpus/$name"
    if "$1" -max_total_time="$2" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "$seeds" >"$log" 2>&1; then
      sed -n "s/stat::number_of_executed_units: */fuzz_$name: inputs run: /p" "$log"
    else
      tail -60 "$log"
      exit 1
    fi' _ {} "$1"
}
