//go:build linux

package report

const rules = `
Who wrote this wrote locktree, too. A driver is at most 80 lines in ` + "`drivers`" + `: if it does not use its system as its
documentation has it, that is a bug.

A cycle is a lock acquired and released. A wait lasts from the start of an acquisition to its grant, or from when it was due
where arrivals are on a schedule. A wait that has not ended with its sample is in no p99: where who polls keeps a lock from the others,
p99 is of the lucky, and *A lock from hand to hand* has the rest.
The server counts requests and events, each in its own way: Redis counts the commands of a script beside the script, etcd the
messages of a stream; PostgreSQL counts nothing that can be read at once. The kernel counts the processor time of the processes.
*locktree is … times as fast* compares the cycles of one round, or the median waits where arrivals are on a schedule: the
median of all rounds and the range. locktree is asked for the fencing token of every grant; most others have none.
Clients, servers and what injects round trips share the processors of one machine: speeds are of this machine, and are given
as ratios. What is granted is *synchronised* to disk, or *written* to be synchronised later, or in *memory*, as each row says.
A row in which locktree loses stays.
`

const notHere = `Where the table does not say otherwise, ZooKeeper is one server: what a majority adds is not in its figures, and not in those
of etcd, which has one member here. A majority would slow down both; redislock and the databases have none to wait for.
The versions are those of Debian 12, where the server or the library comes from there: newer ones of etcd, PostgreSQL, Redis, Curator
and kazoo may do better. Consul is not here: Debian 12 has no server of it.

*postgres row* is the articles' table with a unique index, in which whoever inserts has the lock: PostgreSQL's manual does not recommend it.
Its row locks (SELECT … FOR UPDATE) end with their transaction, as the advisory lock of a transaction does.
*etcd* tells a watch that begins at an earlier revision what it has missed every 100 ms, and who waits for its mutex begins so: where locks
are kept for a shorter time than that, its contended figures are of this.`

const whenNot = `
## When not to use ZooKeeper locks, or this

- **What the lock protects is in one database.** Use its transactions, row locks or conditional writes. An advisory lock on a
  direct connection is free as soon as its holder dies, deadlocks are found for you, and there is no second system to run.
- **A double grant costs nothing but work.** To fill a cache or send a mail twice is what a Redis lock risks, and
  the tables of speed say what you gain. Do not pay for consensus that nothing depends on.
- **The store can refuse what is stale by itself.** A compare-and-set, a unique index or an idempotency key needs no lock. And
  where it can check nothing, no lock that expires keeps a paused holder from writing: the table of paused holders shows what each did.
- **The lock must be free as soon as its holder dies.** A session outlives its holder by its time to live, tens of seconds as
  usual, and meanwhile nobody works. A database sees a connection end at once. A shorter time to live ends sessions in every long pause.
- **A process must not lose all its locks at once.** They share one session: when it ends, all of them do.
- **You do not run ZooKeeper yet.** Three servers, their disks and their upgrades for a few locks are a bad bargain. In Kubernetes
  its leases or etcd are already there.
- **Thousands of grants a second of one lock.** Each is some writes to a majority's disks, whoever asks for it. Partition the
  work, give it one owner by an election, or put it in a queue.
- **The work under the lock is shorter than its grant.** A lock in memory is granted in a fraction of the time, as every table of speed
  shows. If the lock is there for speed, it costs more than it saves.
- **The program must go on when a majority of the servers is away.** Nothing is granted then, and holders lose what they have.
- **Locks of a few milliseconds across regions.** A grant takes a round trip to the leader and one from it to a majority.
- **A lock a row, with millions of rows.** Each is a node in the memory of every server. Lock stripes of them.
- **Java or Python.** Curator and kazoo are what others know there. locktree contends with both for the same locks; it does not
  replace them.
- **A lock that nobody needs to review, in Go, today.** locktree is young, and its interfaces may change. etcd's package concurrency is
  used by many more programs, and go-zookeeper's Lock is a file of 160 lines that you can read: without a token, and with nothing but the
  session's events to tell its holder of a loss.
`
