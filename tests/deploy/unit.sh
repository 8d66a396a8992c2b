#!/usr/bin/env bash
# Holds deploy/systemd/attn-server.service against systemd and the server's flags:
#
#   tests/deploy/unit.sh [BIN]
#
# BIN is the folder of attn-server, build/test/bin by default. Ends in "N passed, N
# failed". Skipped where systemd-analyze is not installed. Nothing is started.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly UNIT="$ATTN_ROOT/deploy/systemd/attn-server.service"
# Of 100: what `systemd-analyze security` calls OK.
readonly MOST_EXPOSURE=20

passed=0
failed=0

# check <words> <command...>
check() {
  local words="$1"
  shift
  if "$@"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    say "FAILED: $words"
  fi
}

# A misspelt line is a warning only: no word may be said.
is_valid() {
  local said
  said="$(systemd-analyze verify --man=no "$1" 2>&1)" && [[ -z "$said" ]]
}

is_refused() { ! is_valid "$1"; }

is_confined() {
  run_logged systemd-analyze security --offline=yes --no-pager \
    --threshold="$MOST_EXPOSURE" "$1"
}

# Each variable of the unit is one that the server reads.
variables_are_read() {
  local line name
  grep -q '^Environment=' "$UNIT" || return 1
  while IFS= read -r line; do
    name="${line%%=*}"
    name="${name#ATTN_}"
    name="${name//_/-}"
    env "$line" "$bin/attn-server" --print-config |
      grep -qiE "^${name}=.*environment" || return 1
  done < <(sed -n 's/^Environment=//p' "$UNIT")
}

# of_flag <flag>: its default in whole seconds.
of_flag() {
  "$bin/attn-server" --print-config | sed -nE "s/^$1=([0-9]+)s .*/\1/p"
}

stops_in_time() {
  local limit delay timeout
  limit="$(sed -nE 's/^TimeoutStopSec=([0-9]+)$/\1/p' "$UNIT")"
  delay="$(of_flag drain-delay)"
  timeout="$(of_flag drain-timeout)"
  # Ten seconds for the last replies, two minutes to write sessions.
  ((limit == delay + timeout + 10 + 120))
}

if ! command -v systemd-analyze >/dev/null; then
  say "skipped: systemd-analyze is not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
bin="$(cd "${1:-$ATTN_ROOT/build/test/bin}" && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/wrong"
# The program must be there.
sed "s,^ExecStart=.*,ExecStart=$bin/attn-server," "$UNIT" >"$folder/attn-server.service"
sed 's/^ProtectSystem=/ProtectSytem=/' "$folder/attn-server.service" \
  >"$folder/wrong/attn-server.service"
check "systemd reads the unit" is_valid "$folder/attn-server.service"
check "a misspelt line is found" is_refused "$folder/wrong/attn-server.service"
check "the unit is confined" is_confined "$folder/attn-server.service"
check "the server reads its variables" variables_are_read
check "it is given time to stop" stops_in_time
echo "$passed passed, $failed failed"
((failed == 0))
