package main

import (
	"net/url"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/recipes/kind"
)

// ciSystems are known by a variable that each sets. Only these variables go into the history: others may be secrets.
var ciSystems = []struct {
	name, mark string
	run        []string // joined; the first of a URL
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

// maxMessage bounds -message, in bytes.
const maxMessage = 300

// messageFlag is -message.
type messageFlag string

func (f *messageFlag) register(c *cobra.Command) {
	c.Flags().StringVar((*string)(f), "message", "", "why, as `TEXT` for the history of the stack (\"locktree history\")")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		switch text := string(*f); {
		case len(text) > maxMessage:
			return usage(c, "Bad message", "-message has %d bytes, and at most %d are allowed.", len(text), maxMessage)
		case kind.Visible(text) != text:
			return usage(c, "Bad message", "-message has control characters, or others that cannot be seen: write plain text.")
		}
		return nil
	}
}

// who is written into the apply lock: user@host, if they are known.
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

// signed says who does something, and why.
func (a *app) signed(why messageFlag) history.Author {
	return history.Author{Who: who(), Version: version(), CI: ciRun(a.Env), Message: string(why)}
}
