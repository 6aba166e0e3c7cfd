#!/usr/bin/env bash
# Runs the Windows test binaries of the packages under wine, on Debian as root or
# wherever wine is installed.
#
#   bash scripts/wine.sh                    the packages listed below
#   bash scripts/wine.sh internal/spool …   these
#
# Wine is not Windows. A pass shows that the code runs against this interface and that
# its own logic holds; it shows nothing about sharing rules, access lists, and timing of
# the real system. Two things that a Go program needs are not in wine 8 and are put beside
# the tests, see below: the library of random numbers, and one more status by which Go
# turns to the older way of removing a file. With them the tests remove files as on a
# file system that does not know the newer way (FAT, some shares).
#
# A test passes, or is listed below with the reason why it cannot be shown here. Anything
# else fails: a test that skips itself and is not listed, a package without tests, and a
# listed test that is not there any more or was not skipped. Exit 3: wine cannot be had.
#
#   WINE_TEST_FLAGS='-test.run X'   more flags for the test binaries; the list is then not checked
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

packages=("$@")
[ $# -gt 0 ] || packages=(tool guard approve
	internal/{jsontext,termtext,capture,textedit,worktree,proc,spool,osfile,journal,jobs,border,proctool,dispatch,host/transcript})

# Package, test, reason.
not_shown='
internal/worktree TestCommitFacts_F4_F5/links wine 8 makes no symbolic links
internal/worktree TestMkdirs_F1_F5/links wine 8 makes no symbolic links
internal/worktree TestLeftoverIsSwept_F5/links wine 8 makes no symbolic links
internal/worktree TestNamesStayInside_F1_S1/links wine 8 makes no symbolic links
internal/worktree TestProtectedPlaces_F1/links wine 8 makes no symbolic links
internal/worktree TestSpecialFilesRefused_F2/links wine 8 makes no symbolic links
internal/worktree TestDirRecheck_S1/link_out/links wine 8 makes no symbolic links
internal/worktree TestDirRecheck_S1/link_to_itself/links wine 8 makes no symbolic links
internal/worktree TestRootThroughLink_F1 wine 8 makes no symbolic links
internal/worktree TestDirRecheck_S1/removed wine 8 keeps a folder that is open
internal/worktree TestDirRecheck_S1/file wine 8 keeps a folder that is open
internal/worktree TestRootRenamedInUse_F1 an open root cannot be moved, as on Windows
internal/worktree TestRemovedRoot_S1 a root that is held cannot be removed, as on Windows
internal/worktree TestChangedWhileRead_F3/rename wine 8 renames over no file that is open
internal/proc TestTerminal wine 8 has no working pseudo-console
internal/textedit TestF9_GitApplies no git in this prefix
'

if ! command -v wine >/dev/null || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
		echo "no wine, and no right to install it"
		exit 3
	}
	echo "installing wine"
	DEBIAN_FRONTEND=noninteractive timeout 400 bash -c 'apt-get update -qq &&
		apt-get install -y -qq --no-install-recommends wine wine64 gcc-mingw-w64-x86-64' >/dev/null 2>&1 || {
		echo "wine cannot be installed"
		exit 3
	}
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/belay-wine.XXXXXX") || exit 1
export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEARCH=win64 DISPLAY= TMPDIR=$work
# The server of this prefix, and with it what still runs in it, ends before its files go.
# A process that was just being made does not listen to the server, and is ended after it.
clean() {
	local file
	timeout 20 wineserver -k 2>/dev/null
	timeout 20 wineserver -w 2>/dev/null
	for file in $(grep -lsz "^WINEPREFIX=$WINEPREFIX\$" /proc/[0-9]*/environ); do
		kill -KILL "${file//[!0-9]/}" 2>/dev/null # the grep itself is gone
	done
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

timeout 120 wine wineboot -i >"$work/boot.log" 2>&1 || {
	cat "$work/boot.log"
	echo "wine does not start"
	exit 1
}
version=$(wine --version 2>/dev/null)

# Wine before 9 lacks a library without which no Go program starts. It is made here
# for the test, from the random source that wine has; it belongs to no release.
system=$WINEPREFIX/drive_c/windows/system32
if [ ! -e "$system/bcryptprimitives.dll" ]; then
	cat >"$work/prng.c" <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T n) {
	while (n > 0) {
		ULONG part = n > 1 << 20 ? 1 << 20 : (ULONG)n;
		if (!SystemFunction036(to, part)) return FALSE;
		to += part;
		n -= part;
	}
	return TRUE;
}
C
	x86_64-w64-mingw32-gcc -shared -O1 -o "$system/bcryptprimitives.dll" "$work/prng.c" -ladvapi32 || exit 1
fi

# os.Remove, os.RemoveAll and os.Root ask for a removal by FileDispositionInformationEx and
# fall back to the older call where the system answers that it does not know it. Wine 8
# answers "not implemented", which Windows never does, so that nothing could be removed.
# The test binaries, and they alone, are built with that answer among the others.
removal=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
sed 's/^\tcase STATUS_INVALID_INFO_CLASS,/\tcase NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,/' "$removal" >"$work/at_windows.go"
[ "$(diff "$removal" "$work/at_windows.go" | grep -c '^>')" = 1 ] || {
	echo "$removal has changed: look what its removal asks of the system now"
	exit 1
}
printf '{"Replace":{"%s":"%s"}}' "$removal" "$work/at_windows.go" >"$work/overlay.json"

mkdir "$work/bin"
CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go test -c -overlay "$work/overlay.json" -o "$work/bin/" "${packages[@]/#/./}" || exit 1
echo "built in $SECONDS s"

