#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What can be learnt on an H100 or H200 in 220 seconds: first use of a new program, split products,
# the delay build, the library and generated programs against float64, the sanitizers, and times of
# the slow gradient kernels.
#   gpu_session.sh BUILD [OUT]    the build folder; where the logs go (default: a new folder)
# A machine without the libraries that coda links takes a build with CODA_ONEDNN=OFF and CMAKE_CXX_FLAGS
# "-DFMT_HEADER_ONLY -static-libstdc++ -static-libgcc" and CMAKE_EXE_LINKER_FLAGS -Wl,--as-needed; what
# travels is bin/coda and libexec/coda/coda-nvrtc. Every part has a limit of its own, cut to what is left
# of the whole: this script ends in time whatever hangs. The table comes last.
set -uo pipefail
build=$(cd "$1" && pwd)
out=${2:-$(mktemp -d)}
mkdir -p "$out"
total=${CODA_SESSION_SECONDS:-215}
workers=${CODA_SESSION_WORKERS:-14}
coda=$build/bin/coda
export CODA_CACHE_DIR=$out/cache NO_COLOR=1 CODA_LOG=warning
rows=()

# part NAME LIMIT PATTERN COMMAND...: runs it, keeps its output, and a line of it that has PATTERN.
part() {
  local name=$1 limit=$2 pattern=$3 start=$SECONDS left status word line
  shift 3
  left=$((total - SECONDS))
  if ((left < 3)); then
    rows+=("$name|no time|0|")
    return
  fi
  timeout -k 2 $((limit < left ? limit : left)) "$@" >"$out/$name.log" 2>&1
  status=$?
  case $status in
    0) word=ok ;;
    124 | 137) word=timeout ;;
    *) word="FAILED $status" ;;
  esac
  line=$(grep -E "$pattern" "$out/$name.log" | tail -n 1)
  rows+=("$name|$word|$((SECONDS - start))|${line:-$(tail -n 1 "$out/$name.log")}")
  printf '== %s: %s, %d s\n' "$name" "$word" $((SECONDS - start))
}

cat >"$out/first.coda" <<'PROGRAM'
coda 1
program first_use(a: acc, b: T[n], x: T[m, n]) -> y: T[m, n], s: f32[m] {
  y = gelu(a + b) + x
  s = sum[m](y)
}
PROGRAM
check=("$coda" check --device cuda --threads "$workers")
alone=(adamw rms_stats rms_apply layernorm_apply cross_entropy dequant_1x128)

# A new process each time; the first has an empty cache, the second what the first left.
first=("$coda" bench "$out/first.coda" --device cuda -m 1024 -n 1024 -k 1024 --seconds 0.02)
part first_use_cold 15 '^first use' "${first[@]}"
part first_use_cached 15 '^first use' "${first[@]}"
part split_k 15 'cases of' "${check[@]}" linear residual accumulate --no-derivatives \
  --config split=3 --case 520x392x4104:bf16
for config in 'pingpong 128x192 2x1' 'cooperative 128x256 1x2'; do
  part "delays_${config%% *}" 25 'cases of' "${check[@]}" linear residual_rms rmsnorm_swiglu \
    --no-derivatives --config "$config delays" --case 640x776x200:bf16 --launches 1000
done
# 0.25 s for each of some 300 programs.
part check 85 'cases of' "${check[@]}" --generated 40 --seconds 0.25
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
if [[ -n $sanitizer ]]; then
  small=("$coda" check --device cuda --threads 1 --no-derivatives --case 33x256x0:bf16)
  part racecheck_alone 25 'RACECHECK SUMMARY' "$sanitizer" --tool racecheck --error-exitcode 9 \
    "${small[@]}" "${alone[@]}"
  part memcheck_alone 20 'ERROR SUMMARY' "$sanitizer" --tool memcheck --error-exitcode 9 \
    "${small[@]}" "${alone[@]}"
else
  rows+=('racecheck_alone|no compute-sanitizer|0|')
fi
part bench_swiglu 20 'swiglu bwd 4096' "$coda" bench --device cuda --only 'rmsnorm_swiglu bwd' --seconds 0.5
part bench_norm 30 'bwd qkv 4096' "$coda" bench --device cuda --only 'residual_rms bwd' --seconds 0.5
part bench_small 12 'small' "$coda" bench --device cuda --only 'small wgrad' --seconds 0.5
part bench_small_whole 12 'small' "$coda" bench --device cuda --only 'small wgrad' --seconds 0.5 \
  --config split=1

printf '\nbackward kernels: us of bare cuBLAS, of cuBLAS + kernels, of coda; coda / bare, coda / separate\n'
cat "$out"/bench_*.log
printf '\n%-18s %-10s %4s  %s\n' part result s line
failed=0
for row in "${rows[@]}"; do
  IFS='|' read -r name word seconds line <<<"$row"
  printf '%-18s %-10s %4s  %s\n' "$name" "$word" "$seconds" "${line:0:140}"
  [[ $word == ok ]] || failed=1
done
printf '%d s in all; logs in %s\n' "$SECONDS" "$out"
exit "$failed"
