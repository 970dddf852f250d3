#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the C++ files of the build in build/clang, as .clang-tidy says. A file that passed is
# remembered by a hash of .clang-tidy, itself and every project header, so only changes cost time.
#   lint.sh [SECONDS]   after SECONDS no further file is begun, the latest changed ones come first; what is
#                       left is counted
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/coda-lint
mkdir -p "$cache"
headers=$(git ls-files -z '*.h' '*.def' .clang-tidy | xargs -0 sha256sum | sha256sum)
left=$(mktemp)
trap 'rm -f "$left"' EXIT
export cache headers left end=$(($(date +%s) + ${1:-86400}))

lint() {
  local key
  key=$({ echo "$headers" && sha256sum "$1"; } | sha256sum | cut -c1-32)
  [[ -f $cache/$key ]] && return
  if (($(date +%s) >= end)); then
    echo "$1" >>"$left"
  elif clang-tidy --quiet -p build/clang "$1" 2>/dev/null; then
    touch "$cache/$key"
  else
    return 1
  fi
}
export -f lint

# Every file once, the latest commit's first; those that the build does not compile are left out.
{ git log --format= --name-only -- '*.cpp'; git ls-files '*.cpp'; } | awk '!seen[$0]++' |
  while read -r file; do
    if [[ -f $file ]] && grep -qF "/$file\"" build/clang/compile_commands.json; then echo "$file"; fi
  done | xargs -P "${CODA_JOBS:-$(nproc)}" -I{} bash -c 'lint {}'
if [[ -s $left ]]; then echo "$(wc -l <"$left") files left for the nightly run"; fi
