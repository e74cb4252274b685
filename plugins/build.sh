#!/usr/bin/env bash
# Builds a guest in the way that the template of its language does:
#
#	build.sh LANGUAGE NAME OUT.wasm [SOURCE]
#
# SOURCE takes the place of the template's own. Rust is that of Debian 12, so that all build the
# same bytes.
set -euo pipefail
language=$1 name=$2 out=$3 source=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
sdk=$here/../sdk/plugin
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

need() { # FILE PACKAGES
	[ -e "$1" ] || { echo "$1 is missing; on Debian 12: apt-get install $2" >&2; exit 1; }
}

cp "$sdk/template/$language"/* "$dir"
case $language in
c)
	cp "$sdk/c"/*.h "$dir"
	;;
rust)
	need /usr/bin/rustc "rustc libstd-rust-dev-wasm32 lld-14"
	need /usr/bin/rust-lld "lld-14"
	cp "$sdk/rust"/*.rs "$dir"
	export RUSTC=/usr/bin/rustc
	;;
as)
	cp "$sdk/as"/{pentad.ts,columns.ts,growing.ts,package.json,package-lock.json} "$dir"
	cache=$here/../bin/as # fetched once for all guests
	mkdir -p "$cache"
	cmp -s "$dir/package-lock.json" "$cache/package-lock.json" ||
		cp "$dir"/package*.json "$cache"
	make -s --no-print-directory -C "$cache" -f "$dir/Makefile" \
		node_modules/.package-lock.json >&2
	cp -r "$cache/node_modules" "$dir"
	touch "$dir/node_modules/.package-lock.json"
	;;
esac
[ -z "$source" ] || cp "$source" "$dir/plugin.${source##*.}"
sed -i "s/PLUGIN_NAME/$name/g" "$dir"/{Makefile,plugin.*}
make -s --no-print-directory -C "$dir" >&2
cp "$dir/$name.wasm" "$out"
chmod 644 "$out"
