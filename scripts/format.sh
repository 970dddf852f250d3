#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every C++ file is laid out by .clang-format; --fix lays it out. Tables (*.def) and device
# text (*.cuh) are laid out by hand.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
mode=(--dry-run --Werror)
if [[ ${1:-} == --fix ]]; then mode=(-i); fi
git ls-files -z '*.h' '*.cpp' | xargs -0 clang-format "${mode[@]}"
