#!/usr/bin/env bash
# What can be said of rules and dashboards without a server: they are valid, every
# rule has tests that need it, every panel says what to do.
#
#   rules.sh
#
# Needs Debian's prometheus (promtool) and python3.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly here="$ATTN_ROOT/tests/deploy"
readonly prometheus="$ATTN_ROOT/deploy/prometheus"
export PYTHONDONTWRITEBYTECODE=1

promtool check config "$prometheus/prometheus.yml"
"$here/checks_test.py"
"$here/rules_tested.py" "$prometheus/rules" "$here/rules"
"$here/dashboards.py" "$ATTN_ROOT/deploy/grafana/dashboards"
