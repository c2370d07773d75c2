//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

const tooLong = "LocktreeLongerThanDeclared"

// A crash. The lock comes free by itself, when the page and the commands said it would.
func killed(i *incident) {
	path := "/shop/killed"
	holder := curator(i.t, i.classes, i.connect, "biller", 20*time.Second)
	node := holder.holds("mutex", path)
	next := i.behind("next", path, 1)
	i.begins("page")
	require.NoError(i.t, holder.cmd.Process.Kill())
	require.LessOrEqual(i.t, i.page("page", path, "biller", "connected to no server that was asked; if it is gone, its place is free in about"), atOnce)
	i.shown(tooLong, "held by +biller.* connected to no server", "status", path)
	s := i.seen(path).Holders[0]
	require.Equal(i.t, node, s.Node)
	require.Equal(i.t, kind.CutOff, s.Connection)
	require.True(i.t, s.SessionExpires.After(time.Now()))
	i.fires(tooLong, "lock", "mutex.killed", "limit", "max_wait", "owner", "shop@example.com")
	require.Equal(i.t, within(i.t, next).Node(), i.seen(path).Holders[0].Node)
}

// SIGSTOP: the process and its connection still exist.
func paused(i *incident) {
	path := "/shop/paused"
	holder := kazoo(i.t, i.connect, "importer", 40*time.Second)
	node := holder.holds("curator-lock", path)
	next := i.behind("next", path, 1)
	i.begins("page")
	require.NoError(i.t, holder.cmd.Process.Signal(syscall.SIGSTOP))
	require.Equal(i.t, kind.Connected, i.seen(path).Holders[0].Connection, "which it still is")
	i.fires(tooLong, "lock", "mutex.paused", "limit", "max_hold")
	i.page("page", path, "importer", "127.0.0.1:", "silent for", "unless it comes back")
	i.shown(tooLong, "held by +importer.*127.* silent for", "status", path)
	s := i.seen(path).Holders[0]
	require.Equal(i.t, kind.Silent, s.Connection)
	require.Equal(i.t, node, s.Node)
	out := i.typed(tooLong, "break", path, "-auto-approve", "-message=paused")
	require.Contains(i.t, out, "Its token was "+fmt.Sprint(s.Token)+", and its program may still run.")
	require.Equal(i.t, within(i.t, next).Node(), i.seen(path).Holders[0].Node)
	require.Regexp(i.t, `(?s)break .*"paused"`, i.typed(tooLong, "history"))
	require.NoError(i.t, holder.cmd.Process.Signal(syscall.SIGCONT))
	require.NotEmpty(i.t, holder.must("hello"), "it does run")
}

// The holder's packets vanish. It stops by itself before another client gets the lock.
func partitioned(i *incident) {
	path := "/shop/parted"
	l, err := i.courier.Mutex(path).Lock(i.t.Context())
	require.NoError(i.t, err)
	next := i.behind("next", path, 1)
	i.metrics.scraped(len(i.pages) + 3)
	i.begins("page")
	i.couriers.set(lossy)
	i.page("page", path, "courier", "127.0.0.1:", "silent for", "unless it comes back")
	i.shown("LocktreeLostLocks", "held by +courier.*127.* silent for", "status", path)
	within(i.t, l.Context().Done())
	require.ErrorIs(i.t, context.Cause(l.Context()), recipes.ErrLost)
	i.fires("LocktreeLostLocks", "lock", path, "reason", "session")
	require.Equal(i.t, within(i.t, next).Node(), i.seen(path).Holders[0].Node)
	i.typed("LocktreeLostLocks", "doctor") // finds nothing wrong with the servers
}

// The holder is alive, connected, and does nothing. It does not obey a revoke.
func stuck(i *incident) {
	path := "/shop/stuck"
	holder := curator(i.t, i.classes, i.connect, "report", 40*time.Second)
	holder.holds("mutex", path)
	next := i.behind("next", path, 1)
	i.begins("page")
	i.page("page", path, "report", "connected", "has held it for", "max_hold is 2s", "shop@example.com")
	i.fires(tooLong, "lock", "mutex.stuck", "limit", "max_hold", "owner", "shop@example.com")
	i.shown(tooLong, "held by +report.* connected", "status", path)
	i.shown(tooLong, "limits +max_hold 2s exceeded .*max_wait 2s exceeded", "status", path)
	before := i.seen(path).Holders[0]
	require.Equal(i.t, kind.Connected, before.Connection)
	i.typed(tooLong, "revoke", path, "-auto-approve")
	require.Equal(i.t, before.Node, i.seen(path).Holders[0].Node, "it does not obey")
	i.typed(tooLong, "break", path, "-auto-approve", "-message=stuck")
	require.Equal(i.t, within(i.t, next).Node(), i.seen(path).Holders[0].Node)
	require.NotEmpty(i.t, holder.must("hello"), "and nobody has stopped it")
	require.Regexp(i.t, `(?s)break .*"stuck".*revoke `, i.typed(tooLong, "history"))
}

