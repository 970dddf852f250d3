# SPDX-License-Identifier: Apache-2.0
# Set-up shared by ./run, ./test and .ci/: sourced, never run. It enters the root of the repository and
# defines
#   need PACKAGE...        makes sure that these Debian packages are there: installs them as root or with a
#                          sudo that asks nothing, otherwise says what is missing and exits with 2
#   build PRESET TARGET... configures a preset of CMakePresets.json once and builds it in build/PRESET
# Both print nothing and take well under a second when there is nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # one cache for every clone

build_packages=(g++ cmake ninja-build pkg-config libdnnl-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev)

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p') || true
  comm -23 <(printf '%s\n' "$@" | sort -u) <(printf '%s\n' "$installed" | sort -u)
}

need() {
  if ! command -v dpkg-query >/dev/null; then
    local tool absent=()
    for tool in cmake ninja c++; do command -v "$tool" >/dev/null || absent+=("$tool"); done
    ((${#absent[@]} == 0)) && return
    echo "coda: missing: ${absent[*]}" >&2
    echo "coda: this is no Debian system; install what these packages of Debian 12 hold: $*" >&2
    exit 2
  fi
  local missing=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "coda: missing packages: ${missing[*]}" >&2
      echo "coda: install them: sudo apt-get install ${missing[*]}" >&2
      exit 2
    fi
    apt=(sudo -n "${apt[@]}")
  fi
  echo "coda: installing ${missing[*]}" >&2
  if ! { "${apt[@]}" -q update && "${apt[@]}" -q install -y --no-install-recommends "${missing[@]}"; } \
      </dev/null >&2; then
    echo "coda: could not install: ${missing[*]}" >&2
    exit 2
  fi
}

build() {
  local preset=$1 directory=build/$1 quiet=--quiet
  shift
  if [[ ! -f $directory/build.ninja ]]; then
    mkdir -p "$directory"
    if ! cmake --preset "$preset" >"$directory/configure.log" 2>&1 </dev/null; then
      rm -f "$directory/build.ninja"
      cat "$directory/configure.log" >&2
      return 1
    fi
  fi
  [[ -t 2 ]] && quiet=
  ninja -C "$directory" $quiet -j "${CODA_JOBS:-$(nproc)}" "$@" >&2
}
