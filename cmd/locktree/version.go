package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/kind"
)

// The build of a release sets its number and its commit with -ldflags "-X main.release=1.2.3 -X main.commit=...".
var release, commit string

// next is the coming release. A build from a working copy has this version, also when it checks required_version.
const next = "0.1.0-dev"

func versionCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  atMost(0),
		RunE:  func(*cobra.Command, []string) error { return showVersion(a) },
	}
	a.jsonFlag(c, screen.Document, "print one JSON object")
	return c
}

func showVersion(a *app) error {
	v := view.Version{Version: version(), Platform: runtime.GOOS + "_" + runtime.GOARCH, PayloadFormat: kind.Format, Revision: commit}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings { // what the build recorded of its working copy
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	a.Show(v)
	return nil
}

// version is the release, or the tag that `go install` recorded. A build from a working
// copy records neither, or a pseudo-version, which would satisfy no constraint.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		tag, found := strings.CutPrefix(info.Main.Version, "v")
		if found && !strings.HasPrefix(tag, "0.0.0-") {
			return tag
		}
	}
	return next
}