# names VERDICT: of the tests in the log of the package.
names() { sed -nE "s/^ *--- $1: ([^ ]+) \(.*/\1/p" "$work/log"; }

failed=0 passed_all=0 skipped_all=0
for pkg in "${packages[@]}"; do
	start=$SECONDS
	(cd "$pkg" && timeout -k 10 200 wine "$work/bin/${pkg##*/}.test.exe" -test.timeout 190s -test.short -test.v ${WINE_TEST_FLAGS:-}) >"$work/raw" 2>&1
	rc=$?
	tr -d '\r' <"$work/raw" >"$work/log"
	passed=$(names PASS | wc -l) skipped=$(names SKIP | wc -l) wrong=
	if [ $rc != 0 ]; then
		wrong="exit $rc"
	elif [ "$passed" = 0 ]; then
		wrong="no test passed"
	elif [ -z "${WINE_TEST_FLAGS:-}" ]; then
		wrong=$(diff <(awk -v pkg="$pkg" '$1 == pkg { print $2 }' <<<"$not_shown" | sort) <(names SKIP | sort) |
			sed -n 's/^</listed and not skipped:/p; s/^>/skipped and not listed:/p')
	fi
	if [ -n "$wrong" ]; then
		grep -vE '^ *--- PASS|^=== ' "$work/log" | tail -60 | cut -c1-400
		echo "$wrong"
		echo "FAIL $pkg: $(names FAIL | wc -l) failed, $passed passed, $skipped skipped ($((SECONDS - start)) s)"
		failed=1
	else
		echo "ok   $pkg: $passed passed, $skipped not shown ($((SECONDS - start)) s)"
		awk -v pkg="$pkg" '$1 == pkg { $1 = "    "; sub($2, $2 ":"); print }' <<<"$not_shown"
	fi
	passed_all=$((passed_all + passed)) skipped_all=$((skipped_all + skipped))
done
# The program itself, without a package named: files, commands, and a server.
# expect STATUS TEXT ARGUMENTS…: the exit status, and a line of the output.
expect() {
	local rc want=$1 text=$2
	shift 2
	(cd "$work/root" && timeout -k 10 60 wine "$work/bin/belay.exe" "$@") >"$work/out" 2>"$work/err"
	rc=$?
	[ "$rc" = "$want" ] && cat "$work/out" "$work/err" | grep -F -- "$text" >/dev/null && return
	echo "belay $*: exit $rc, not $want, or no line with: $text"
	cat "$work/out" "$work/err"
	failed=1
}
if [ $# = 0 ]; then
	start=$SECONDS
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -overlay "$work/overlay.json" -o "$work/bin/belay.exe" ./cmd/belay || exit 1
	mkdir "$work/root"
	expect 0 windows/amd64 version
	expect 0 "created=true committed=true" call replace '{"path":"sub/f","content":"one\n","create":true,"mkdirs":true}'
	one=$(printf 'one\n' | sha256sum | cut -d' ' -f1)
	expect 0 "sha256=$one" call read '{"path":"sub\\f"}'
	expect 0 "+two" call edit '{"path":"sub/f","expected_sha256":"'"$one"'","edits":[{"old_text":"one","new_text":"two"}]}'
	expect 5 stale: call replace '{"path":"sub/f","content":"three","expected_sha256":"'"$one"'"}'
	expect 5 outside_root: call read '{"path":"../out"}'
	expect 5 "reserves for devices" call read '{"path":"sub/nul.txt"}'
	expect 0 "status=exited exit_code=3" call shell '{"argv":["cmd","/d","/c","echo a b& exit 3"]}'
	expect 0 "status=timed_out" call shell '{"argv":["ping","-n","60","127.0.0.1"],"timeout_ms":500}'
	expect 0 "sub" call exec_command '{"cmd":"dir /b","shell":"cmd"}'
	expect 0 '"output":"over mcp\n"' mcp < <(
		printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wine","version":"1"}}}' \
			'{"jsonrpc":"2.0","method":"notifications/initialized"}' \
			'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"echo over mcp","shell":"cmd"}}}'
		# The end of the input ends the server: wait for the answer.
		for _ in {1..100}; do
			grep -q '"id":2' "$work/out" && break
			sleep 0.2
		done
	)
	# The host, with a scripted model.
	cat >"$work/script.jsonl" <<'J'
{"calls": [{"name": "shell", "args": {"argv": ["cmd", "/d", "/c", "echo from the host"]}}]}
{"expect": ["status=exited exit_code=0", "from the host"], "text": "The host works."}
J
	export BELAY_MODEL=scripted/../script.jsonl
	expect 0 "The host works." run go
	expect 0 '"type":"settled"' run --json go
	expect 0 "  go" conversations
	expect 0 '"text":"The host works."' rpc -c < <(
		printf '%s\n' '{"id":1,"type":"prompt","text":"go"}'
		for _ in {1..100}; do
			grep -q '"settled"' "$work/out" && break
			sleep 0.2
		done
		printf '%s\n' '{"id":2,"type":"shutdown"}'
	)
	expect 2 "belay run" # no terminal
	unset BELAY_MODEL
	[ "$(cat "$work/root/sub/f")" = two ] && [ "$(ls -A "$work/root" "$work/root/sub" | tr '\n' ' ')" = "$work/root: sub  $work/root/sub: f " ] || {
		echo "the tree is not what it has to be:"
		ls -lAR "$work/root"
		failed=1
	}
	[ $failed = 1 ] || echo "ok   belay.exe ($((SECONDS - start)) s)"
fi
echo "$version: $passed_all tests passed, $skipped_all not shown, $SECONDS s"
exit $failed
