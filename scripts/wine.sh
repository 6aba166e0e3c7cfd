#!/usr/bin/env bash
# Runs the Windows test binaries of some packages under wine, on Debian as root or
# wherever wine is installed.
#
#   bash scripts/wine.sh                    the packages that deal with the system
#   bash scripts/wine.sh internal/spool …   these
#
# Wine is not Windows. A pass shows that the code runs against this interface and that
# its own logic holds; it shows nothing about sharing rules, access lists, and timing of
# the real system. Wine 8 cannot delete through os.Root nor by os.RemoveAll ("Invalid
# function": it lacks the disposition that Go asks for), so a test that removes something
# fails there. Exit 3: wine cannot be had here.
#
#   WINE_TEST_FLAGS='-test.v -test.run X'   more flags for the test binaries
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null

packages=("$@")
[ $# -gt 0 ] || packages=(internal/worktree internal/proc internal/spool internal/jobs internal/filetool internal/proctool)

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
export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEARCH=win64 DISPLAY=
# The server of this prefix, and with it what still runs in it, ends before its files go.
trap 'timeout 20 wineserver -k 2>/dev/null; timeout 20 wineserver -w 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

timeout 120 wine wineboot -i >"$work/boot.log" 2>&1 || {
	cat "$work/boot.log"
	echo "wine does not start"
	exit 1
}

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

failed=0
for pkg in "${packages[@]}"; do
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go test -c -o "$work/test.exe" "./$pkg" || {
		failed=1
		continue
	}
	[ -f "$work/test.exe" ] || {
		echo "$pkg: no tests"
		continue
	}
	start=$SECONDS
	if (cd "$pkg" && timeout -k 10 300 wine "$work/test.exe" -test.timeout 280s ${WINE_TEST_FLAGS:-}) >"$work/log" 2>&1; then
		echo "ok   $pkg under $(wine --version) ($((SECONDS - start)) s)"
	else
		tail -60 "$work/log"
		echo "FAIL $pkg under wine"
		failed=1
	fi
	rm -f "$work/test.exe"
done
exit $failed
