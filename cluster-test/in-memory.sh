#!/bin/sh
# in-memory.sh COMMAND... runs tests with their files in memory, where there is room for them.
#
# Tests sync files by the thousand: without this most of their time is waiting for a disk. What is
# lost with the power is tested by watching syncs, and on disks that tests make. TMPDIR says
# otherwise; where programs cannot be run from memory, or 3 GB are not free, nothing changes.
made=
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ -z "$TMPDIR" ] && [ "${free:-0}" -gt 3000000 ]; then
	made=$(mktemp -d /dev/shm/pentad-test-XXXXXX) || exit 1
	trap 'rm -rf --one-file-system "$made"' EXIT
	trap 'exit 130' INT TERM
	printf '#!/bin/sh\n' >"$made/try" && chmod +x "$made/try"
	if "$made/try" 2>/dev/null; then
		export GOTMPDIR="${GOTMPDIR:-/tmp}" TMPDIR="$made" # what go links stays on disk
	fi
	rm -f "$made/try"
fi
"$@"
