package view

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// Explain says what an error means: what failed, where, why, and what to do
// next. An error it does not know is shown with its own text.
func Explain(err error) hcl.Diagnostics {
	summary, detail, addr := explain(err)
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail, Extra: Address(addr)}}
}

const (
	nothingWritten = "Nothing was written."
	credentialsAre = "The credentials are an auth block of the ensemble, or ZOOKEEPER_USERNAME and ZOOKEEPER_PASSWORD."
	planAgain      = "Run \"locktree plan\" to see how it stands, and apply that."
)

// inner is what an error within another says, without its own last words on what was
// written and what to do, which are the other's.
func inner(err error) string {
	summary, detail, _ := explain(err)
	if detail == "" {
		detail = full(summary)
	}
	detail = strings.TrimSuffix(detail, planAgain)
	for _, said := range []string{nothingWritten, strings.TrimSuffix(nothingWritten, ".") + ":"} {
		if before, after, ok := strings.Cut(detail, said); ok {
			detail = before + upperFirst(strings.TrimSpace(after))
		}
	}
	return strings.TrimSpace(detail)
}

func explain(err error) (summary, detail, addr string) {
	var some *SomeEnsembles
	if errors.As(err, &some) {
		_, _, addr = explain(some.Err)
		return "Only some of the ensembles were changed", some.text(), addr
	}
	var closed *apply.ClosedError
	var partial *apply.PartialError
	if errors.As(err, &closed) && !errors.As(err, &partial) { // which says it within
		return closedText(closed)
	}
	if interrupted(err) {
		return "Interrupted", "The command was stopped before it was done. \"locktree plan\" shows what is left to do.", ""
	}
	var denied *Denied
	if errors.As(err, &denied) {
		if summary, detail, addr = explain(denied.Err); detail == "" { // the library's own words, which are long
			summary, detail = "ZooKeeper refused a request", full(summary)
		}
		return summary, strings.TrimSpace(detail + "\n\n" + denied.text(detail)), addr
	}
	var busy *BusyImport
	if errors.As(err, &busy) {
		summary, detail, addr = explain(busy.Err)
		return summary, detail + "\n\nA node is made anew when it is imported, because it may be a container. A new plan imports it as it is while it is in use.", addr
	}
	if s, d, a, ok := explainApply(err); ok {
		return s, d, a
	}
	if s, d, ok := explainFile(err); ok {
		return s, d, ""
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure.Summary, failure.Detail, ""
	case errors.Is(err, recipes.ErrUnreachable):
		return "Cannot reach ZooKeeper", full(strings.TrimPrefix(Sentence(err), "ZooKeeper unreachable: ")) +
			"\n\nCheck that these servers run, and that this machine reaches them. The ensemble block names them, or ZOOKEEPER_SERVERS; its connect_timeout says how long is waited, and its tls block or ZOOKEEPER_TLS_ENABLED that the connection is encrypted.", ""
	case errors.Is(err, recipes.ErrAuth):
		return "ZooKeeper refused the authentication", full(Sentence(err)) + " " + credentialsAre, ""
	}
	head, rest, _ := strings.Cut(Sentence(err), "\n")
	return head, strings.TrimSpace(rest), ""
}

// interrupted also holds for the engine's errors that say no more than that the
// command was stopped; not for those that say what was committed by then.
func interrupted(err error) bool {
	var acl *apply.ACLPhaseError
	var unknown *apply.UnknownError
	var partial *apply.PartialError
	var verify *apply.VerifyError
	return errors.Is(err, context.Canceled) && !errors.As(err, &acl) && !errors.As(err, &unknown) && !errors.As(err, &partial) && !errors.As(err, &verify)
}

// Sentence is an error's text without the name of the package that made it.
func Sentence(err error) string { return unprefixed(err.Error()) }

// full makes a sentence of an error's text: errors start small and end open,
// because they may be put into others.
func full(text string) string {
	if text == "" {
		return ""
	}
	return upperFirst(strings.TrimSuffix(text, ".")) + "."
}

func upperFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// unprefixed takes away the names of packages that errors begin with, also those of errors inside of errors.
func unprefixed(text string) string { return prefixes.ReplaceAllString(text, "$1") }

// prefixes stand where an error begins: "lock is of another kind: /t/ledger" keeps its word.
var prefixes = regexp.MustCompile(`(^|: |; |\(|\n)(?:(?:recipes|kind|plan|apply|zk): )+`)

