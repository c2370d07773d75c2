#!/bin/sh
# Debian passes "remove"; rpm passes the number of versions that stay. An upgrade does not stop the service, but restarts it with the new
# program. On Debian the service stays enabled until a purge, in case the package is installed again.
set -e
[ -d /run/systemd/system ] || exit 0
case $1 in
remove) systemctl stop locktree-serve.service ;;
0) systemctl disable --now locktree-serve.service ;;
esac
