#!/usr/bin/env bash
# What deploy/README.md says of capacity is what `attn capacity` prints: every
# block that begins with "$ attn capacity" is run and compared, line by line.
#
#   capacity.sh BIN
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

bin="$1"
readme="$ATTN_ROOT/deploy/README.md"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# One file for each block, without its fences.
awk -v work="$work" '
  /^```/ { inside = !inside; if (inside) file = work "/" ++count; next }
  inside { print >file }' "$readme"

checked=0
while read -r block; do
  read -r prompt command <"$block"
  [[ "$prompt" == '$' && "$command" == 'attn capacity '* ]] || continue
  read -ra words <<<"$command"
  "$bin/${words[0]}" "${words[@]:1}" >"$work/printed"
  tail -n +2 "$block" | diff - "$work/printed" ||
    fail "deploy/README.md does not show what \"$command\" prints"
  checked=$((checked + 1))
done < <(find "$work" -type f | sort)
((checked >= 3)) || fail "$checked blocks of attn capacity in deploy/README.md"
say "$checked blocks are as they are printed"
