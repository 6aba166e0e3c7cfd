#!/usr/bin/env bash
# Calls every tool of belay's MCP server with a client that is not ours: the public
# MCP inspector, in its command line mode, from the npm registry. Needs Go, node, npm.
#
#   bash scripts/inspector.sh            installs the inspector into a temporary folder
#   BELAY_INSPECTOR=DIR bash scripts/…   keeps it in DIR for the next time
#   BELAY=FILE bash scripts/…            uses this binary instead of building one
#
# The inspector starts a server of its own for each call. So the session tools are
# asked for a session that this server cannot know, and what must survive between two
# calls is looked for in the worktree.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

VERSION=0.22.0

work=$(mktemp -d "${TMPDIR:-/tmp}/belay-inspector.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

home=${BELAY_INSPECTOR:-$work/inspector}
inspector=$home/node_modules/.bin/mcp-inspector
if [ ! -x "$inspector" ]; then
	mkdir -p "$home"
	# No script of any package is run on this machine.
	timeout -k 10 180 npm install --prefix "$home" --ignore-scripts --no-audit --no-fund --silent \
		"@modelcontextprotocol/inspector@$VERSION" || fail "npm install of the inspector"
fi
belay=${BELAY:-$work/belay}
[ -n "${BELAY:-}" ] || CGO_ENABLED=0 go build -o "$belay" ./cmd/belay || fail "go build"

tree=$work/tree
mkdir "$tree" && printf 'first\nsecond\n' >"$tree/a.txt" || exit 1
node -e 'console.log(JSON.stringify({mcpServers: {belay: {command: process.argv[1], args: ["mcp", "--root", process.argv[2]]}}}))' \
	"$belay" "$tree" >"$work/servers.json" || exit 1

calls=0
# ask CHECK METHOD ARGS…: sends it, and evaluates CHECK, a JavaScript expression over
# r (the answer), text (its first text), data and error (as in the contract).
ask() {
	local check=$1
	shift
	calls=$((calls + 1))
	timeout -k 10 60 "$inspector" --cli --config "$work/servers.json" --server belay --method "$@" \
		>"$work/answer" 2>"$work/stderr" || {
		cat "$work/stderr" "$work/answer" >&2
		fail "$*: the inspector gave up"
	}
	CHECK=$check node -e '
		const r = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
		const text = r.content?.[0]?.text, data = r._meta?.["belay/result"], error = r._meta?.["belay/error"];
		let good = false;
		try { good = eval(process.env.CHECK) } catch (e) { console.error(String(e)) }
		if (!good) { console.error(JSON.stringify(r, null, 1)); process.exit(1) }
	' "$work/answer" || fail "$*: not $check"
	printf 'ok  %s\n' "$*" | cut -c1-120
}

# call TOOL CHECK [NAME=VALUE…]: values that are JSON arrive as such.
call() {
	local tool=$1 check=$2 args=() a
	shift 2
	for a; do args+=(--tool-arg "$a"); done
	ask "$check" tools/call --tool-name "$tool" ${args[@]+"${args[@]}"}
}

digest() { node -e 'console.log(require("crypto").createHash("sha256").update(require("fs").readFileSync(process.argv[1])).digest("hex"))' "$1"; }

tools='["read","replace","shell","exec_command","write_stdin","exec_wait","exec_output","exec_list","exec_kill"]'
ask "$tools.every(n => r.tools.some(t => t.name === n))" tools/list
ask '!r.tools.some(t => t.name === "exec_ack")' tools/list
ask 'JSON.stringify(r.tools).length < 8192' tools/list
ask 'r.tools.every(t => ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].every(h => typeof t.annotations[h] === "boolean") &&
	t.inputSchema.additionalProperties === false)' tools/list

old=$(digest "$tree/a.txt")
call read "data.content === 'first\\nsecond\\n' && data.sha256 === '$old' && data.eof && text.includes('sha256=$old') && !r.structuredContent" path=a.txt
call read 'data.content === "second\n" && data.first_line === 2' path=a.txt line=2
call read 'r.isError && error.code === "outside_root" && error.kind === "refused" && text.startsWith("outside_root: ")' path=../servers.json
call read 'r.isError && error.code === "invalid_argument" && error.argument === "colour"' path=a.txt colour=red

call replace "data.changed && data.committed && data.durable && data.previous_sha256 === '$old'" path=a.txt content=third "expected_sha256=$old"
[ "$(cat "$tree/a.txt")" = third ] || fail "the file was not replaced"
now=$(digest "$tree/a.txt")
call replace "r.isError && error.code === 'stale' && error.current_sha256 === '$now'" path=a.txt content=fourth "expected_sha256=$old"
call replace 'data.created && data.committed' path=new.txt content=new create=true
[ "$(cat "$tree/a.txt" "$tree/new.txt")" = thirdnew ] || fail "the files are not what was committed"

call shell 'data.status === "exited" && data.exit_code === 3 && data.stdout === "out\n" && data.stderr === "err\n" && !r.isError' \
	'argv=["sh","-c","echo out; echo err >&2; exit 3"]'
call shell 'r.isError && error.code === "start_failed" && error.reason === "missing"' 'argv=["no-such-program-here"]'

call exec_command 'data.status === "exited" && data.exit_code === 0 && data.output === "done\n" && /^[a-z0-9_]{16,}$/.test(data.session_id)' 'cmd=echo done'
# A command that is still running when its server is told to go, goes too.
call exec_command 'data.status === "running" && data.output === "started\n"' 'cmd=echo $$ > pid; echo started; exec sleep 300' yield_time_ms=1000
pid=$(cat "$tree/pid") || fail "the long command did not start"
# state of the process: empty or Z where it is gone.
state_of() {
	if [ -d /proc/self ]; then
		sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null
	else
		ps -o stat= -p "$1"
	fi
}
for _ in $(seq 50); do
	state=$(state_of "$pid")
	case $state in '' | Z*) break ;; esac
	sleep 0.1
done
case $state in '' | Z*) ;; *) fail "process $pid outlived its server ($state)" ;; esac
printf 'ok  the long command ended with its server\n'

# Not known to the server that is asked: each says so, and starts and ends nothing.
for tool in write_stdin exec_output exec_kill; do
	call $tool 'r.isError && error.code === "unknown_session" && error.kind === "refused"' session_id=s_0000000000000000
done
call exec_wait '!data.timed_out && data.sessions.length === 0'
call exec_list 'Array.isArray(data.sessions) && data.sessions.length === 0'

printf 'inspector %s: %d calls, all as they should be\n' "$VERSION" "$calls"
