package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// Explain shows an error: what failed, where, why, and what to do next. The packages that make the errors contain their text.
// This file adds only the text about the command: its blocks and environment variables.
func Explain(err error) hcl.Diagnostics {
	if all := errorList(nil); errors.As(err, &all) {
		var out hcl.Diagnostics
		for _, one := range all {
			out = append(out, Explain(one)...)
		}
		return out
	}
	x := partsOf(err)
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: x.Summary, Detail: x.Text(), Extra: Address(x.Addr)}}
}

// Brief is an error in one line, as pages show it.
func Brief(err error) string {
	x := partsOf(err)
	if x.Detail == "" {
		return Clean(explain.Sentence(x.Summary))
	}
	return Clean(x.String())
}

const CredentialsAre = "The credentials are an auth block of the ensemble, or ZOOKEEPER_USERNAME and ZOOKEEPER_PASSWORD."

func partsOf(err error) explain.Explanation {
	var explained explain.Explainer
	switch {
	case errors.As(err, &explained):
	case errors.Is(err, recipes.ErrUnreachable) && !errors.Is(err, context.Canceled): // a cancelled context is an interrupt
		return explain.Explanation{
			Summary: "Cannot reach ZooKeeper", Detail: explain.Sentence(strings.TrimPrefix(Sentence(err), "ZooKeeper unreachable: ")),
			Next: "Check that these servers run, and that this machine reaches them. The ensemble block names them, or ZOOKEEPER_SERVERS; " +
				"connect_timeout limits how long the command waits, and a tls block or ZOOKEEPER_TLS_ENABLED encrypts the connection.",
		}
	case errors.Is(err, recipes.ErrThrottled):
		return explain.Explanation{Summary: "ZooKeeper sheds requests", Detail: explain.Sentence(Sentence(err)),
			Next: "The servers are overloaded, or their limits (request_throttle_max_requests, throttled_op_wait_time) are too low. Try again later."}
	case errors.Is(err, recipes.ErrAuth):
		return explain.Explanation{Summary: "ZooKeeper refused the authentication", Detail: explain.Sentence(Sentence(err)) + " " + CredentialsAre}
	}
	return explain.Of(err)
}

// Reason is why an operation failed, in a short line without the next step.
func Reason(err error) string {
	x := partsOf(err)
	why, _, _ := strings.Cut(cmp.Or(x.Detail, explain.Sentence(x.Summary)), "\n")
	return Clean(why)
}

// Sentence is an error's text without the name of the package that made it.
func Sentence(err error) string { return explain.Plain(err.Error()) }

// Failure is an error that already says what happened, in one line, and where, why and what to do next, in sentences.
type Failure struct{ Summary, Detail string }

// Failf returns a Failure whose detail is formatted. Text arguments may come from others, so control characters in them are made
// visible.
func Failf(summary, detail string, args ...any) error {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = Clean(arg)
		case error:
			args[i] = Clean(arg.Error())
		}
	}
	return &Failure{Summary: summary, Detail: fmt.Sprintf(detail, args...)}
}

func (f *Failure) Error() string { return f.Summary + ": " + f.Detail }

// Explain implements [explain.Explainer].
func (f *Failure) Explain() explain.Explanation {
	return explain.Explanation{Summary: f.Summary, Detail: f.Detail}
}

// SomeEnsembles is an error on one ensemble after the plans of others were applied. Ensembles share no transaction.
type SomeEnsembles struct {
	Applied []string // ensembles whose changes are committed
	Failed  string
	Err     error
}

func (s *SomeEnsembles) Error() string { return s.Err.Error() }

func (s *SomeEnsembles) Unwrap() error { return s.Err }

// Explain first says what was written: the error itself is only about one ensemble.
func (s *SomeEnsembles) Explain() explain.Explanation {
	quoted := make([]string, len(s.Applied))
	for i, name := range s.Applied {
		quoted[i] = Quote(name)
	}
	return partsOf(s.Err).Within("Only some of the ensembles were changed",
		fmt.Sprintf("The changes of %s %s are applied. Then, on ensemble %s: ",
			PluralWord(len(s.Applied), "ensemble", "ensembles"), strings.Join(quoted, ", "), Quote(s.Failed)),
		`Each ensemble has a transaction of its own. Run "locktree plan" to see what is there now, and apply that plan.`)
}