// explainApply knows what can go wrong during a read or an apply.
func explainApply(err error) (summary, detail, addr string, ok bool) {
	var (
		problems *apply.ProblemsError
		stale    *apply.StaleError
		locked   *apply.LockedError
		inUse    *apply.InUseError
		conflict *apply.ConflictError
		large    *apply.TooLargeError
		partial  *apply.PartialError
		acl      *apply.ACLPhaseError
		node     *apply.NodeError
		unknown  *apply.UnknownError
		verify   *apply.VerifyError
		moved    *apply.MovedError
	)
	// What was committed comes first: these have others of them within.
	switch {
	case errors.As(err, &partial):
		next := "The next one was not"
		if errors.As(err, &unknown) {
			next = "Nobody can say whether the next one was"
		}
		return "Only a part of the plan was applied", fmt.Sprintf("%d of %d transactions were committed. %s: %s\n\nWhat is there is whole. %s",
			partial.Done, partial.Total, next, inner(partial.Err), planAgain), "", true
	case errors.As(err, &problems) && len(problems.Problems) > 0:
		p := problems.Problems[0]
		return p.Summary, p.Detail, p.Addr, true
	case errors.As(err, &stale) && stale.Locked:
		return "ZooKeeper was changed during the apply", "Somebody changed it by hand after the plan was made:\n" + differences(stale.Differences) +
			"\n\n" + nothingWritten + " Apply again: the new plan shows it.", "", true
	case errors.As(err, &stale):
		return "Saved plan is stale", "The plan can no longer be applied, because ZooKeeper was changed after it was made:\n" + differences(stale.Differences) +
			"\n\n" + nothingWritten + " Make a new plan and apply that.", "", true
	case errors.As(err, &locked):
		return "Error acquiring the apply lock", lockedText(locked), "", true
	case errors.As(err, &inUse):
		return "Lock is in use", inUseText(inUse), inUse.Addr, true
	case errors.As(err, &acl) && acl.Done == acl.Total:
		return "A note about access lists is left", fmt.Sprintf("The transaction was committed, and all %d access lists of existing nodes were set. That they are to be set is still noted in ZooKeeper, where it could not be taken away: %s\n\nThe note does no harm: the next apply that changes anything takes it away.",
			acl.Total, inner(acl.Err)), "", true
	case errors.As(err, &acl):
		return "Access lists are only partly set", fmt.Sprintf("The transaction was committed, and %d of %d access lists of existing nodes were set. Then: %s\n\nThe rest is noted in ZooKeeper: \"locktree plan\" shows it, and the next apply finishes it.",
			acl.Done, acl.Total, inner(acl.Err)), "", true
	case errors.As(err, &unknown):
		return "Nobody can say whether the transaction was committed", fmt.Sprintf("The connection was lost while it was sent, and it could not be found out afterwards: %s.\n\nIt was committed wholly or not at all; the apply's id is %s. Run \"locktree plan\" when ZooKeeper is reachable again: it shows what is left to do.",
			strings.TrimSuffix(strings.ReplaceAll(Sentence(unknown.Err), "\n", "; "), "."), unknown.ApplyID), "", true
	case errors.As(err, &verify) && verify.Err != nil:
		return "The transaction was committed, but could not be read back", inner(verify.Err) +
			"\n\nRun \"locktree plan\" to see how it stands.", "", true
	case errors.As(err, &verify):
		return "ZooKeeper does not hold what was written", "The transaction was committed, but reading it back showed something else:\n" + differences(verify.Differences) +
			"\n\nSomebody changed it at the same moment. Run \"locktree plan\" to see how it stands.", "", true
	case errors.As(err, &conflict):
		return "ZooKeeper was changed during the apply", fmt.Sprintf("%s (%s) was verified, and then %s.\n\n%s %s",
			nameOr(conflict.Addr, "The index"), conflict.Path, conflict.Why, nothingWritten, planAgain), conflict.Addr, true
	case errors.As(err, &large) && large.Refused:
		return "The servers take no transaction of this size", fmt.Sprintf("%s was sent as %d operations and %d bytes, and the servers ended the connection each time, as they do with requests longer than their jute.maxbuffer.\n\nIt was not applied. Set jute.maxbuffer to 1 MiB, the default, on all servers.",
			nameOr(large.Addr, "The index"), large.Ops, large.Bytes), large.Addr, true
	case errors.As(err, &large):
		return "The change is too large for one transaction", fmt.Sprintf("%s takes %d operations and %d bytes at one moment; at most %d are sent, as a ZooKeeper server reads no more than 1 MiB.\n\n%s Shorten what is declared, most often an access list.",
			nameOr(large.Addr, "The index"), large.Ops, large.Bytes, large.Limit, nothingWritten), large.Addr, true
	case errors.As(err, &node):
		return nodeText(node)
	case errors.As(err, &moved):
		return "The tree does not hold still", fmt.Sprintf("The index %s changed during each of %d reads: other applies of this stack are under way. Run the command again when they are done.",
			moved.Path, moved.Tries), "", true
	}
	return "", "", "", false
}

// closedText is what the error within says, and that locks are shut meanwhile: others notice
// that before whoever applied does.
func closedText(e *apply.ClosedError) (summary, detail, addr string) {
	summary, _, addr = explain(e.Err)
	detail = inner(e.Err) + "\n\nWhat was being drained could not be opened again, so nobody new gets in: " + e.Left() + "."
	if e.Why != nil {
		detail += " " + inner(e.Why)
	}
	return summary, detail + "\n\nRun \"locktree apply\" again: it opens what is declared, and finishes with what is to go.", addr
}

func nameOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

