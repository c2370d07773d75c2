//go:build linux

package report

const rules = `
The authors of this comparison also wrote locktree. Each driver is at most 80 lines in ` + "`drivers`" + `: if it does not use its
system as that system's documentation recommends, that is a bug.

A cycle is one acquisition and release of a lock. A wait lasts from the start of an acquisition to its grant; where arrivals are
on a schedule, it starts at the scheduled time. No p99 includes a wait that had not ended with its sample. So where pollers keep
a lock from the others, p99 shows only the lucky ones; *A lock from hand to hand* shows the rest.
Each server counts its requests and events in its own way: Redis counts a script and also the commands in it, etcd counts the
messages of a stream, and PostgreSQL has no counter that can be read at once. The kernel counts the processor time of the processes.
*locktree is … times as fast* compares the cycles of one round, or the median waits where arrivals are on a schedule, and shows
the median of all rounds and the range. Every grant of locktree includes reading its fencing token; most others have none.
Clients, servers and the program that injects round trips share the processors of one machine: speeds depend on this machine, and
are given as ratios. Each row says whether a grant is *synchronised* to disk, *written* to be synchronised later, or in *memory*.
Rows in which locktree loses are kept.
`

const notHere = `Unless the table says otherwise, ZooKeeper runs as one server, and etcd has one member: their figures do not include
the cost of a majority, which would slow down both. redislock and the databases have no majority to wait for.
Servers and libraries that Debian 12 contains have its versions: newer versions of etcd, PostgreSQL, Redis, Curator and kazoo may
do better. Consul is missing because Debian 12 has no Consul server.

*postgres row* is the table with a unique index that the articles use: the client whose insert succeeds has the lock. PostgreSQL's
manual does not recommend it. PostgreSQL's row locks (SELECT … FOR UPDATE) end with their transaction, as the advisory lock of a
transaction does. *etcd* checks only every 100 ms what a watch that begins at an earlier revision has missed, and the waiters for
its mutex use such a watch: where locks are kept for a shorter time than that, this delay determines its contended figures.`

const whenNot = `
## When not to use ZooKeeper locks, or this

- **What the lock protects is in one database.** Use its transactions, row locks or conditional writes. An advisory lock on a
  direct connection is free as soon as its holder dies, deadlocks are found for you, and there is no second system to run.
- **A double grant costs only extra work.** With a Redis lock you risk filling a cache twice or sending a mail twice, and the
  tables of speed show what you gain. Do not pay for consensus that nothing depends on.
- **The store itself can refuse stale writes.** A compare-and-set, a unique index or an idempotency key needs no lock. And if the
  store can check nothing, no lock that expires keeps a paused holder from writing: the table of paused holders shows what each did.
- **The lock must be free as soon as its holder dies.** A session outlives its holder by its time to live, usually tens of seconds,
  and nobody works meanwhile. A database sees a connection end at once. With a shorter time to live, every long pause ends a session.
- **A process must not lose all its locks at once.** They share one session: when it ends, all of them end.
- **You do not run ZooKeeper yet.** Three servers, their disks and their upgrades are a high price for a few locks. Kubernetes
  already has leases and etcd.
- **You need thousands of grants a second of one lock.** Each grant takes several writes to a majority's disks. Partition the
  work, give it one owner by an election, or put it in a queue.
- **The work under the lock is shorter than its grant.** A lock in memory is granted in a fraction of the time, as every table of speed
  shows. If the lock is there for speed, it costs more than it saves.
- **The program must go on while a majority of the servers is unavailable.** Nothing is granted then, and holders lose their locks.
- **You need locks of a few milliseconds across regions.** A grant takes a round trip to the leader and one from it to a majority.
- **You need one lock per row, for millions of rows.** Each is a node in the memory of every server. Lock groups of rows instead.
- **You write Java or Python.** Curator and kazoo are the libraries that people know there. locktree contends with both for the
  same locks; it does not replace them.
- **You need a lock in Go today that nobody has to review.** locktree is young, and its interfaces may change. Many more programs use
  etcd's package concurrency, and go-zookeeper's Lock is a file of 160 lines that you can read. But it has no token, and only the
  session's events tell its holder of a loss.
`
