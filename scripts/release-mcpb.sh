#!/usr/bin/env bash
# Builds the bundles (.mcpb) for desktop clients, one for each system and processor, and
# the server.json for the MCP registry that names them with their digests. Needs Go and
# Python. The same source and the same Go give the same bytes.
#
#   bash scripts/release-mcpb.sh VERSION FOLDER
#   BELAY_TARGETS=linux/amd64 bash scripts/…     only these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?a version, for example 0.1.0}
out=${2:?a folder for the bundles}
case $version in
*[!0-9A-Za-z.+-]* | [!0-9]*) echo "no version: $version" >&2 && exit 2 ;;
esac
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/belay-release.XXXXXX")
trap 'rm -rf "$work"' EXIT

for target in ${BELAY_TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}; do
	os=${target%/*} arch=${target#*/} exe=belay platform=$os
	[ "$os" = windows ] && exe=belay.exe platform=win32
	dir=$work/$os-$arch
	mkdir -p "$dir/server"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X github.com/belayhq/belay/internal/cli.version=$version" -o "$dir/server/$exe" ./cmd/belay
	cp LICENSE "$dir/LICENSE"
	cat >"$dir/manifest.json" <<JSON
{
  "manifest_version": "0.4",
  "name": "belay",
  "display_name": "belay",
  "version": "$version",
  "description": "Dependable hands for a coding agent: confined files, owned processes, honest outcomes.",
  "long_description": "belay reads and changes files inside one folder, runs commands, keeps interactive processes, and tells what happened. It acts with your authority and is no sandbox.",
  "author": { "name": "The belay authors", "url": "https://github.com/belayhq/belay" },
  "repository": { "type": "git", "url": "https://github.com/belayhq/belay" },
  "license": "Apache-2.0",
  "server": {
    "type": "binary",
    "entry_point": "server/$exe",
    "mcp_config": { "command": "\${__dirname}/server/$exe", "args": ["mcp", "--root", "\${user_config.root}"], "env": {} }
  },
  "tools_generated": true,
  "compatibility": { "platforms": ["$platform"] },
  "user_config": {
    "root": { "type": "directory", "title": "Folder", "description": "The folder that the file tools are confined to", "required": true }
  }
}
JSON
	python3 - "$dir" "$out/belay-mcp-$version-$os-$arch.mcpb" "server/$exe" <<-'PYTHON'
	import sys, zipfile
	folder, file, program = sys.argv[1:]
	with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
	    for name in sorted(["manifest.json", "LICENSE", program]):
	        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
	        entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
	        entry.external_attr = (0o100755 if name == program else 0o100644) << 16
	        with open(f"{folder}/{name}", "rb") as content:
	            bundle.writestr(entry, content.read())
	PYTHON
done

# server.json, with what was built.
{
	sed -e "s/\"version\": \"[^\"]*\"/\"version\": \"$version\"/" -e '/"packages"/,$d' server.json
	printf '  "packages": ['
	comma=
	for file in "$out"/belay-mcp-"$version"-*.mcpb; do
		digest=$(sha256sum "$file" | cut -d' ' -f1)
		printf '%s\n    {\n      "registryType": "mcpb",\n      "identifier": "https://github.com/belayhq/belay/releases/download/v%s/%s",\n      "version": "%s",\n      "fileSha256": "%s",\n      "transport": { "type": "stdio" }\n    }' \
			"$comma" "$version" "$(basename "$file")" "$version" "$digest"
		comma=,
	done
	printf '\n  ]\n}\n'
} >"$out/server.json"
ls -l "$out"
