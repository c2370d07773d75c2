package scan_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// ensemble is an in-memory server behind several addresses. Each address answers the words as a member of an ensemble does.
type ensemble struct {
	srv     *zktest.Server
	members map[string]*memberAt // by address

	mu     sync.Mutex
	dialed map[string]int
	heard  map[string]map[string]bool // what connections sent first: a word, or "session"
}

// memberAt is one address.
type memberAt struct {
	mode    string
	clients []int64 // the sessions that cons lists
	hidden  int     // connections of another port
	forbids []string
	behind  time.Duration // its clock
}

func newEnsemble(t *testing.T, config string) *ensemble {
	e := &ensemble{srv: zktest.Start(t), dialed: map[string]int{}, heard: map[string]map[string]bool{}, members: map[string]*memberAt{
		"zk1:2181": {mode: "follower"}, "zk2:2181": {mode: "leader"}, "zk3:2181": {mode: "follower"}}}
	require.NoError(t, e.srv.Set("/zookeeper/config", []byte(config)))
	harness.Declare(t, e.srv, "/locks/ledger", kind.Mutex.New())
	return e
}

func (e *ensemble) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dialed[addr]++
	at := e.members[addr]
	if at == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	up, err := e.srv.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, server := net.Pipe()
	go e.serve(addr, at, server, up)
	return client, nil
}

func (e *ensemble) serve(addr string, at *memberAt, c, up net.Conn) {
	defer c.Close()
	defer up.Close()
	first := make([]byte, 4)
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	word, isWord := string(first), slices.Contains([]string{"srvr", "cons", "dump"}, string(first))
	e.mu.Lock()
	if e.heard[addr] == nil {
		e.heard[addr] = map[string]bool{}
	}
	said := "session"
	if isWord {
		said = word
	}
	e.heard[addr][said] = true
	e.mu.Unlock()
	if !isWord {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(c, up)
			_ = c.Close()
		}()
		_, _ = up.Write(first)
		_, _ = io.Copy(up, c)
		_ = up.Close()
		<-done
		return
	}
	var b bytes.Buffer
	switch {
	case slices.Contains(at.forbids, word):
		fmt.Fprintf(&b, "%s is not executed because it is not in the whitelist.\n", word)
	case word == "srvr":
		fmt.Fprintf(&b, "Connections: %d\nZxid: 0x5\nMode: %s\n", len(at.clients)+at.hidden+1, at.mode)
	case word == "cons":
		for i, id := range at.clients {
			fmt.Fprintf(&b, " /10.0.0.%d:40822[1](queued=0,recved=2,sent=2,sid=0x%x,lop=PING,est=1,to=30000,lcxid=0x1)\n", i+1, uint64(id))
		}
		b.WriteString(" /10.0.0.9:1[0](queued=0,recved=1,sent=0)\n\n")
	default:
		_, _ = up.Write(first)
		all, _ := io.ReadAll(up)
		b.WriteString(at.dump(string(all)))
	}
	_, _ = c.Write(b.Bytes())
}

