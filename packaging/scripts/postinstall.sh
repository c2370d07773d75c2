#!/bin/sh
# systemd reads the unit, and restarts the service if it is running, with the new program. The script does not enable or start the service:
# the example has no user who may look at the page.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart locktree-serve.service