// Curator holds one lock and waits for the other; kazoo the other way round.
func deadlock(i *incident) {
	const carts, stock = "/shop/carts", "/shop/stock"
	java, python := curator(i.t, i.classes, i.connect, "checkout", 40*time.Second), kazoo(i.t, i.connect, "restock", 40*time.Second)
	java.holds("mutex", carts)
	python.holds("curator-lock", stock)
	goesOn := java.waits("mutex", stock)
	i.queued(stock, 2)
	i.begins("page")
	python.waits("curator-lock", carts)
	i.queued(carts, 2)
	require.LessOrEqual(i.t, i.page("page", "deadlock", "checkout", "restock", carts, stock), atOnce)
	i.fires("LocktreeDeadlock", "ensemble", "main", "instance", "page")
	out := i.typed("LocktreeDeadlock", "status")
	i.status(out, "deadlock: ")
	for _, half := range []string{"checkout holds " + carts + " and waits for " + stock, "restock holds " + stock + " and waits for " + carts} {
		require.Contains(i.t, out, half)
	}
	i.named("LocktreeDeadlock", "status -servers")
	require.Contains(i.t, i.must("status", "-servers", i.connect, "-prefix", "/"), "deadlock: ")
	i.typed("LocktreeDeadlock", "break", stock, "-holder=restock", "-auto-approve", "-message=deadlock")
	require.Contains(i.t, within(i.t, goesOn), "ok ")
	require.NotContains(i.t, i.must("status"), "deadlock: ")
	i.silent("LocktreeDeadlock")
}

// The leader's machine goes away, while a candidate waits that Prometheus sees.
func leaderLost(i *incident) {
	path := "/shop/boss"
	_, err := i.leader.Election(path).Campaign(i.t.Context())
	require.NoError(i.t, err)
	next := make(chan error, 1)
	go func() {
		_, err := i.deputy.Election(path).Campaign(i.t.Context())
		next <- err
	}()
	i.queued(path, 2)
	third := kazoo(i.t, i.connect, "third", 40*time.Second)
	third.waits("curator-election", path)
	i.queued(path, 3)
	i.metrics.scraped(len(i.pages) + 3)
	require.Empty(i.t, i.firing("LocktreeLeaderless"))
	i.begins("page")
	i.leaders.set(refused)
	require.LessOrEqual(i.t, i.page("page", path, "leader", "connected to no server that was asked"), atOnce)
	i.shown("LocktreeLeaderless", "held by +leader.* connected to no server", "status")
	i.fires("LocktreeLeaderless", "lock", path)
	require.NoError(i.t, within(i.t, next))
	require.Equal(i.t, "deputy", i.seen(path).Holders[0].ID)
	require.Equal(i.t, "third", i.seen(path).Waiters[0].ID)
	i.silent("LocktreeLeaderless")
}

// The page and the commands have a password that is not the present one.
func wrongPassword(i *incident) {
	wrong := []string{"ZOOKEEPER_PASSWORD=wrong"}
	i.opens("wrong", wrong...)
	require.LessOrEqual(i.t, i.page("wrong", "unreadable", "/shop/ledger", "ZooKeeper accepts a wrong digest password"), atOnce)
	i.fires("LocktreeNotSeen", "instance", "wrong")
	i.named("LocktreeNotSeen", "doctor")
	out, code := i.run(wrong, "status")
	require.Equal(i.t, 1, code)
	i.status(out, "Check the user name and the password first")
	out, code = i.run(wrong, "doctor")
	require.Equal(i.t, 1, code)
	i.status(out, "identity: .* our password differs from theirs")
	_, err := member(i.t, recipes.Config{Servers: strings.Split(i.connect, ","), Auth: []recipes.Auth{{Scheme: "digest", Credentials: "platform:wrong"}}}).Mutex("/shop/ledger").Lock(i.t.Context())
	require.ErrorContains(i.t, err, "ZooKeeper accepts a wrong digest password", "and so is a program told")
}

// The certificate of the page and the commands expired yesterday.
func expiredCertificate(i *incident) {
	i.opens("expired", i.expired...)
	const says = "our certificate, of CN=expired, expired on "
	i.page("expired", "unreachable", says)
	i.fires("LocktreeNotSeen", "instance", "expired")
	i.named("LocktreeNotSeen", "doctor")
	for _, command := range []string{"status", "doctor"} {
		out, code := i.run(i.expired, command)
		require.Equal(i.t, 1, code)
		i.status(out, says)
	}
}

