#!/bin/sh
# Debian's package manager removes the example configuration itself, and leaves other files in /etc/locktree.
set -e
[ "$1" != purge ] || rm -f /etc/systemd/system/multi-user.target.wants/locktree-serve.service
[ ! -d /run/systemd/system ] || systemctl daemon-reload
