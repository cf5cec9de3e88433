#!/usr/bin/env bash
# Boots the systemd of a folder with a Debian in it, as its first process: tools/deb_boot.sh FOLDER.
#
# For tools/deb_check.py, which gives it namespaces and a control group of its own. The folder becomes the root, because
# the sandbox of a service remounts that.
set -euo pipefail
box=$1
mount --make-rprivate /
mount --bind "$box" "$box"
mount -t proc proc "$box/proc"
mount -t sysfs -o ro sysfs "$box/sys"
mount -t tmpfs tmpfs "$box/run"
mount -t tmpfs tmpfs "$box/tmp"
mount -t tmpfs -o mode=755 tmpfs "$box/dev"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$box/dev/"; done
ln -s /proc/self/fd "$box/dev/fd"
if [ -d /sys/fs/cgroup/systemd ]; then
  mount -t tmpfs tmpfs "$box/sys/fs/cgroup"
  mkdir "$box/sys/fs/cgroup/systemd"
  mount -t cgroup -o none,name=systemd,xattr cgroup "$box/sys/fs/cgroup/systemd"
else
  mount -t cgroup2 cgroup2 "$box/sys/fs/cgroup"
fi
mkdir -p "$box/old"
cd "$box"
pivot_root . old
umount -l /old
exec env -i container=box PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target --log-target=console