// dump is a member's answer: only the leader knows when sessions expire, and each lists its own connections.
func (at *memberAt) dump(all string) string {
	var b strings.Builder
	for line := range strings.Lines(all) {
		before, when, expires := strings.Cut(strings.TrimSuffix(line, ":\n"), " expire at ")
		switch {
		case expires && at.mode == "leader":
			clock, _ := time.Parse(time.UnixDate, when)
			fmt.Fprintf(&b, "%s expire at %s:\n", before, clock.Add(-at.behind).Format(time.UnixDate))
		case expires, strings.HasPrefix(line, "\tip: "):
		case at.mode != "leader" && strings.HasPrefix(line, "\t0x"):
			fmt.Fprintf(&b, "%s\t30000ms\n", strings.TrimSuffix(line, "\n"))
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// holder takes the lock through one member, which lists its session.
func (e *ensemble) holder(t *testing.T, at string) *session.Session {
	s, err := connected(t, false, e.dial, at).Session(t.Context())
	require.NoError(t, err)
	_, err = s.Create(t.Context(), "/locks/ledger/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	e.members[at].clients = []int64{s.ID()}
	return s
}

func (e *ensemble) scanner(t *testing.T, listed ...string) *scan.Scanner {
	return scan.New(connected(t, true, e.dial, listed...), scan.Options{Declared: []string{"/locks/ledger"}})
}

const (
	withClients = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:participant;2181\nserver.3=zk3:2888:3888|z:1:1:observer;zk3:2181\nversion=0"
	oldStyle    = "server.1=zk1:2888:3888:participant\nserver.2=zk2:2888:3888:participant\nserver.3=zk3:2888:3888:participant\nversion=0"
	oneHost     = "server.1=zk1:2888:3888:participant\nserver.2=zk1:2889:3889:participant\nserver.3=zk1:2890:3890:participant\nversion=0"
)

// A holder at a server that is not asked was shown as "not connected; its place is free in about 10s": the named servers counted as all
// servers. The answers depend on the named servers, on the others that these name, on the words that each allows, and on the network.
func TestNobodyIsAwayBeforeEveryServerWasAsked(t *testing.T) {
	all := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	for name, c := range map[string]struct {
		config  string
		listed  []string
		change  func(*ensemble)
		unasked string // servers without a full answer, in order
		why     string
		blind   bool // the holder's address is not known
	}{
		"one named":                             {withClients, all[:1], nil, "", "", false},
		"one named, the leader":                 {withClients, all[1:2], nil, "", "", false},
		"two named":                             {withClients, all[:2], nil, "", "", false},
		"three named":                           {withClients, all, nil, "", "", false},
		"no addresses for clients":              {oldStyle, all[:1], nil, "", "", false},
		"no addresses, two named":               {oldStyle, all[:2], nil, "", "", false},
		"one of three on a host":                {oneHost, all[:1], nil, "a server on zk1|a server on zk1", "name it in servers", true},
		"three on a host, named":                {oneHost, all, nil, "", "", false},
		"no configuration":                      {"", all[:1], nil, "other servers", "/zookeeper/config names 0", true},
		"no configuration, three named":         {"", all, nil, "other servers", "names 0", false},
		"a server out of reach":                 {withClients, all[:1], func(e *ensemble) { delete(e.members, "zk3:2181") }, "zk3:2181", "connection refused", true},
		"a named one out of reach":              {withClients, all, func(e *ensemble) { delete(e.members, "zk3:2181") }, "zk3:2181", "connection refused", true},
		"cons refused by one":                   {withClients, all, func(e *ensemble) { e.members["zk3:2181"].forbids = []string{"cons"} }, "zk3:2181", "it does not allow the word cons", true},
		"cons refused by one that is not named": {withClients, all[:1], func(e *ensemble) { e.members["zk3:2181"].forbids = []string{"cons"} }, "zk3:2181", "cons", true},
		"srvr refused by one":                   {withClients, all, func(e *ensemble) { e.members["zk3:2181"].forbids = []string{"srvr"} }, "zk3:2181", "the word is not allowed", false},
		"another port with TLS":                 {withClients, all, func(e *ensemble) { e.members["zk1:2181"].hidden = 2 }, "zk1:2181", "it lists 1 of its 3 connections", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, c.config)
				held := e.holder(t, "zk3:2181")
				if c.change != nil {
					c.change(e)
				}
				s := e.scanner(t, c.listed...)
				var snap *scan.Snapshot
				for range 3 {
					snap = lookOnce(t, s)
					var unasked []string
					for _, u := range snap.Unasked {
						unasked = append(unasked, u.Server)
						require.Contains(t, u.Why, c.why)
					}
					require.Equal(t, c.unasked, strings.Join(unasked, "|"))
					x := snap.Sessions[held.ID()]
					require.Equal(t, c.blind, x.Address == "")
					require.False(t, x.Away, "it is connected")
				}
				for addr, said := range e.heard {
					require.True(t, !said["session"] || slices.Contains(c.listed, addr) || addr == "zk3:2181", "no session at %s", addr)
				}
				if at := e.members["zk3:2181"]; at != nil {
					at.clients = nil
				}
				for range 2 {
					snap = lookOnce(t, s)
				}
				require.Equal(t, c.unasked == "", snap.Sessions[held.ID()].Away, "it is not known to be connected any more")
			})
		})
	}
}

// A server may name any number of servers, with any text. The scanner asks a bounded number, and passes no control character on.
func TestAServerThatNamesManyServersIsNotFollowedToAllOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var config strings.Builder
		for i := range 200 {
			fmt.Fprintf(&config, "server.%d=10.0.0.%d:2888:3888:participant;2181\n", i, i)
		}
		config.WriteString("server.201=\x1b[31m:1:1;x\nserver.202=" + strings.Repeat("a", 5000) + ":1:1\nserver.=\nserver.203=[::1\nserver.204=;;;\n")
		e := newEnsemble(t, config.String())
		s := e.scanner(t, "zk1:2181")
		for range 20 {
			snap := lookOnce(t, s)
			require.LessOrEqual(t, len(snap.Unasked), 34)
			require.NotContains(t, fmt.Sprint(snap.Unasked, snap.Servers), "\x1b")
		}
		require.LessOrEqual(t, len(e.dialed), 33)
		for addr, n := range e.dialed {
			require.True(t, addr == "zk1:2181" || n <= 2, "two words, and not again soon")
		}
	})
}

// A healthy holder was "silent for 9s; its place is free in about 1s". A leader whose clock was behind by less than a timeout
// seemed not to have heard from it.
func TestALeaderWhoseClockIsBehindMakesNobodySilent(t *testing.T) {
	for _, behind := range []time.Duration{-40, -25, -10, 0, 10, 20, 25, 29, 31, 45, 3600} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, withClients)
			e.members["zk2:2181"].behind = behind * time.Second
			held := e.holder(t, "zk3:2181")
			s := e.scanner(t, "zk1:2181")
			for range 10 {
				x := lookOnce(t, s).Sessions[held.ID()]
				require.False(t, x.Expires.IsZero())
				require.Less(t, x.Silent, 20*time.Second, behind)
				time.Sleep(7 * time.Second)
			}
		})
	}
}

// When the leader stops answering, its last answer is no reason to count down.
func TestWhatALeaderSaidThatDoesNotAnswerAnyMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, withClients)
		held := e.holder(t, "zk3:2181")
		s := e.scanner(t, "zk1:2181")
		require.False(t, lookOnce(t, s).Sessions[held.ID()].Expires.IsZero())
		e.members["zk2:2181"].forbids = []string{"dump"}
		time.Sleep(15 * time.Second)
		require.True(t, lookOnce(t, s).Sessions[held.ID()].Expires.IsZero())
	})
}
