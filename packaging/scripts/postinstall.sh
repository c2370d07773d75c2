#!/bin/sh
# systemd learns of the unit, and a service that runs already is restarted with the new program. Nothing is enabled or started: the
# example has no user who may look at the page.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart locktree-serve.service
