#!/usr/bin/env bash
# Runs every panel's query of every dashboard against a real Prometheus that
# scrapes a real server under load, by the shipped configuration.
#
#   panels.sh BIN
#
# Needs Debian's prometheus and python3. All on loopback, on free ports.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
readonly load_seconds=40
work="$(mktemp -d)"
prometheus_pid=""
load_pid=""

clean_up() {
  [[ -z "$load_pid" ]] || kill "$load_pid" 2>/dev/null || true
  [[ -z "$prometheus_pid" ]] || kill "$prometheus_pid" 2>/dev/null || true
  stop_server
  wait
  rm -rf "$work"
}
trap clean_up EXIT

# The shipped configuration, but for the place of the server and the pace.
configure_prometheus() {
  sed -E "s/attn:8002/$server_metrics/; s/(_interval): .*/\1: 1s/" \
    "$ATTN_ROOT/deploy/prometheus/prometheus.yml" >"$work/prometheus.yml"
  promtool check config "$work/prometheus.yml"
}

# Without root's rights, as it is to be run.
start_prometheus() {
  local as_nobody=()
  if [[ "$(id -u)" == 0 ]]; then
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown -R 65534:65534 "$work"
  fi
  "${as_nobody[@]}" prometheus --config.file="$work/prometheus.yml" \
    --storage.tsdb.path="$work/data" --web.listen-address=127.0.0.1:0 \
    >"$work/prometheus.log" 2>&1 </dev/null &
  prometheus_pid=$!
  until url="$(sed -nE 's|.*msg="Listening on" address=([0-9.:]+).*|http://\1|p' \
    "$work/prometheus.log")" && [[ -n "$url" ]]; do
    kill -0 "$prometheus_pid" ||
      fail "prometheus stopped: $(tail -n 3 "$work/prometheus.log")"
    sleep 0.1
  done
  say "prometheus answers at $url"
}

# Calls of a few kinds, so that no panel has nothing to show.
load() {
  "$bin/attn" --address "$server_address" load --duration "${load_seconds}s" \
    --closed 2 --shape 1,4,4,64,64,32 --causal
}

# Until Prometheus has scraped the server often enough for rates.
await_samples() {
  local deadline=$((SECONDS + 60)) count=0
  until ((count >= 15)); do
    ((SECONDS < deadline)) || fail "prometheus has $count samples after 60 s"
    sleep 0.5
    count="$(promtool query instant "$url" \
      'sum(count_over_time(attn_build_info[1m]))' | awk '{print $3; exit}')"
    count="${count:-0}"
  done
}

check_names() {
  exec 9<>"/dev/tcp/${server_metrics%:*}/${server_metrics##*:}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9
  sed '1,/^\r$/d' <&9 >"$work/metrics"
  exec 9>&-
  grep -q '^attn_build_info' "$work/metrics" || fail "no metrics"
  promtool check metrics <"$work/metrics"
}

start_server "$bin" "--grpc-address=unix:$work/attn" \
  --metrics-address=127.0.0.1:0 --drain-delay=0s --log-requests=false
configure_prometheus
check_names
start_prometheus
load >"$work/load.log" 2>&1 &
load_pid=$!
await_samples
status=0
for dashboard in "$ATTN_ROOT"/deploy/grafana/dashboards/*.json; do
  "$ATTN_ROOT/tests/deploy/panels.py" "$url" "$dashboard" || status=1
done
kill -0 "$load_pid" 2>/dev/null ||
  fail "the load ended early: $(tail -n 5 "$work/load.log")"
((status == 0))
