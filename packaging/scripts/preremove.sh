#!/bin/sh
# Debian says "remove", rpm says how many versions will be left. An upgrade stops nothing: it restarts when the new program is there.
# On Debian the service stays enabled until it is purged, for whoever installs the package again.
set -e
[ -d /run/systemd/system ] || exit 0
case $1 in
remove) systemctl stop locktree-serve.service ;;
0) systemctl disable --now locktree-serve.service ;;
esac
