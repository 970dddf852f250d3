#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build and builds examples/embed against it by find_package, by pkg-config and, from the source
# tree, by add_subdirectory; each of the three programs runs and checks its own numbers.
#   package_test.sh SOURCE BUILD C++-COMPILER
set -euo pipefail
source=$1 build=$2 compiler=$3
# Beside the build folder: a compiler cache then knows the sources by the same relative paths.
work=$(mktemp -d "$build-package-XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
configure() { cmake -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER="$compiler" "$@" >"$work/log" 2>&1 \
  || { cat "$work/log" >&2; fail "configure $*"; }; }

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"  # an installed tree must not know where it was installed
prefix=$work/moved
library=$(find "$prefix" -name 'libcoda_gemm.so')
libdir=$(dirname "$library")
"$prefix/bin/coda" --version
[[ -f $prefix/share/coda/prelude.coda ]] || fail 'share/coda lacks the library'
grep -nE 'fmt|nlohmann|dnnl|CLI11|'"$work|$source" "$libdir"/cmake/coda/*.cmake "$libdir"/pkgconfig/*.pc \
  && fail 'the exported package names what is inside'
foreign=$(nm -DC --defined-only "$library" | awk '$2 ~ /[TDBRV]/ {$1 = $2 = ""; print}' |
  grep -vE '^ +(coda::|(vtable|typeinfo|typeinfo name|VTT) (for|of) coda::)' || true)
[[ -z $foreign ]] || fail "the library exports more than its interface: $foreign"

echo '== find_package'
configure -S "$source/examples/embed" -B "$work/found" -D CMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/found"
"$work/found/embed"

echo '== pkg-config'
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046  # the flags are words
"$compiler" -std=c++20 -O2 "$source/examples/embed/main.cpp" -o "$work/embed" \
  $(pkg-config --cflags --libs coda-gemm)
LD_LIBRARY_PATH=$libdir "$work/embed"

echo '== add_subdirectory'
launcher=$(command -v ccache || true)
configure -S "$source/examples/embed" -B "$work" -D CODA_SOURCE="$source" \
  -D CODA_WERROR=ON -D CMAKE_CXX_COMPILER_LAUNCHER="$launcher"
cmake --build "$work" --target embed --parallel "$(nproc)"
"$work/embed"
