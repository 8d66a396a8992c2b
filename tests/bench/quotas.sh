#!/usr/bin/env bash
# Throughput of attn-server under CPU quotas, beside the share of the machine
# that each quota is:
#   quotas.sh BIN [--quotas "1 1.5 2"] [--shape B,Hq,Hkv,Sq,Sk,D] [--rounds N]
#             [--duration 5s]
#
# Needs root and a cgroup (v1 or v2) with the cpu controller. The server runs
# inside the group, the load tester outside of it. Rounds are interleaved and the
# figures their medians: "of ideal" is the throughput under a quota over that
# without one, times cores over quota.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

bin="$1"
shift
quotas="1 1.5 2"
shape=1,4,4,2048,2048,64
rounds=3
duration=5s
while (($# > 0)); do
  case "$1" in
    --quotas) quotas="$2" ;;
    --shape) shape="$2" ;;
    --rounds) rounds="$2" ;;
    --duration) duration="$2" ;;
    *) fail "unknown option $1; see the head of $0" ;;
  esac
  shift 2
done
readonly period_us=100000
cores="$(nproc)"
work="$(mktemp -d)"
group=""

clean_up() {
  stop_server
  [[ -z "$group" ]] || rmdir "$group" 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

make_group() {
  local root=/sys/fs/cgroup
  if [[ -f $root/cgroup.controllers ]]; then
    echo +cpu >$root/cgroup.subtree_control 2>/dev/null || true
    group=$root/attn-quotas
  elif [[ -d $root/cpu ]]; then
    group=$root/cpu/attn-quotas
  else
    fail "no cgroup with the cpu controller below $root"
  fi
  mkdir -p "$group" || fail "cannot make $group: root is needed"
}

# set_quota <cores or none>
set_quota() {
  local quota_us=-1
  [[ "$1" == none ]] ||
    quota_us="$(awk -v c="$1" -v p=$period_us 'BEGIN {print int(c * p)}')"
  if [[ -f "$group/cpu.max" ]]; then
    echo "${quota_us/#-1/max} $period_us" >"$group/cpu.max"
  else
    echo $period_us >"$group/cpu.cfs_period_us"
    echo "$quota_us" >"$group/cpu.cfs_quota_us"
  fi
}

# A program that joins the group and becomes the server.
wrap_server() {
  mkdir -p "$work/bin"
  printf '#!/bin/sh\necho $$ >%q/cgroup.procs\nexec %q/attn-server "$@"\n' \
    "$group" "$(realpath "$bin")" >"$work/bin/attn-server"
  chmod +x "$work/bin/attn-server"
  ln -sf "$(realpath "$bin")/attn" "$work/bin/attn"
}

# Requests per second, compute threads and throttled periods under a quota.
measure() {
  set_quota "$1"
  start_server "$work/bin" "--grpc-address=unix:$work/attn" \
    --metrics-address= --http-address= --drain-delay=0s --log-requests=false >&2
  "$bin/attn" --address "$server_address" --json load --closed 4 \
    --connections 4 --duration "$duration" --warmup 1s --shape "$shape" \
    --verify-every 0 >"$work/load.json"
  local threads
  threads="$(sed -nE 's/.* ([0-9]+) compute threads.*/\1/p' "$server_log")"
  stop_server >&2
  echo "$1 $(python3 -c 'import json, sys
print(json.load(sys.stdin)["achieved_rps"])' <"$work/load.json") $threads \
$(awk '/^nr_periods/ {p = $2} /^nr_throttled/ {t = $2} END {print p, t}' \
    "$group/cpu.stat")" | tee -a "$work/results" >&2
}

make_group
wrap_server
for ((round = 0; round < rounds; ++round)); do
  for quota in none $quotas; do measure "$quota"; done
done
python3 - "$work/results" "$cores" <<'END'
import collections
import statistics
import sys

rates = collections.defaultdict(list)
threads = {}
for line in open(sys.argv[1]):
    quota, rate, count = line.split()[:3]
    rates[quota].append(float(rate))
    threads[quota] = count
cores = int(sys.argv[2])
print("quota  threads  requests/s  of ideal")
for quota, of_quota in rates.items():
    share = min(1, cores if quota == "none" else float(quota) / cores)
    ratio = statistics.median(
        a / (b * share) for a, b in zip(of_quota, rates["none"]))
    print(f"{quota:>5}  {threads[quota]:>7}  "
          f"{statistics.median(of_quota):>10.1f}  {ratio:>8.2f}")
END
