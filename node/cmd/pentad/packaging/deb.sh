#!/bin/sh
# Makes a Debian package of a binary of this machine's architecture: deb.sh BINARY VERSION ARCH OUT_DIR. It
# needs dpkg-deb only.
set -eu
binary=$1 version=$2 arch=$3 out=$4
here=$(dirname "$0")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
install -D -m 755 "$binary" "$tree/usr/bin/pentad"
install -D -m 644 "$here/pentad.service" "$tree/lib/systemd/system/pentad.service"
install -D -m 644 "$here/../../../../LICENSE" "$tree/usr/share/doc/pentad/copyright"
install -d -m 755 "$tree/usr/share/man/man1" "$tree/usr/share/bash-completion/completions"
"$binary" man "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*.1
"$binary" completion bash > "$tree/usr/share/bash-completion/completions/pentad"
mkdir "$tree/DEBIAN"
# 0.1.0-dev comes before 0.1.0, as 0.1.0~dev does for dpkg.
cat > "$tree/DEBIAN/control" <<END
Package: pentad
Version: $(echo "$version" | tr - '~')
Architecture: $arch
Maintainer: The pentad authors <pentad@localhost>
Section: database
Priority: optional
Description: database for measurements
 pentad stores meter readings, sensor values and counters, corrects them later, and
 shows what was known at any time. The package has the node and the command line.
 The service is not started by itself: systemctl enable --now pentad.
END
dpkg-deb --root-owner-group --build "$tree" "$out/pentad_${version}_$arch.deb"