// errorList is a list of independent errors, and each is explained.
type errorList []error

func (s errorList) Error() string { return errors.Join(s...).Error() }

func (s errorList) Unwrap() []error { return s }

// Join returns an error that is explained as each of errs, without those that are nil.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return errorList(errs)
}

// Unseen is an ensemble that could not be read.
type Unseen struct {
	Ensemble, Servers string
	Only              bool // the configuration has no other
	Err               error
}

func (u Unseen) Error() string { return u.Err.Error() }

func (u Unseen) Unwrap() error { return u.Err }

// Explain implements [explain.Explainer].
func (u Unseen) Explain() explain.Explanation {
	x := partsOf(u.Err)
	if x.Detail == "" { // replaces the text of the library, which is long
		x.Summary, x.Detail = "Cannot use the servers", explain.Sentence(x.Summary)
	}
	if u.Only {
		return x
	}
	return x.Within(x.Summary, fmt.Sprintf("Nothing is known of ensemble %s: ", Quote(u.Ensemble)), "")
}

// Lost are ensembles that could not be read.
type Lost []Unseen

// Err is the error of a command that needed these ensembles, or showed only the others; nil if there are none.
func (l Lost) Err() error {
	errs := make([]error, len(l))
	for i := range l {
		errs[i] = l[i]
	}
	return Join(errs...)
}

// Denied is the error of a request that our rights do not allow. ZooKeeper never says that a password is wrong: it hashes the
// given one, and finds later that no list grants that hash anything.
type Denied struct {
	Err error
	Who []string // who the servers take us for, without hashes: "digest:admin"
	// Ask are the identities that may change the access list of the node At: the node that refused us, or the nearest one above
	// it whose list we may read.
	At   string
	Ask  []string
	Root string // of the stack, if the root or .locktree in it refused us; otherwise ""
}

func (d *Denied) Error() string { return d.Err.Error() }

func (d *Denied) Unwrap() error { return d.Err }

// Explain adds the identities that the servers see to the error's own text.
func (d *Denied) Explain() explain.Explanation {
	x := partsOf(d.Err)
	var node *failure.NodeError
	errors.As(d.Err, &node)
	named := node != nil && node.Named
	if x.Detail == "" { // replaces the text of the library, which is long
		x.Summary, x.Detail = "ZooKeeper refused a request", explain.Sentence(x.Summary)
		if failed := (*direct.OpError)(nil); errors.As(d.Err, &failed) { // its hint is for programs; what follows says more
			named = true
			x.Detail = explain.Sentence(strings.TrimSuffix(strings.TrimSuffix(x.Detail, "."), "; "+failed.Hint))
		}
	}
	said := x.Text()
	var parts []string
	if !named {
		parts = append(parts, "The servers see this connection as "+strings.Join(d.Who, ", ")+".")
	}
	switch {
	case slices.Equal(d.Who, []string{"world:anyone"}):
		parts = append(parts, "No user name is given: an auth block in the ensemble, or ZOOKEEPER_USERNAME and ZOOKEEPER_PASSWORD, would give one.")
	case !strings.Contains(said, "wrong password") && slices.ContainsFunc(d.Who, func(who string) bool { return strings.HasPrefix(who, "digest:") }):
		parts = append(parts, "Check the password first: ZooKeeper accepts a wrong password without complaint, and then grants nothing to it.")
	}
	grants := "It is not known whom to ask: this connection may not read the access lists there."
	switch {
	case len(d.Ask) > 0:
		grants = fmt.Sprintf("Whom to ask: %s, who may change the access list of %s.", strings.Join(d.Ask, " or "), Clean(d.At))
	case d.At != "":
		grants = fmt.Sprintf("Whom to ask: only the superuser of the servers may change the access list of %s.", Clean(d.At))
	}
	if d.Root != "" {
		grants += fmt.Sprintf(" If %s is another team's root, take a root of your own beside it: see \"locktree help two-teams\".", Clean(d.Root))
	}
	for _, more := range []string{strings.Join(parts, " "), grants} {
		x.Next = strings.TrimSpace(x.Next + "\n\n" + more)
	}
	return x
}
