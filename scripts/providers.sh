#!/usr/bin/env bash
# Runs the built binary against each protocol of a model's vendor, offline: servers on
# loopback speak OpenAI's Responses and Chat Completions and Anthropic's Messages, and lead
# a model through a real task. It edits a real file, runs a real test that failed before
# and passes after it, and is woken by a real background process. What the model was shown
# is checked on the way. Needs Go; seconds, once all is compiled.
#
#   bash scripts/providers.sh              builds belay
#   BELAY=FILE bash scripts/providers.sh   takes this binary
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

if [ -z "${BELAY:-}" ]; then
	work=$(mktemp -d "${TMPDIR:-/tmp}/belay-providers.XXXXXX") || exit 1
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM HUP
	BELAY=$work/belay
	CGO_ENABLED=0 go build -o "$BELAY" ./cmd/belay || exit 1
fi
BELAY=$(realpath "$BELAY") || exit 1
export BELAY
go test -count=1 -timeout 120s -v -run '^(TestProviders_D1|TestProvidersThatFail)$' ./cmd/belay
