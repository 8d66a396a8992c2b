#!/usr/bin/env bash
# Proves the two commands on a machine that has nothing but git: makes a minimal
# Debian in a folder, clones the committed checkout into it, and runs, from a
# folder elsewhere, deploy/run.sh --once (twice: the second must be quick) and
# tests/run.sh. Needs root, debootstrap and the network.
#
#   tests/deploy/fresh_machine.sh [--user] [--run-only] [bookworm | trixie]
#
#   --user       as an ordinary user who may use sudo, instead of root
#   --run-only   without tests/run.sh
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

user=root
suite=bookworm
scripts=("deploy/run.sh --once" "deploy/run.sh --once" "tests/run.sh")
for argument in "$@"; do
  case "$argument" in
    --user) user=learner ;;
    --run-only) unset 'scripts[2]' ;;
    bookworm | trixie) suite="$argument" ;;
    *) fail "unknown argument '$argument'" ;;
  esac
done
[[ "$(id -u)" == 0 ]] || fail "a chroot needs root: run it by sudo"

machine="$(mktemp -d)"
clean_up() {
  umount "$machine/proc" 2>/dev/null || true
  mountpoint -q "$machine/proc" || rm -rf --one-file-system "$machine"
}
trap clean_up EXIT

make_machine() {
  local extra=git
  if [[ "$user" != root ]]; then extra=git,sudo; fi
  say "making a minimal $suite with $extra"
  run_logged debootstrap --variant=minbase --include="$extra" "$suite" "$machine"
  mount -t proc proc "$machine/proc"
  cp /etc/resolv.conf /etc/hosts "$machine/etc/"
  mkdir "$machine/checkout"
  git -c safe.directory='*' clone --quiet --no-hardlinks "$ATTN_ROOT" \
    "$machine/checkout/attn"
  if [[ "$user" != root ]]; then
    chroot "$machine" useradd --create-home "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$machine/etc/sudoers.d/$user"
    chroot "$machine" chown -R "$user" /checkout
  fi
}

# A login as the user has it: no variable of this script's but ATTN_*.
inside() {
  local settings=()
  mapfile -t settings < <(env | grep '^ATTN_.*_ADDRESS=' || true)
  chroot --userspec="$user" "$machine" /usr/bin/env -i \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp LANG=C.UTF-8 "${settings[@]}" \
    bash -c "cd / && /checkout/attn/$1" </dev/null
}

times=()
make_machine
for script in "${scripts[@]}"; do
  say "$suite, as $user: $script"
  started="$SECONDS"
  inside "$script"
  times+=("$((SECONDS - started)) s $script")
done
for took in "${times[@]}"; do say "fresh $suite, as $user: $took"; done
