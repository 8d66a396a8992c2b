#!/usr/bin/env bash
# Installs the Debian packages of the named groups that are missing:
#
#   deploy/install_packages.sh build test
#
# The groups are the files of deploy/packages. Needs root or sudo only if
# something is missing.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

release() { (. /etc/os-release && echo "${VERSION_CODENAME:-unknown}"); }

# The packages of one group for this release, one a line; without those whose
# program is here from elsewhere.
packages_of() {
  local package condition
  while read -r package condition; do
    case "$condition" in
      @*) [[ "$condition" == "@$(release)" ]] || continue ;;
      unless=*) ! command -v "${condition#unless=}" >/dev/null || continue ;;
    esac
    echo "$package"
  done < <(sed 's/ *#.*//; /^$/d' "$ATTN_ROOT/deploy/packages/$1.txt")
}

# Which of the packages given are not installed.
missing_of() {
  local package status
  for package in "$@"; do
    # dpkg-query fails for a package that it never heard of: that is missing.
    status="$(dpkg-query -W -f '${db:Status-Status} ' "$package" \
      2>/dev/null || true)"
    [[ " $status" == *" installed "* ]] || echo "$package"
  done
}

# Sets as_root to the command that gives root's rights.
find_root() {
  as_root=(env)
  [[ "$(id -u)" == 0 ]] && return
  if command -v sudo >/dev/null; then
    as_root=(sudo)
    # Without a terminal nobody can answer the question for a password.
    [[ -t 0 ]] || as_root+=(-n)
    "${as_root[@]}" true 2>/dev/null && return
  fi
  fail "packages are missing and $(id -un) may not install them: run as root" \
    "'apt-get install -y --no-install-recommends $*'"
}

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

apt_update() {
  say "fetching the package lists"
  run_logged apt update
}

# Fetching the lists is needed if they are absent or older than the packages.
known_to_apt() {
  local package
  for package in "$@"; do
    apt-cache show --no-all-versions "$package" >/dev/null 2>&1 || return 1
  done
}

# Shows that something goes on, without a line for each package.
show_progress() {
  awk -v all="$1" '
    /^Setting up / && ++done % 50 == 0 {
      print "attn: " done " packages are set up"; fflush() }
    /^[0-9]+ upgraded, / { print "attn: " $0; fflush() }'
}

apt_install() {
  local log status=0
  log="$(mktemp)"
  apt install -y --no-install-recommends "$@" 2>&1 | tee "$log" |
    show_progress "$#" || status=$?
  if ((status != 0)); then install_log="$(tail -n 15 "$log")"; fi
  rm -f "$log"
  return "$status"
}

main() {
  local group wanted=() missing=() started="$SECONDS"
  (($# > 0)) || fail "usage: deploy/install_packages.sh GROUP..."
  command -v apt-get >/dev/null ||
    fail "this is not Debian: install by hand what deploy/packages lists"
  for group in "$@"; do
    [[ -f "$ATTN_ROOT/deploy/packages/$group.txt" ]] ||
      fail "no package group '$group' in deploy/packages"
    mapfile -t -O "${#wanted[@]}" wanted < <(packages_of "$group")
  done
  mapfile -t missing < <(missing_of "${wanted[@]}")
  ((${#missing[@]} > 0)) || return 0
  find_root "${missing[@]}"
  say "installing ${#missing[@]} packages and what they need: ${missing[*]}"
  known_to_apt "${missing[@]}" || apt_update ||
    fail "apt-get update failed: is the network up?"
  if ! apt_install "${missing[@]}"; then
    # Old lists name versions that the mirror has dropped.
    apt_update || fail "apt-get update failed: is the network up?"
    apt_install "${missing[@]}" ||
      fail "apt-get install failed:"$'\n'"$install_log"
  fi
  say "packages are installed ($((SECONDS - started)) s)"
}

main "$@"