// A client writes into a declared node by hand.
func handEdit(i *incident) {
	const path = "/shop/pool"
	data, stat, err := i.hand.Get(path)
	require.NoError(i.t, err)
	require.Contains(i.t, string(data), `"permits":3`)
	i.begins("page")
	_, err = i.hand.Set(path, []byte(strings.Replace(string(data), `"permits":3`, `"permits":5`, 1)), stat.Version)
	require.NoError(i.t, err)
	i.page("page", "drift", "1 to change")
	i.fires("LocktreeDrift", "ensemble", "main", "instance", "page")
	out := i.typed("LocktreeDrift", "plan")
	i.status(out, "permits")
	require.Contains(i.t, out, "semaphore.pool")
	require.Contains(i.t, i.typed("LocktreeDrift", "history"), "apply ")
	i.typed("LocktreeDrift", "apply", "-auto-approve")
	now, _, err := i.hand.Get(path)
	require.NoError(i.t, err)
	require.Contains(i.t, string(now), `"permits":3`)
}

// The servers delete a container when the last program has left.
func containerGone(i *incident) {
	const path = "/shop/legacy/cron"
	i.begins("page")
	i.page("page", "container", path)
	i.begins("page")
	i.legacy.must("release", path)
	until(i.t, path+" is there", func() bool {
		there, _, err := i.hand.Exists(path)
		return !there && err == nil
	})
	require.LessOrEqual(i.t, i.page("page", "missing", path), atOnce)
	i.fires("LocktreeDrift", "ensemble", "main", "instance", "page")
	i.status(i.must("status"), "cron")
	i.status(i.typed("LocktreeDrift", "plan"), "cron")
	i.typed("LocktreeDrift", "apply", "-auto-approve")
	there, _, err := i.hand.Exists(path)
	require.NoError(i.t, err)
	require.True(i.t, there)
}

// The queue is longer than a person can read. The holder obeys a revoke.
func queueOf200(i *incident) {
	const path = "/shop/queue"
	l, err := member(i.t, recipes.Config{Servers: strings.Split(i.connect, ","), ID: "slow", SessionTimeout: 40 * time.Second}).Mutex(path).Lock(i.t.Context())
	require.NoError(i.t, err)
	i.begins("page")
	crowd := curator(i.t, i.classes, i.connect, "crowd", 40*time.Second) // threads of one program
	for n := range 200 {
		handle := fmt.Sprint(n)
		crowd.must("open", handle, "mutex", path)
		crowd.ask("acquire", handle)
	}
	i.queued(path, 201)
	queue := i.children(path)
	i.page("page", path, "slow", "connected", "max_hold is 2s")
	i.page("page", path, "crowd", "connected", "max_wait is 2s")
	i.fires(tooLong, "lock", "mutex.queue", "limit", "max_wait")
	i.shown(tooLong, "held by +slow.* connected", "status", path)
	i.shown(tooLong, "1 lock, .*200 waiting", "status", path)
	nodes := func() (all []string) {
		s := i.seen(path)
		for _, c := range append(s.Holders, s.Waiters...) {
			all = append(all, c.Node)
		}
		return all
	}
	require.Equal(i.t, queue, nodes())
	i.typed(tooLong, "revoke", path, "-auto-approve")
	within(i.t, l.Context().Done())
	require.ErrorIs(i.t, context.Cause(l.Context()), recipes.ErrRevoked)
	require.NoError(i.t, l.Unlock(i.t.Context()))
	require.Equal(i.t, queue[1:], nodes())
	require.NotContains(i.t, i.typed(tooLong, "status", path), "deadlock", "a program waits for another thread of its own")
}

// All servers are killed.
func ensembleAway(i *incident) {
	i.hand.Close()
	i.begins("page")
	for _, s := range i.servers {
		s.Kill()
	}
	i.page("page", "stale", "ZooKeeper has not answered since")
	i.page("page", "stale", "connection refused")
	i.fires("LocktreeNotSeen", "ensemble", "main", "instance", "page")
	out, code := i.run([]string{soon}, "status")
	require.Equal(i.t, 1, code)
	i.status(out, "refused")
	i.named("LocktreeNotSeen", "doctor")
	out, code = i.run([]string{soon}, "doctor")
	require.Equal(i.t, 1, code)
	for _, s := range i.servers {
		require.Contains(i.t, out, s.Addr)
	}
	i.status(out, "refused")
}

// issue writes an authority, the servers' certificate and one that expired yesterday, the last two with their keys.
func issue(t *testing.T, dir string) {
	t.Helper()
	now := time.Now()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var by *ecdsa.PrivateKey
	for n, name := range []string{"ca", "server", "expired"} {
		one := *authority
		if name != "ca" {
			one = x509.Certificate{SerialNumber: big.NewInt(int64(n + 1)), Subject: pkix.Name{CommonName: name}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
				IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		}
		if name == "expired" {
			one.NotAfter = now.AddDate(0, 0, -1)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		if by == nil {
			by = key
		}
		der, err := x509.CreateCertificate(rand.Reader, &one, authority, key.Public(), by)
		require.NoError(t, err)
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if name != "ca" {
			text = append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), text...)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".pem"), text, 0o600))
	}
}
