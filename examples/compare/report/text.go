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
