#!/bin/sh
# Evaluates the expressions and variables of language.txt with Terraform, and records the results in the same file.
# Terraform's language is internal to its module, so record.go is compiled inside a copy of the module.
set -eu
version=v1.13.5
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'chmod -R u+w "$copy"; rm -rf "$copy"' EXIT
cd "$copy"
go mod download "github.com/hashicorp/terraform@$version"
cp -R "$(go env GOMODCACHE)/github.com/hashicorp/terraform@$version/." .
chmod -R u+w .
# The backends are modules that are not published.
sed -i -e '/^replace .*=> \.\/internal/d' -e '/hashicorp\/terraform\/internal\//d' go.mod
mkdir internal/locktree
cp "$here/record.go" internal/locktree/main.go
go run -trimpath -mod=mod ./internal/locktree "$version" <"$here/language.txt" >"$copy/recorded"
cp "$copy/recorded" "$here/language.txt"
