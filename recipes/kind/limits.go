package kind

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Limits describe normal use of a lock, and name the people to ask about it. They inform people and monitoring: no lease is lost and no
// wait ends because of them.
type Limits struct {
	// MaxHold is the longest time that the lock should be held, such as "10m"; "" means no limit.
	MaxHold string
	// MaxWait is the longest time that a client should wait for the lock, such as "30s"; "" means no limit.
	MaxWait string
	// Owner is the team or the mail address that is responsible for the lock.
	Owner string
	// Runbook is the URL of a page that says what to do.
	Runbook string
}

// Hold is MaxHold as a duration, 0 for no limit.
func (l Limits) Hold() time.Duration { return stated(l.MaxHold) }

// Wait is MaxWait as a duration, 0 for no limit.
func (l Limits) Wait() time.Duration { return stated(l.MaxWait) }

func stated(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

var limitsTable = []parameter{
	{Name: "max_hold", at: func(p Params) any { return &p.common().MaxHold }, Default: "", Inherit: true, rule: checkDuration,
		Doc: `The longest time that anybody should hold a lock, such as "10m". Reported, not enforced; nodes inside inherit it.`},
	{Name: "max_wait", at: func(p Params) any { return &p.common().MaxWait }, Default: "", Inherit: true, rule: checkDuration,
		Doc: `The longest time that anybody should wait for a lock, such as "30s". Reported, not enforced; nodes inside inherit it.`},
	{Name: "owner", at: func(p Params) any { return &p.common().Owner }, Default: "", Inherit: true, rule: checkPrintable,
		Doc: "Who is responsible: a team or a mail address; nodes inside inherit it."},
	{Name: "runbook", at: func(p Params) any { return &p.common().Runbook }, Default: "", Inherit: true, rule: checkURL,
		Doc: "URL of the page that says what to do when something is wrong; nodes inside inherit it."},
}

func checkDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d <= 0 {
		return fmt.Errorf("%q is not a positive duration: write numbers with units, such as \"90s\", \"10m\" or \"1h30m\"", s)
	}
	return nil
}

func checkPrintable(s string) error {
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%q has a character that cannot be seen at byte %d: write visible text on one line", s, i)
	}
	return nil
}

// checkURL never repeats s, since it may contain a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case checkPrintable(s) != nil || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New(`must be an absolute http or https URL, such as "https://wiki.example.com/ledger"`)
	case u.User != nil:
		return errors.New("must have no credentials in it, because everybody who may read the lock can read them: leave out what stands before the @")
	}
	return nil
}
