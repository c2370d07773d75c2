#!/usr/bin/env bash
# Installs a release as users would, and fails if anything is not as they expect: installed.sh DIRECTORY.
#
# It installs into this Debian's root, under a layer that it throws away, without Go and without the network. For that it makes
# namespaces, which only root may do. All processes that it starts there end with it.
set -euo pipefail

release=$(realpath "${1:?usage: installed.sh DIRECTORY}")
if [ $# = 1 ]; then
  [ "$(id -u)" = 0 ] || { echo "installed.sh installs packages, if only under a layer that is thrown away: it must run as root." >&2; exit 1; }
  layer=$(mktemp -d)
  trap 'rmdir "$layer"' EXIT
  unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$release" "$layer"
  exit
fi
layer=$2

step() { echo "== $*"; }
fail() { echo "installed.sh: $*" >&2; exit 1; }
expect() { grep -F -- "$1" >/dev/null || fail "expected $1"; } # reads all of standard input
deb=("$release"/*.deb) rpm=("$release"/*.rpm) image=("$release"/*_oci.tar)
[ ${#deb[@]}${#rpm[@]}${#image[@]} = 111 ] || fail "$release has not one .deb, one .rpm and one image"

ip link set lo up
mount -t tmpfs tmpfs "$layer"
mkdir "$layer"/{changed,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir="$layer/changed",workdir="$layer/work" "$layer/root"
root=$layer/root
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
for hidden in /usr/local/go /root /tmp /run /var/tmp; do
  [ ! -d "$root$hidden" ] || mount -t tmpfs -o mode=1777 tmpfs "$root$hidden"
done
mkdir "$root/tmp/release"
cp "${deb[0]}" "${rpm[0]}" "$root/tmp/release"
rm -f "$root/usr/bin/go" "$root"/etc/dpkg/dpkg.cfg.d/* "$root/var/lib/man-db/auto-update" # the dpkg settings of small images leave out man pages; to index all man pages takes long
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 chroot "$root" "$@"; }
until_it() { # repeats a command until it succeeds; the limit is for a program that hangs
  local began=$SECONDS
  until "$@" >/dev/null 2>&1; do
    [ $((SECONDS - began)) -lt 60 ] || fail "this did not succeed within a minute: $*"
  done
}

step "the .deb: program, man pages, completion"
! in_root sh -c 'command -v locktree || command -v go' || fail "the root is not clean"
in_root dpkg -i "/tmp/release/${deb[0]##*/}"
in_root locktree demo | expect "Destroy complete!"
in_root man -P cat locktree | tr -s " \n" " " | expect "The usual order is: init, validate, plan, apply." # man justifies lines
in_root man -P cat locktree-exec | expect "-conflict-exit-code"
in_root man -P cat 7 locktree-exit-codes | expect "draining"
for page in "$root"/usr/share/man/man[17]/locktree*.gz; do
  said=$(zcat "$page" | groff -Kutf8 -man -ww -z -Tutf8 2>&1)
  [ -z "$said" ] || fail "${page##*/}: $said"
done
completed() { # prints what bash offers for the last of these words
  in_root bash -c 'source /usr/share/bash-completion/bash_completion
    compopt() { :; } # the real one needs an interactive shell
    cd /etc/locktree/stack && _completion_loader locktree
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE=$* COMP_POINT=${#COMP_LINE} COMP_TYPE=9
    $(complete -p locktree | sed "s/.*-F \([^ ]*\).*/\1/") locktree
    printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}
completed locktree val | expect validate
completed locktree exec namespace.payments.m | expect namespace.payments.mutex.ledger
completed locktree plan -target namespace.payments.r | expect namespace.payments.rwlock.catalog

step "its service, as the user that systemd would make"
unit=/usr/lib/systemd/system/locktree-serve.service
said=$(in_root systemd-analyze verify "$unit" 2>&1) || fail "systemd-analyze: $said"
! grep -F "${unit##*/}" <<<"$said" || fail "systemd-analyze has something to say"
in_root locktree dev -listen=127.0.0.1:2181 >"$root/tmp/dev" 2>&1 &
until_it in_root locktree -chdir=/etc/locktree/stack apply -auto-approve -var-file=/etc/locktree/secrets.ltvars
serve() { # runs ExecStart with the credentials of LoadCredential, under an id of DynamicUser's range
  local line credentials=/run/credentials
  rm -rf "$root$credentials" && mkdir -m 755 "$root$credentials"
  while IFS=: read -r name file; do
    install -m 400 -o 61184 -g 61184 "$root$file" "$root$credentials/$name"
  done < <(sed -n 's/^LoadCredential=//p' "$root$unit")
  line=$(sed -n 's/^ExecStart=//p' "$root$unit" | sed 's/%H/localhost/')
  in_root env CREDENTIALS_DIRECTORY="$credentials" GOMEMLIMIT=420MiB setpriv --reuid=61184 --regid=61184 --clear-groups --no-new-privs --bounding-set=-all \
    bash -c "exec $line"
}
! said=$(serve 2>&1) || fail "it serves with the example of a user"
expect "is not a bcrypt hash" <<<"$said"
sed -i 's|NAME: HASH|demo: $2a$10$hJ8GOK.VC4j.IEeVKdesmuRMRxlmTUU/aaZp9CgF4quT7HUSSkPWC|' "$root/etc/locktree/web.yml" # the password is demo
serve >"$root/tmp/serve" 2>&1 &
page() { in_root curl -fsS -u "demo:$1" http://127.0.0.1:7676/locks?show=all; }
shows() { page demo | grep -qF /locks/payments/ledger; }
until_it shows
! page guess 2>/dev/null || fail "who has no password sees the page"

step "an upgrade, a removal and a purge of the .deb"
mkdir "$layer/newer"
dpkg-deb -R "${deb[0]}" "$layer/newer"
sed -i 's/^Version: .*/Version: 9.0.0-1/' "$layer/newer/DEBIAN/control"
for file in web.yml stack/locks.locktree.hcl; do
  echo "# the example of a newer release" >>"$layer/newer/etc/locktree/$file"
done
dpkg-deb --root-owner-group -Zgzip -z1 -b "$layer/newer" "$root/tmp/release/newer.deb" >/dev/null
in_root touch /etc/locktree/stack/ours.locktree.hcl
in_root dpkg --force-confdef --force-confold -i /tmp/release/newer.deb # as if dpkg could not ask
in_root dpkg-query -W -f '${Version}\n' locktree | expect 9.0.0-1
expect "demo: " <"$root/etc/locktree/web.yml"
expect "newer release" <"$root/etc/locktree/stack/locks.locktree.hcl" # no user changed this file
in_root dpkg -r locktree
[ ! -e "$root/usr/bin/locktree" ] || fail "the program is still there"
expect "demo: " <"$root/etc/locktree/web.yml"
in_root dpkg -P locktree
[ ! -e "$root/etc/locktree/web.yml" ] || fail "a purge leaves web.yml"
[ -e "$root/etc/locktree/stack/ours.locktree.hcl" ] || fail "a purge removed a file that is not the package's"
rm -r "$root/etc/locktree"

step "the .rpm"
rpm -qp --list "${rpm[0]}" >"$layer/list"
for file in /usr/bin/locktree "$unit" /usr/share/man/man1/locktree-plan.1.gz /usr/share/bash-completion/completions/locktree /usr/share/zsh/site-functions/_locktree; do
  grep -qxF "$file" "$layer/list" || fail "the .rpm has no $file"
done
rpm -qp --configfiles "${rpm[0]}" | expect /etc/locktree/web.yml
rpm -qp --scripts "${rpm[0]}" | expect try-restart
rpm -Kv --nosignature "${rpm[0]}"
in_root rpm -i --force-debian --nodeps "/tmp/release/${rpm[0]##*/}" # rpm knows nothing of what dpkg installed
in_root rpm -V --nodeps locktree
in_root locktree version | expect locktree
echo "# ours" >>"$root/etc/locktree/web.yml"
in_root rpm -e --nodeps locktree
[ ! -e "$root/usr/bin/locktree" ] || fail "the program is still there"
expect "# ours" <"$root/etc/locktree/web.yml.rpmsave"

step "the image, as its user, in a root with nothing else"
mkdir "$layer"/{oci,image}
tar -xf "${image[0]}" -C "$layer/oci"
blob() { echo "$layer/oci/blobs/${1/://}"; }
for file in "$layer"/oci/blobs/sha256/*; do
  echo "${file##*/}  $file" | sha256sum -c --quiet
done
index=$(blob "$(jq -r '.manifests[0].digest' "$layer/oci/index.json")")
manifest=$(blob "$(jq -r --arg arch "$(dpkg --print-architecture)" '.manifests[] | select(.platform.architecture == $arch) | .digest' "$index")")
settings=$(blob "$(jq -r .config.digest "$manifest")")
layer_of_image=$(blob "$(jq -r '.layers[0].digest' "$manifest")")
[ "sha256:$(zcat "$layer_of_image" | sha256sum | cut -d' ' -f1)" = "$(jq -r '.rootfs.diff_ids[0]' "$settings")" ] || fail "the image's layer is not what its settings say"
tar -xzf "$layer_of_image" -C "$layer/image"
user=$(jq -r .config.User "$settings")
mapfile -t start < <(jq -r '.config.Entrypoint[]' "$settings")
contained() { env -i ZOOKEEPER_SERVERS=127.0.0.1:2181 /usr/sbin/chroot --userspec="$user" "$layer/image" "${start[@]}" "$@"; }
contained help | expect "Declare, plan and apply:"
contained serve -listen=127.0.0.1:7677 -prefix=/ >/dev/null &
until_it contained serve -healthcheck -listen=127.0.0.1:7677
contained status /locks | expect ledger
step "all is as it should be"
