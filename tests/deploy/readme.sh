#!/usr/bin/env bash
# What the READMEs promise: the C++ in the first one is the example that is
# built, the example runs and gives the numbers of its formula, and every file
# that a README links to is there.
#
#   readme.sh BIN
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
# shellcheck source=deploy/server.sh
source "$ATTN_ROOT/deploy/server.sh"

# shellcheck disable=SC2016
check_code() {
  sed -n '/^```cpp$/,/^```$/{/^```/d;p}' "$ATTN_ROOT/README.md" |
    diff - "$ATTN_ROOT/client/examples/quick_start.cc" ||
    fail "README.md does not show client/examples/quick_start.cc as it is"
}

check_links() {
  local readme target
  while read -r readme; do
    while read -r target; do
      [[ -e "$(dirname "$readme")/$target" ]] ||
        fail "$readme links to $target, which is not there"
    done < <(grep -oE '\]\([^)#:]+\)' "$readme" | sed 's/^](//; s/)$//')
  done < <(find "$ATTN_ROOT" -name README.md -not -path '*/build/*' \
    -not -path '*/node_modules/*')
}

# The first token sees itself alone: its output is its own value.
check_run() {
  local output
  output="$("$1/quick_start" "$server_address")"
  say "quick_start says: $output"
  [[ "$output" == "1 2 "* ]] || fail "quick_start does not give 1 2 first"
}

check_code
check_links
sockets="$(mktemp -d)"
trap 'stop_server; rm -rf "$sockets"' EXIT
start_server "$1" "--grpc-address=unix:$sockets/attn" \
  --metrics-address= --http-address= --drain-delay=0s
check_run "$1"
