#!/usr/bin/env bash
# Measures what `attn capacity` reckons with on this machine, and writes its
# profile:
#   capacity.sh BIN PROFILE.json [--rounds N] [--seconds S] [--name NAME]
#
# BIN holds attn and attn-server. Needs haproxy and ss, and for some minutes a
# machine that has little else to do.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

(($# >= 2)) || fail "usage: capacity.sh BIN PROFILE.json [option...]"
for program in haproxy ss; do
  command -v "$program" >/dev/null || fail "install $program first"
done
/usr/bin/python3 -c 'import numpy' 2>/dev/null ||
  fail "install python3-numpy first"
bin="$(realpath "$1")"
profile="$2"
shift 2
exec /usr/bin/python3 -B "$ATTN_ROOT/tests/bench/capacity/measure.py" \
  "$bin" --out "$profile" "$@"
