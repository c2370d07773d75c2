#!/usr/bin/env bash
# The locktree steps of a pipeline, for action.yml, gitlab.yml and other systems: ci.sh install | check | plan | apply | drift.
# It calls locktree and shows all that locktree prints. locktree gets the variables of "locktree help environment". This script uses:
#
#   LOCKTREE_VERSION     the release to install, as in v0.1.0
#   LOCKTREE_DIRECTORY   the directory of the configuration; "." by default
#   LOCKTREE_PLAN        the file of the saved plan; locks.ltplan in that directory by default
#   LOCKTREE_DOWNLOADS   the address of the releases, for a copy of your own; GitHub's by default
#   LOCKTREE_BIN         where to install; a temporary directory by default
set -euo pipefail

directory=${LOCKTREE_DIRECTORY:-.}
plan=${LOCKTREE_PLAN:-$directory/locks.ltplan}
summary=${plan%.ltplan}.md
bin=${LOCKTREE_BIN:-${RUNNER_TEMP:-${TMPDIR:-/tmp}}/locktree-bin}
PATH=$bin:$PATH
export NO_COLOR=1

fail() {
  echo "$*" >&2
  exit 1
}
lt() { locktree -chdir="$directory" "$@"; }
output() { [ -z "${GITHUB_OUTPUT-}" ] || echo "$1=$2" >>"$GITHUB_OUTPUT"; }
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# harmless makes text safe for a log. Runners obey some log lines, and a stranger's name or message may contain such a line. GitHub obeys
# lines that begin with "::", also after Unicode white space, or contain "##["; Azure "##vso["; GitLab sections with control characters.
harmless() {
  LC_ALL=C tr '\000-\010\013-\037\177' '?' | LC_ALL=C sed -e 's/^[[:blank:]]*[^[:blank:]!-9;-~]/| &/' -e :again -e 's/##/# #/' -e 't again'
}

# show prints a command's text to the log, and writes it as a code block to the summary, which GitHub shows. The lines are indented,
# because no text can end such a code block. GitHub refuses comments of more than 65,536 characters.
show() {
  {
    printf '**locktree %s**\n\n' "$1"
    LC_ALL=C awk '{ size += length($0) + 5 } size > 60000 { print "    ... The log of the job has the rest."; exit } { print "    " $0 }' "$text"
  } >"$summary"
  [ -z "${GITHUB_STEP_SUMMARY-}" ] || cat "$summary" >>"$GITHUB_STEP_SUMMARY"
  cat "$text"
}

# said runs a command, keeps its output for show, and sets code to its exit code.
said() {
  code=0
  text=$(mktemp)
  lt "$@" 2>&1 | harmless >"$text" || code=$?
}

install_it() {
  local version=${LOCKTREE_VERSION:?the release to install, as in v0.1.0} system arch archive from work
  case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "This installs locktree on Linux and macOS only; see the releases for $(uname -s)." ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "There is no release of locktree for $(uname -m)." ;;
  esac
  archive=locktree_${version#v}_${system}_$arch.tar.gz
  from=${LOCKTREE_DOWNLOADS:-https://github.com/locktree/locktree/releases/download}/$version
  work=$(mktemp -d)
  curl -fsSL --retry 3 -o "$work/$archive" "$from/$archive" || fail "Cannot download $from/$archive."
  curl -fsSL --retry 3 -o "$work/all" "$from/SHA256SUMS" || fail "Cannot download $from/SHA256SUMS."
  grep -F "  $archive" "$work/all" >"$work/sum" || fail "SHA256SUMS of $version does not name $archive."
  local check=(sha256sum -c)
  command -v sha256sum >/dev/null || check=(shasum -a 256 -c)
  (cd "$work" && "${check[@]}" sum >/dev/null) || fail "$archive is not what SHA256SUMS of $version says. It was not installed."
  mkdir -p "$bin"
  tar -xzf "$work/$archive" -C "$bin" locktree
  rm -rf "$work"
  [ -z "${GITHUB_PATH-}" ] || echo "$bin" >>"$GITHUB_PATH"
  locktree version
}

# check needs no server and no secret, so it is safe for pull requests of strangers.
check() {
  lt fmt -check -recursive 2>&1 | harmless || fail "The files above are not formatted. Run: locktree fmt -recursive"
  lt validate 2>&1 | harmless
}

# planned plans, shows the summary, and sets code: 0 without changes, 2 with changes.
planned() {
  said plan -input=false -detailed-exitcode -out="$(absolute "$plan")"
  show plan
  [ "$code" = 0 ] || [ "$code" = 2 ] || exit "$code"
}

make_plan() {
  planned
  output plan "$plan"
  output summary "$summary"
  output changes "$([ "$code" = 2 ] && echo true || echo false)"
}

# apply applies the reviewed plan, or nothing: locktree refuses a plan if anything has changed since.
apply() {
  said apply -input=false "$(absolute "$plan")"
  show apply
  exit "$code"
}

# drift keeps one open issue while the locks differ from the configuration, and closes it when they match again. It calls gh.
drift() {
  local title="The locks differ from the configuration" label=locktree-drift number
  planned
  number=$(gh issue list --state=open --label="$label" --limit=1 --json=number --jq='.[].number')
  case $code:$number in
  2:)
    gh label create "$label" --description="Opened and closed by locktree" --force
    gh issue create --title="$title" --label="$label" --body-file="$summary"
    ;;
  2:*) gh issue edit "$number" --body-file="$summary" ;; # shows the present difference
  0:) ;;
  0:*) gh issue close "$number" --comment="The locks match the configuration again." ;;
  esac
}

case ${1-} in
install) install_it ;;
check) check ;;
plan) make_plan ;;
apply) apply ;;
drift) drift ;;
*) fail "usage: ci.sh install | check | plan | apply | drift" ;;
esac
