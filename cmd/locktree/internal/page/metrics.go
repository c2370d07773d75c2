package page

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// This is the text format of Prometheus, version 0.0.4, written by hand. Prometheus' client library keeps counters in the
// program; these values come from a snapshot.

// manyLocks: if there are more locks, idle ones have no series, except jobs and elections, whose idleness can be a problem.
const manyLocks = 5000

// family are the series of one metric.
type family struct {
	name, kind, help string
	lines            []string
}

type families struct {
	order  []*family
	byName map[string]*family
}

// add adds one series; labels alternate between names and values.
func (f *families) add(name, kind, help string, value float64, labels ...string) {
	m := f.byName[name]
	if m == nil {
		m = &family{name: name, kind: kind, help: help}
		f.byName[name], f.order = m, append(f.order, m)
	}
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		b.WriteString([]string{"{", ","}[min(i, 1)])
		b.WriteString(labels[i] + `="` + escapeLabel(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	m.lines = append(m.lines, b.String())
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// escapeLabel also makes control characters and invisible characters visible.
func escapeLabel(s string) string { return labelEscapes.Replace(kind.Visible(s)) }

// exposition returns the metrics. It renders them after news of the board, and otherwise at most once a second. Slow readers
// share the text.
func (b *board) exposition() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.opts.Now()
	if b.metrics != nil && now.Sub(b.measured) < time.Second {
		return b.metrics
	}
	f := &families{byName: map[string]*family{}}
	f.add("locktree_build_info", "gauge", "Version of the program that serves this; the value is always 1.", 1, "version", b.opts.Version)
	for _, s := range b.sources {
		of := stackLabel(s.Stack)
		f.add("locktree_config_last_reload_successful", "gauge", "1 if the last reload of the configuration succeeded.", number(s.Error == ""), of...)
		if s.Read.IsZero() {
			continue
		}
		f.add("locktree_config_last_reload_success_timestamp_seconds", "gauge", "Time at which the active configuration was read.", seconds(s.Read), of...)
		if s.Path != "" {
			f.add("locktree_config_info", "gauge", "Path and fingerprint of the active configuration; the value is always 1.", 1, append(of, "path", s.Path, "fingerprint", s.Fingerprint)...)
		}
	}
	for i := range b.ensembles {
		f.ensemble(&b.ensembles[i], now, b.opts.Interval)
	}
	var out bytes.Buffer
	for _, m := range f.order {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, line := range m.lines {
			fmt.Fprintln(&out, line)
		}
	}
	b.metrics, b.measured = out.Bytes(), now
	return b.metrics
}

// stackLabel is empty if the page shows no stack.
func stackLabel(stack string) []string {
	if stack == "" {
		return nil
	}
	return []string{"stack", stack}
}

func (f *families) ensemble(e *Ensemble, now time.Time, interval time.Duration) {
	en := append([]string{"ensemble", e.Name}, stackLabel(e.Stack)...)
	f.add("locktree_up", "gauge", "1 if the last scan of the ensemble succeeded and is recent.", number(e.isFresh(now, interval) && e.Error == ""), en...)
	f.add("locktree_scan_errors_total", "counter", "Scans that failed.", float64(e.failures), en...)
	if e.Drift != nil {
		c := e.Drift.Summary()
		for i, n := range []int{c.Add, c.Change, c.Destroy} {
			f.add("locktree_drift_changes", "gauge", "Changes that an apply would make.", float64(n), append(en, "action", []string{"add", "change", "destroy"}[i])...)
		}
		f.add("locktree_apply_incomplete", "gauge", "1 while an apply is under way or was interrupted: access lists are still to be set, or locks grant nothing new.", number(isUnfinished(e.Drift)), en...)
	}
	if e.Compare { // also before the first comparison, so that an alert sees that there was none
		f.add("locktree_drift_checked_timestamp_seconds", "gauge", "Time of the last comparison with the configuration; 0 if none has succeeded yet.", seconds(e.DriftAt), en...)
	}
	if e.Checkup != nil {
		value := map[check.Verdict]float64{check.Holds: 1, check.Unsure: 0.5}
		together := lockview.CheckupServer{Conditions: e.Checkup.Together}
		for _, server := range append(slices.Clip(e.Checkup.Servers), together) {
			for _, k := range server.Conditions {
				f.add("locktree_condition", "gauge", "A condition that locks depend on: 1 holds, 0.5 unsure, 0 fails. A series with an empty label server is about all servers together.", value[k.Verdict], append(en, "server", server.Server, "name", k.Name)...)
			}
		}
		count := map[check.Verdict]int{}
		for _, k := range e.Checkup.Locks {
			count[k.Verdict]++
		}
		for _, v := range []check.Verdict{check.Unsure, check.Fails} { // a series for each lock would be too many
			f.add("locktree_lock_conditions", "gauge", "Conditions of single locks that fail or are unsure.", float64(count[v]), append(en, "verdict", v.String())...)
		}
	}
	snap := e.Snapshot
	if snap == nil {
		return
	}
	f.add("locktree_snapshot_age_seconds", "gauge", "Seconds since the snapshot was taken.", now.Sub(snap.At).Seconds(), en...)
	f.add("locktree_scan_duration_seconds", "gauge", "Duration of the last scan.", snap.Took.Seconds(), en...)
	f.add("locktree_scan_reads", "gauge", "Requests of the last scan.", float64(snap.Cost.Reads), en...)
	f.add("locktree_scan_word_bytes", "gauge", "Bytes of the answers to four-letter words in the last scan.", float64(snap.Cost.WordBytes), en...)
	f.add("locktree_scan_pending", "gauge", "Nodes that the last scan left for a later one.", float64(snap.Pending), en...)
	closed := len(lockview.LocksOf{Snapshot: snap}.Closed())
	f.add("locktree_unreadable_nodes", "gauge", "Nodes that could not be read.", float64(closed), en...)
	f.add("locktree_missing_locks", "gauge", "Declared locks that do not exist.", float64(len(snap.Unread)-closed), en...)
	f.add("locktree_deadlock_cycles", "gauge", "Deadlocks: circles of contenders that wait for each other.", float64(len(snap.Waits.Deadlocks)), en...)
	if used, known := check.EpochUsed(snap); known { // no value, rather than a wrong one
		f.add("locktree_zxid_epoch_used_ratio", "gauge", "Share of the transaction ids of this leader's epoch that is used; at 1 a new leader is elected.", used, en...)
	}
	expires := map[string]bool{} // certificates of several authorities may have one name: keep the earliest expiry of each name
	for _, c := range slices.SortedFunc(slices.Values(snap.Certificates), func(a, b check.Certificate) int { return a.Expires.Compare(b.Expires) }) {
		whose := "server"
		if c.Ours {
			whose = "client"
		}
		if name := whose + " " + escapeLabel(c.Subject); !expires[name] {
			expires[name] = true
			f.add("locktree_certificate_expiry_timestamp_seconds", "gauge", "Expiry of a certificate that the connection to ZooKeeper needs: the client's, the server's, or that of a signing authority.",
				seconds(c.Expires), append(slices.Clip(en), "whose", whose, "subject", c.Subject)...)
		}
	}
	f.add("locktree_locks", "gauge", "Locks in the snapshot.", float64(len(snap.Locks)), en...)
	largest := 0
	for _, s := range snap.Sessions {
		largest = max(largest, s.Bytes)
	}
	f.add("locktree_sessions", "gauge", "Client sessions in the snapshot.", float64(len(snap.Sessions)), en...)
	f.add("locktree_session_largest_path_bytes", "gauge", "Bytes of ephemeral paths of the largest session (ZOOKEEPER-4306).", float64(largest), en...)
	f.locks(e, en)
}

func (f *families) locks(e *Ensemble, en []string) {
	snap := e.Snapshot
	labels, told := lockLabels(snap.Locks), map[string]bool{}
	for i, in := range snap.Locks {
		label := escapeLabel(labels[i])
		if told[label] { // if two series have one name, Prometheus drops all of them
			continue
		}
		told[label] = true
		if len(snap.Locks) > manyLocks && !in.Busy() && in.Job == nil && !in.Kind.Kept {
			continue
		}
		_, waiters := lockview.Parties(in)
		l := append(slices.Clip(en), "lock", labels[i], "kind", in.Kind.Name)
		if k := in.Keys; k != nil { // a key has no series of its own: there may be any number of them
			f.add("locktree_family_keys", "gauge", "Keys of the family that are in use.", float64(k.InUse), l...)
			f.add("locktree_family_keys_queues_known", "gauge", "Keys in use whose number of waiters is known.", float64(k.Queues), l...)
			f.add("locktree_family_keys_with_waiters", "gauge", "Keys with waiters, among those whose number is known.", float64(k.Waited), l...)
			f.add("locktree_family_keys_looked_at", "gauge", "Keys in use whose holders were read.", float64(k.Looked), l...)
			f.add("locktree_family_keys_empty", "gauge", "Nodes of keys that had no contender when they were read.", float64(k.Empty), l...)
		} else {
			f.add("locktree_lock_holders", "gauge", "Contenders that hold the lock; of a semaphore, permits held.", float64(len(in.Holders)), l...)
			f.add("locktree_lock_waiters", "gauge", "Contenders that wait.", float64(len(waiters)), l...)
		}
		held, waited := ages(in, snap.At)
		f.add("locktree_lock_oldest_hold_seconds", "gauge", "Time since the grant to the oldest holder, or since it queued if the time of the grant is unknown; of a family, among the keys that were looked at.", held.Seconds(), l...)
		f.add("locktree_lock_oldest_wait_seconds", "gauge", "Time since the oldest waiter queued; of a family, among the keys that were looked at.", waited.Seconds(), l...)
		f.add("locktree_lock_foreign_children", "gauge", "Nodes in the lock that are not contenders.", float64(len(in.Junk)), l...)
		if in.Kind.Permits != nil && in.Payload != nil {
			f.add("locktree_lock_permits", "gauge", "Declared number of permits.", float64(in.Kind.Permits(in.Payload.Params)), l...)
		}
		f.slots(in, snap.At, l)
		f.limits(in, l)
		if in.Kind.Kept {
			f.add("locktree_lock_kept", "gauge", "1 for a lock that should always have a holder: an election.", 1, l...)
		}
	}
}

// slots are the series of a job that runs once for each slot.
func (f *families) slots(in *inspect.Report, at time.Time, l []string) {
	if in.Job == nil {
		return
	}
	outlook, err := in.Slots(at)
	f.add("locktree_once_known", "gauge", "1 if it is known which slots of the job were run.", number(err == nil), l...)
	if err != nil {
		return
	}
	due := 0.0
	if len(outlook.Due) > 0 {
		due = at.Sub(outlook.Due[0]).Seconds()
	}
	f.add("locktree_once_due_seconds", "gauge", "Time since the instant of the oldest due slot; 0 if none is due.", due, l...)
	f.add("locktree_once_missed_slots", "gauge", "Missed slots. Each starts only if a call names it. The count stops at keep, the number of slots that the record can list.", float64(len(outlook.Missed)), l...)
	if !outlook.Next.IsZero() {
		f.add("locktree_once_next_slot_timestamp_seconds", "gauge", "Instant of the next slot.", seconds(outlook.Next), l...)
	}
	run := outlook.Last
	if run == nil {
		return
	}
	state := lockview.RunState(run, in)
	f.add("locktree_once_last_run_failed", "gauge", "1 if the last run that was started has failed, or was lost with its holder.", number(state == "lost" || state == string(slots.Failed)), l...)
	f.add("locktree_once_last_start_timestamp_seconds", "gauge", "When the last run was started, by the clock of the machine that runs it.", seconds(run.Begun()), l...)
	if state != string(slots.Running) && state != "lost" {
		f.add("locktree_once_last_run_seconds", "gauge", "How long the last run took.", run.Duration().Seconds(), l...)
	}
}

func (f *families) limits(in *inspect.Report, l []string) {
	limits := in.Payload.Limits()
	if limits == (kind.Limits{}) {
		return
	}
	f.add("locktree_lock_info", "gauge", "Declared owner and runbook of the lock; the value is always 1.", 1, append(slices.Clip(l), "owner", limits.Owner, "runbook", limits.Runbook)...)
	if most := limits.Hold(); most > 0 {
		f.add("locktree_lock_max_hold_seconds", "gauge", "Declared limit for holding the lock.", most.Seconds(), l...)
	}
	if most := limits.Wait(); most > 0 {
		f.add("locktree_lock_max_wait_seconds", "gauge", "Declared limit for waiting for the lock.", most.Seconds(), l...)
	}
}

// lockLabels name locks by their declared addresses, and by their paths if there is no address, or if two locks have the same.
func lockLabels(locks []*inspect.Report) []string {
	times := map[string]int{}
	out := make([]string, len(locks))
	for i, in := range locks {
		if out[i] = in.Path; in.Payload != nil {
			out[i] = cmp.Or(in.Payload.Owner.Addr, in.Path)
		}
		times[out[i]]++
	}
	for i, in := range locks {
		if times[out[i]] > 1 {
			out[i] = in.Path
		}
	}
	return out
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// seconds are 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
