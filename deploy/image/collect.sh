#!/usr/bin/env bash
# Collects what the image holds; runs in the build stage of the Dockerfile, where
# the packages are installed:
#
#   deploy/image/collect.sh ROOT STATE PROGRAM... [-- HEADER...]
#
# ROOT becomes the image's root: the programs, the libraries that they load, the
# files named below, the licences of all these, and what a scanner for known faults
# asks for: the packages that they are from. HEADER is one of each library that is
# compiled in: its package and its licence are told of, too. STATE holds the empty
# folders that are the user's own.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# Besides libraries: roots for --tls-ca system, the letters of attn heatmap, what
# tells a scanner that this is Debian.
readonly files=(
  /etc/ssl/certs/ca-certificates.crt
  /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
  /usr/lib/os-release
  /etc/debian_version
)
# Made here by its package's script, so that no package owns it.
readonly made_by_package="ca-certificates"

# The paths of the libraries that a program loads, its loader among them.
libraries_of() {
  local listed
  listed="$(ldd "$1")"
  [[ "$listed" != *"not found"* ]] || fail "$1 lacks libraries: $listed"
  sed -nE 's|^.*[[:space:]](/[^ ]+) \(0x[0-9a-f]+\)$|\1|p' <<<"$listed"
}

# learn_owners <file...>: asks once which package each file is from, by its own
# path. With /lib a link to /usr/lib, packages still know their files by either name.
declare -A owner
learn_owners() {
  local file path line asked=()
  for file in "$@"; do
    path="$(realpath "$file")"
    asked+=("$path" "${path#/usr}")
  done
  # It fails for a name that it does not know, as one of the two always is.
  while IFS= read -r line; do
    owner["${line#*: }"]="${line%%:*}"
  done < <(dpkg-query -S "${asked[@]}" 2>/dev/null || true)
}

package_of() {
  local path
  path="$(realpath "$1")"
  path="${owner[$path]:-${owner[${path#/usr}]:-}}"
  if [[ -z "$path" && "$1" == /etc/ssl/certs/* ]]; then
    path="$made_by_package"
  fi
  [[ -n "$path" ]] || fail "no package has $1"
  echo "$path"
}

# Debian's own links, as paths name the folders by either name.
make_links() {
  mkdir -p "$root"/usr/{lib,lib64,local/bin} "$root/etc"
  ln -s usr/lib "$root/lib"
  ln -s usr/lib64 "$root/lib64"
  ln -s ../usr/lib/os-release "$root/etc/os-release"
}

# A file as its package has it, in the same place; a link becomes what it points
# to, so that a library is there once, by the name that is asked for.
add_file() {
  local package name
  package="$(package_of "$1")"
  install -D --mode="$(stat --dereference --format=%a "$1")" "$1" "$root$1"
  name="${1#/}"
  (cd "$root" && md5sum "$name") >>"$status/$package.md5sums"
  packages+=("$package")
}

add_files() {
  local program file listed libraries
  install --mode=755 "$@" "$root/usr/local/bin/"
  listed="$(for program in "$@"; do libraries_of "$program"; done)"
  mapfile -t libraries < <(sort -u <<<"$listed")
  learn_owners "${libraries[@]}" "${files[@]}" "${headers[@]}"
  for file in "${libraries[@]}" "${files[@]}"; do add_file "$file"; done
  for file in "${headers[@]}"; do packages+=("$(package_of "$file")"); done
  ldconfig -r "$root"
  # The only thing that it leaves and nobody reads.
  rm -rf "$root/var/cache/ldconfig"
}

# A package's stanza, as dpkg keeps it, and its licence.
add_package() {
  dpkg-query -s "$1" >"$status/$1"
  install -D --mode=644 "/usr/share/doc/$1/copyright" \
    "$root/usr/share/doc/$1/copyright"
}

add_licences() {
  install -D --mode=644 "$ATTN_ROOT/LICENSE" "$root/usr/share/doc/attn/copyright"
  # Most of the others refer to these.
  cp -RP /usr/share/common-licenses "$root/usr/share/"
}

add_users() {
  cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/:/sbin/nologin
attn:x:10001:10001:attn:/var/lib/attn:/sbin/nologin
PASSWD
  printf 'root:x:0:\nattn:x:10001:\n' >"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
}

main() {
  local package programs=()
  (($# > 2)) ||
    fail "usage: deploy/image/collect.sh ROOT STATE PROGRAM... [-- HEADER...]"
  root="$1"
  status="$root/var/lib/dpkg/status.d"
  packages=(base-files)
  mkdir -p "$status" "$2/attn"
  chmod 700 "$2/attn"
  shift 2
  while (($# > 0)) && [[ "$1" != -- ]]; do
    programs+=("$1")
    shift
  done
  headers=("${@:2}")
  make_links
  add_files "${programs[@]}"
  for package in $(printf '%s\n' "${packages[@]}" | sort -u); do
    add_package "$package"
  done
  add_licences
  add_users
  say "collected $(du -sm "$root" | cut -f 1) MB of" \
    "$(find "$status" -type f ! -name '*.md5sums' | wc -l) packages"
}

main "$@"
