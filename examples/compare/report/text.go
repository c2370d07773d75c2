//go:build linux

package report

const rules = `
A cycle is a lock acquired and released.
A wait lasts from the start of an acquisition to its grant, or from when it was due where arrivals are on a schedule.
The server counts requests and events; the kernel counts the processor time of the processes.
*locktree is … times as fast* compares the cycles of one round, or the median waits where arrivals are on a schedule: the
median of all rounds and the range. locktree is asked for the fencing token of every grant; most others have none.
Clients, servers and what injects round trips share the processors of one machine: speeds are of this machine, and are given
as ratios. What is granted is *synchronised* to disk, or *written* to be synchronised later, or in *memory*, as each row says.
A row in which locktree loses stays.
`

const notHere = `Where the table does not say otherwise, ZooKeeper is one server: what a majority adds is not in its figures, and not in those
of etcd, which has one member here. Consul is not here: Debian 12 has no server of it.`

const whenNot = `
## When not to use ZooKeeper locks, or this

- **What the lock protects is in one database.** Use its transactions, row locks or conditional writes. An advisory lock on a
  direct connection is free as soon as its holder dies, deadlocks are found for you, and there is no second system to run.
- **A double grant costs nothing but work.** To fill a cache or send a mail twice is what a Redis lock risks, and
  the tables of speed say what you gain. Do not pay for consensus that nothing depends on.
- **The store can refuse what is stale by itself.** A compare-and-set, a unique index or an idempotency key needs no lock. And
  where it can check nothing, no lock that expires keeps a paused holder from writing: the table of paused holders shows what each did.
- **You do not run ZooKeeper yet.** Three servers, their disks and their upgrades for a few locks are a bad bargain. In Kubernetes
  its leases or etcd are already there.
- **Thousands of grants a second of one lock.** Each is some writes to a majority's disks, whoever asks for it. Partition the
  work, give it one owner by an election, or put it in a queue.
- **The program must go on when a majority of the servers is away.** Nothing is granted then, and holders lose what they have.
- **Locks of a few milliseconds across regions.** A grant takes a round trip to the leader and one from it to a majority.
- **A lock a row, with millions of rows.** Each is a node in the memory of every server. Lock stripes of them.
- **Java or Python.** Curator and kazoo are what others know there. locktree contends with both for the same locks; it does not
  replace them.
- **A lock that nobody needs to review, in Go, today.** locktree is young. etcd's package concurrency is used by many more
  programs, and the tables say where go-zookeeper's Lock sends fewer requests, at the price that its holder is told nothing.
`
