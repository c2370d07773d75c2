package change

import (
	"net/url"
	"os"
	"os/user"
	"strings"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/recipes/kind"
)

// ciSystems are the CI systems that the program recognizes. Each sets the environment variable that the field mark names. Only the
// variables in run go into the history: others may be secrets.
var ciSystems = []struct {
	name, mark string
	run        []string // parts of the run's URL, which are joined: texts, and $NAMES of variables
}{
	{"GitHub Actions", "GITHUB_ACTIONS", []string{"$GITHUB_SERVER_URL", "/", "$GITHUB_REPOSITORY", "/actions/runs/", "$GITHUB_RUN_ID"}},
	{"GitLab CI", "GITLAB_CI", []string{"$CI_JOB_URL"}},
	{"Jenkins", "JENKINS_URL", []string{"$BUILD_URL"}},
	{"Buildkite", "BUILDKITE", []string{"$BUILDKITE_BUILD_URL"}},
	{"CircleCI", "CIRCLECI", []string{"$CIRCLE_BUILD_URL"}},
	{"Azure Pipelines", "TF_BUILD", []string{"build ", "$BUILD_BUILDID"}},
}

// ciRun is the run of a CI system that this program is part of; nil if it is part of none.
func ciRun(env stack.Environ) *history.CIRun {
	for _, s := range ciSystems {
		if env.Get(s.mark) == "" {
			continue
		}
		run := ""
		for _, part := range s.run {
			if name, ok := strings.CutPrefix(part, "$"); ok {
				part = env.Get(name)
			}
			run += part
		}
		return &history.CIRun{System: s.name, Run: kind.Visible(public(run))}
	}
	return nil
}

// public is a URL without what may be secret in it: user, password, query and fragment.
func public(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	if u.Scheme == "" {
		return u.Path
	}
	return u.String()
}

// who is the text in the apply lock: user@host, if they are known.
func who() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// Author is this run of the program, with the reason that a person gave.
func Author(l *stack.Loader, why string) history.Author {
	return history.Author{Who: who(), Version: l.Version, CI: ciRun(l.Environ), Message: why}
}