func nodeText(e *apply.NodeError) (summary, detail, addr string, ok bool) {
	where := e.Path
	if e.Addr != "" {
		where = e.Addr + " (" + e.Path + ")"
	}
	detail = fmt.Sprintf("%s: %s.", where, strings.TrimSuffix(unprefixed(e.Why), "."))
	if e.Next != "" {
		detail += "\n\n" + full(unprefixed(e.Next))
	}
	switch e.Op {
	case "lock":
		return "Cannot keep others from applying", detail, e.Addr, true
	case "apply to":
		return "No administrator", detail, e.Addr, true
	case "commit to":
		return "The transaction was not committed", detail, e.Addr, true
	}
	return "ZooKeeper refused to " + e.Op + " a node", detail, e.Addr, true
}

func differences(list []apply.Difference) string {
	var b strings.Builder
	const few = 3 // of those to which the same happened
	happened := map[string]int{}
	for _, d := range list {
		if happened[d.What]++; happened[d.What] > few {
			continue
		}
		fmt.Fprintf(&b, "\n  - %s (%s): %s", nameOr(d.Addr, "the stack's index"), d.Path, d.What)
		if !d.Want.Absent && !d.Got.Absent && d.Want.Version != d.Got.Version {
			fmt.Fprintf(&b, ", data version %d -> %d", d.Want.Version, d.Got.Version)
		}
		if d.ModifiedMs > 0 {
			fmt.Fprintf(&b, ", at %s by the server's clock", time.UnixMilli(d.ModifiedMs).UTC().Format(time.RFC3339))
		}
	}
	for _, what := range sortedKeys(happened) {
		if more := happened[what] - few; more > 0 {
			fmt.Fprintf(&b, "\n  - %d more: %s", more, what)
		}
	}
	return b.String()
}

func lockedText(e *apply.LockedError) string {
	text := "Another apply of this stack is under way, and its lock was not free"
	if e.Waited >= time.Second {
		text += " within " + e.Waited.Round(time.Second).String()
	}
	text += ".\n\n"
	if e.Info != nil {
		text += lockInfo(e.Info) + "\n\n"
	} else {
		text += "The lock is " + e.Path + ".\n\n"
	}
	return text + nothingWritten + " The lock belongs to a session: it goes by itself when that apply ends, whatever becomes of it. Wait for it with -lock-timeout=2m."
}

// lockInfo is the block people know from Terraform.
func lockInfo(i *apply.LockInfo) string {
	return fmt.Sprintf("Lock Info:\n  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       %s\n  Version:   %s\n  Created:   %s\n  Info:      %s",
		i.ID, i.Path, i.Operation, i.Who, i.Version, i.Created.UTC().Format("2006-01-02 15:04:05 UTC"), i.Info)
}

func inUseText(e *apply.InUseError) string {
	what := "destroyed"
	switch e.Action {
	case plan.Replace:
		what = "replaced"
	case plan.Update:
		what = "moved"
	}
	text := fmt.Sprintf("%s (%s) cannot be %s while it is used", nameOr(e.Addr, "The lock"), e.Path, what)
	if e.Usage.Busy() {
		text += ":\n"
		for _, h := range e.Usage.Holders {
			text += "\n  - held by " + holderText(h, 0)
		}
		for _, h := range e.Usage.Waiters {
			text += "\n  - waited for by " + holderText(h, 0)
		}
		for _, junk := range e.Usage.Junk {
			text += "\n  - foreign child " + clean(junk)
		}
	} else {
		text += "."
	}
	if e.Others > 0 {
		text += fmt.Sprintf("\n\n%d more %s in use.", e.Others, plural(e.Others, "lock of this plan is", "locks of this plan are"))
	}
	or := ""
	if e.Reason == plan.ReasonReplaceACL {
		or = ` Or take acl_change = "replace" out of its lifecycle block, to have its access list set without waiting.`
	}
	return text + "\n\n" + nothingWritten + " Run the command again when it is idle; \"locktree status\" shows who uses it." + or
}

// explainFile knows what can be wrong with a saved plan.
func explainFile(err error) (summary, detail string, ok bool) {
	var (
		truncated *plan.TruncatedError
		damaged   *plan.DamagedError
		version   *plan.VersionError
		stack     *plan.StackError
	)
	text := full(Sentence(err))
	switch {
	case errors.Is(err, plan.ErrNotPlan):
		return "Not a plan file", text + "\n\nA plan file is what \"locktree plan -out FILE\" writes.", true
	case errors.As(err, &truncated):
		return "The plan file is cut off", text, true
	case errors.As(err, &damaged) && damaged.What == "plan file":
		next := nothingWritten
		if damaged.Field != "" { // else the error itself says so
			next += " Make a new plan."
		}
		return "The plan file is damaged", full(strings.TrimPrefix(text, "Damaged plan file: ")) + "\n\n" + next, true
	case errors.As(err, &version):
		return "Written by a newer locktree", text, true
	case errors.As(err, &stack):
		return "Saved plan is of another stack", text, true
	}
	return "", "", false
}
