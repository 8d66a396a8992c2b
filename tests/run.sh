#!/usr/bin/env bash
# From a bare checkout to tested: installs the packages, builds, runs every test
# and ends in ctest's closing line. Arguments go to ctest, e.g. -R conformance.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"

"$ATTN_ROOT/deploy/install_packages.sh" build test
build_preset test
say "running the tests"
log="$ATTN_ROOT/build/test/ctest.log"
status=0
(cd "$ATTN_ROOT" && ctest --preset test -j "$(build_jobs)" "$@") |
  tee "$log" || status=$?
# ctest prints its verdict before its timings and its list of skipped tests.
grep -E '^[0-9]+% tests passed' "$log" || true
exit "$status"
