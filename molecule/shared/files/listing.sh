#!/bin/sh
# Every file of the host with its owner, mode, size, target and the time of its last change, however small: a list to
# compare. Left out is what a login, Ansible's own visit or the passing of time writes on any host.
set -eu
line='%p %y %M %U:%G %s %C@ %l\n'
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/log \
  -o -path /root/.ansible \) -prune -o -printf "$line"
# file systems of their own; not their roots, whose time changes with a file that came and went. The deploy lock is taken in
# check mode, too, so that nothing changes what is being foretold.
find /tmp /run /dev/shm -xdev -mindepth 1 \( -path /run/log -o -path /run/systemd -o -path /run/user -o -path /run/udev \
  -o -path /run/judge-deploy \) \
  -prune -o -printf "$line"
systemctl list-units --all --plain --no-legend --type=service,timer,socket,mount,swap | awk '{print $1, $2, $3}'
