//go:build linux

package interop_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// verdict is what happens to a waiter while a holder holds.
type verdict string

const (
	blocks  verdict = "blocks"  // it waits, and gets the lock when the holder gives it back
	shares  verdict = "shares"  // it is admitted beside the holder, rightly
	ignores verdict = "ignores" // it is admitted beside the holder, wrongly: neither sees the other's contenders
	untried verdict = ""        // cannot meet
)

// grid is a matrix: who holds, who waits, what must happen.
type grid struct {
	recipe  string
	declare func(string) kind.Params
	parties []party
	cells   string // holders down, waiters across, in the order of parties: B, S, I or - for the verdicts
}

// grids are the matrices of recipes with one queue. The semaphore, which has two, has tests of its own.
var grids = []grid{mutexes, rwlocks, elections}

func (g grid) verdict(holder, waiter int) verdict {
	rows := strings.Split(strings.TrimSpace(g.cells), "\n")
	cell := strings.Fields(rows[holder+1])[waiter+1]
	return map[string]verdict{"B": blocks, "S": shares, "I": ignores, "-": untried}[cell]
}

// check keeps the drawing and the parties in step.
func (g grid) check(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(g.cells), "\n")
	require.Len(t, rows, len(g.parties)+1)
	for i, p := range g.parties {
		require.Equal(t, p.name, strings.Fields(rows[0])[i], "column %d", i)
		require.Equal(t, p.name, strings.Fields(rows[i+1])[0], "row %d", i)
		require.Len(t, strings.Fields(rows[i+1]), len(g.parties)+1)
	}
}

// wireOf is the declaration both programs can live with: that of the Go programs among them.
func wireOf(parties ...party) string {
	for _, p := range parties {
		if p.wire != "" {
			return p.wire
		}
	}
	return kind.WireCurator
}

// mutexes is the matrix of one queue with one holder. A stock kazoo client is at home only where the lock is declared
// wire = "kazoo": it neither sees nor is seen by Curator, which the I cells pin down, and which shows that these tests
// can tell exclusion from its absence. ZooKeeper's WriteLock counts whatever has a dash before its number.
var mutexes = grid{
	recipe:  "mutex",
	declare: func(w string) kind.Params { return &kind.MutexParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go", kind.WireCurator, goMutex),
		foreign("curator", java, "mutex"),
		foreign("kazoo-subclass", python, "curator-lock"),
		{name: "go-zookeeper", enter: goZookeeper},
		ours("go-kazoo-wire", kind.WireKazoo, goMutex),
		foreign("kazoo", python, "lock"),
		foreign("kazoo-patterns", python, "patterned"),
		withoutTry(foreign("writelock", java, "writelock")),
	},
	cells: `
	                 go   curator   kazoo-subclass   go-zookeeper   go-kazoo-wire   kazoo   kazoo-patterns   writelock
	go               B    B         B                B              -               I       B                B
	curator          B    B         B                B              B               I       B                B
	kazoo-subclass   B    B         B                B              B               I       B                B
	go-zookeeper     B    B         B                B              B               I       B                B
	go-kazoo-wire    -    I         I                B              B               B       B                I
	kazoo            B    I         I                B              B               B       B                I
	kazoo-patterns   B    I         I                B              B               B       B                I
	writelock        B    I         I                -              B               I       I                -
	`,
}

// rwlocks is the matrix of readers and writers. That readers of either naming scheme share is chance where the rest
// of their row ignores.
var rwlocks = grid{
	recipe:  "rwlock",
	declare: func(w string) kind.Params { return &kind.RWLockParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go-reader", kind.WireCurator, goRead),
		ours("go-writer", kind.WireCurator, goWrite),
		foreign("curator-reader", java, "read"),
		foreign("curator-writer", java, "write"),
		foreign("subclass-reader", python, "curator-read"),
		foreign("subclass-writer", python, "curator-write"),
		ours("gokazoo-reader", kind.WireKazoo, goRead),
		ours("gokazoo-writer", kind.WireKazoo, goWrite),
		foreign("kazoo-reader", python, "read"),
		foreign("kazoo-writer", python, "write"),
	},
	cells: `
	                  go-reader   go-writer   curator-reader   curator-writer   subclass-reader   subclass-writer   gokazoo-reader   gokazoo-writer   kazoo-reader   kazoo-writer
	go-reader         S           B           S                B                S                 B                 -                -                S              I
	go-writer         B           B           B                B                B                 B                 -                -                I              I
	curator-reader    S           B           S                B                S                 B                 S                B                S              I
	curator-writer    B           B           B                B                B                 B                 B                B                I              I
	subclass-reader   S           B           S                B                S                 B                 S                B                S              I
	subclass-writer   B           B           B                B                B                 B                 B                B                I              I
	gokazoo-reader    -           -           S                I                S                 I                 S                B                S              B
	gokazoo-writer    -           -           I                I                I                 I                 B                B                B              B
	kazoo-reader      S           B           S                I                S                 I                 S                B                S              B
	kazoo-writer      B           B           I                I                I                 I                 B                B                B              B
	`,
}

// elections is the matrix of who leads.
var elections = grid{
	recipe:  "election",
	declare: func(w string) kind.Params { return &kind.ElectionParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go", kind.WireCurator, goElection),
		withoutTry(foreign("curator", java, "latch")),
		withoutTry(foreign("kazoo-subclass", python, "curator-election")),
		ours("go-kazoo-wire", kind.WireKazoo, goElection),
		withoutTry(foreign("kazoo", python, "election")),
	},
	cells: `
	                 go   curator   kazoo-subclass   go-kazoo-wire   kazoo
	go               B    B         B                -               I
	curator          B    B         B                B               I
	kazoo-subclass   B    B         B                B               I
	go-kazoo-wire    -    I         I                B               B
	kazoo            B    I         I                B               B
	`,
}
