// Package prom provides Prometheus metrics of the recipes that a program uses.
//
//	locks := prom.New()
//	prometheus.MustRegister(locks)
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: servers, Observer: locks.Observe})
//	...
//	http.Handle("/metrics", promhttp.Handler())
//
// One Observer serves all Clients of one ensemble. A program that uses several ensembles needs an Observer for each, and
// distinguishes them by a label: prometheus.WrapRegistererWith(prometheus.Labels{"ensemble": "eu"}, reg).MustRegister(locks).
//
// # Metrics
//
//	locktree_acquire_seconds{lock,kind,result}  histogram  calls by how long they took, until a lease or an error was returned
//	locktree_acquire_contended_total{lock}      counter    calls that had to wait
//	locktree_hold_seconds{lock,kind,end}        histogram  leases by how long they were held; end is released or lost
//	locktree_waiting{lock}                      gauge      calls that wait now
//	locktree_held{lock,kind}                    gauge      leases that are held now
//	locktree_leader{lock}                       gauge      for an election: 1 while this program leads, else 0
//	locktree_lost_total{lock,reason}            counter    leases that ended before they were released
//	locktree_sessions{state}                    gauge      sessions that are not lost; state is active or suspect
//	locktree_sessions_lost_total                counter    sessions that were lost, other than by Client.Close
//	locktree_heartbeat_seconds                  histogram  heartbeats by how long the servers took to commit them
//	locktree_label_overflow_total               counter    events counted under lock="other": the program has more locks than WithMaxLocks
//
// result is one of
//
//   - acquired: a lease was returned
//   - timeout: the context's deadline, or WithMaxWait, passed
//   - cancelled: the context ended for another reason
//   - held: a Try found the lock held or asked for, by another contender or by another goroutine of its own Client
//   - quota: the queue, the session or a quota is full, or the server sheds load
//   - unreachable: the servers could not be reached when the call gave up, whoever holds the lock
//   - error: anything else, for example a lock that is draining or not provisioned, or a session that was lost
//
// reason is session (expired, or not proven in time), deleted (another program deleted the node) or other.
//
// A MultiLock counts once for each member, with kind="multilock". Entering a lock again (WithReentrancy) is not counted. A call
// counts as waiting while another contender in the queue, or another goroutine of its Client, is ahead of it.
//
// A Client sends heartbeats while it holds a lock. It also sends them while it is the first waiter of a mutex or of a job. Heartbeats
// become slow before locks are lost.
//
// A Client has one session at a time, and no session from a loss until the next session is granted. The session is suspect while
// nothing proves that it is alive: no connection, no answer or, while it holds something, no committed write. Otherwise it is
// active. So without an outage locktree_sessions{state="suspect"} is 0, and sum(locktree_sessions) is the number of Clients,
// without the Clients with Config.Lazy that were not used yet.
//
// The histograms have classic buckets for every server, and native ones for a Prometheus that scrapes native histograms.
//
// # The label
//
// lock is the path of the lock. Each value costs about 45 time series in the server, so programs that generate paths should
// replace the part that varies, see [WithLabel]. After 1,000 values (see [WithMaxLocks]) new ones are counted together as
// "other", and locktree_label_overflow_total grows.
//
// # What it costs
//
// The metrics are counted on the goroutine that the Client has for its Observer: no lock waits for them or for a scrape.
package prom
