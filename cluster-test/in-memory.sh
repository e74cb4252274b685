#!/bin/sh
# in-memory.sh COMMAND... runs tests with their files in memory (/dev/shm).
#
# Tests sync thousands of files, and would mostly wait for a disk. The loss of power is tested
# without a real disk: by watching syncs, and on loop devices. The command runs unchanged if TMPDIR
# is set, if less than 3 GB are free, or if programs cannot be run from /dev/shm.
#
# What the go command links stays on disk. A file of settings says so and not the environment: tests
# would inherit GOTMPDIR, and testing.T.TempDir prefers it to TMPDIR.
made=
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ -z "$TMPDIR" ] && [ "${free:-0}" -gt 3000000 ]; then
	made=$(mktemp -d /dev/shm/pentad-test-XXXXXX) || exit 1
	trap 'rm -rf --one-file-system "$made"' EXIT
	trap 'exit 130' INT TERM
	printf '#!/bin/sh\n' >"$made/try" && chmod +x "$made/try"
	if "$made/try" 2>/dev/null; then
		linked=$(go env GOTMPDIR)
		{ cat "$(go env GOENV)" 2>/dev/null; echo "GOTMPDIR=${linked:-/tmp}"; } >"$made/goenv"
		unset GOTMPDIR
		export GOENV="$made/goenv" TMPDIR="$made"
	fi
	rm -f "$made/try"
fi
"$@"
