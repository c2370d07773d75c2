//go:build linux

package kerberos_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// dialled tries to log in.
func dialled(t *testing.T, server string, cfg kerberos.Config, within time.Duration) error {
	t.Helper()
	login, err := kerberos.New(cfg)
	if err != nil {
		return err
	}
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{server}, SASL: login, ConnectTimeout: within})
	if err == nil {
		_ = c.Close()
	}
	return err
}

// Every reason for a refused login is named, with the next step.
func TestWhoIsNotLetInReadsWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	k := kdc.Start(t, kdc.Options{})
	server := kerberized(t, k, realzk.Options{})
	good := enrol(k, "ledger")
	dials := func(cfg kerberos.Config) func(time.Duration) error {
		return func(within time.Duration) error { return dialled(t, server.Addr, cfg, within) }
	}
	k.Add("other/service")
	stale := enrol(k, "stale")
	k.Rekey("stale")
	gone := enrol(k, "gone")
	k.Run("/usr/sbin/kadmin.local", "-r", kdc.Realm, "-q", "delprinc -force gone")
	locked := enrol(k, "locked")
	k.Run("/usr/sbin/kadmin.local", "-r", kdc.Realm, "-q", "modprinc -allow_tix locked")
	with := func(change func(*kerberos.Config)) kerberos.Config {
		cfg := good
		change(&cfg)
		return cfg
	}
	file := func(name string, content string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	whole, err := os.ReadFile(good.Keytab)
	require.NoError(t, err)
	cache := k.Kinit("short", good.Keytab, "ledger", "-l", "1s")
	tickets, err := os.ReadFile(k.Kinit("long", good.Keytab, "ledger"))
	require.NoError(t, err)
	fromCache := func(name string) kerberos.Config {
		return kerberos.Config{CCache: name, Krb5Conf: k.Conf, ServerPrincipal: "zookeeper/localhost"}
	}
	ahead := kdc.Start(t, kdc.Options{Ahead: time.Hour})
	ahead.Add("zookeeper/localhost")
	time.Sleep(2 * time.Second) // only time makes a ticket expire
	for name, c := range map[string]struct {
		cfg  kerberos.Config
		says []string
	}{
		"a keytab of an older key":         {stale, []string{"stale.keytab has no current key of stale@LOCKTREE.TEST", "ktadd -k"}},
		"a principal that is gone":         {gone, []string{"the KDC of LOCKTREE.TEST does not know gone@LOCKTREE.TEST", "addprinc"}},
		"a principal that is locked":       {locked, []string{"locked@LOCKTREE.TEST is locked at the KDC", "unlock"}},
		"a keytab of somebody else":        {with(func(c *kerberos.Config) { c.Principal = "bob" }), []string{"has no key of bob@LOCKTREE.TEST, only of ledger@LOCKTREE.TEST"}},
		"a keytab without an end":          {with(func(c *kerberos.Config) { c.Keytab = "/dev/zero" }), []string{"/dev/zero is not a regular file"}},
		"no keytab":                        {with(func(c *kerberos.Config) { c.Keytab = "/nowhere.keytab" }), []string{"/nowhere.keytab: no such file", "ktadd -k /nowhere.keytab ledger@LOCKTREE.TEST"}},
		"a keytab cut short":               {with(func(c *kerberos.Config) { c.Keytab = file("k", string(whole[:len(whole)-20])) }), []string{"is not a keytab, or was cut short"}},
		"no keytab at all in the file":     {with(func(c *kerberos.Config) { c.Keytab = file("k", "hello") }), []string{"is not a keytab"}},
		"no configuration":                 {with(func(c *kerberos.Config) { c.Krb5Conf = "/nowhere.conf" }), []string{"/nowhere.conf: no such file", "KRB5_CONFIG"}},
		"a configuration without a realm":  {with(func(c *kerberos.Config) { c.Krb5Conf = file("c", "[libdefaults]\n") }), []string{"has no realm", "write it as user@REALM"}},
		"a realm without a KDC":            {with(func(c *kerberos.Config) { c.Krb5Conf = file("c", "[libdefaults]\ndefault_realm = LOCKTREE.TEST\n") }), []string{"no KDC of LOCKTREE.TEST answers", "names none in [realms]"}},
		"servers of another name":          {with(func(c *kerberos.Config) { c.ServerPrincipal = "zookeeper/elsewhere" }), []string{"does not know the server's principal zookeeper/elsewhere@LOCKTREE.TEST", "server_principal"}},
		"servers looked for by their host": {with(func(c *kerberos.Config) { c.ServerPrincipal, c.AsConfigured = "", true }), []string{"zookeeper/127.0.0.1@LOCKTREE.TEST", "canonicalize = false"}},
		"a ticket for another service":     {with(func(c *kerberos.Config) { c.ServerPrincipal = "other/service" }), []string{"code -124", "did not accept the ticket of ledger@LOCKTREE.TEST for other/service@LOCKTREE.TEST", "kvno"}},
		"tickets that expired":             {fromCache("FILE:" + cache), []string{"the tickets of ledger@LOCKTREE.TEST in " + cache + " expired on", "kinit -c FILE:" + cache}},
		"no cache":                         {fromCache("/nowhere"), []string{"no tickets: open /nowhere", `run "kinit -c FILE:/nowhere"`}},
		"a cache of another type":          {fromCache("KEYRING:persistent:0"), []string{"tickets are kept in KEYRING:persistent:0", "kinit -c FILE:"}},
		"a cache cut short":                {fromCache(file("c", string(tickets[:len(tickets)-20]))), []string{"is not a credential cache, or was cut short"}},
		"a cache of nothing":               {fromCache(file("c", "")), []string{"is not a credential cache"}},
		"a cache of somebody else":         {func() kerberos.Config { c := fromCache(k.Dir + "/long"); c.Principal = "ann"; return c }(), []string{"are of ledger@LOCKTREE.TEST, not of ann@LOCKTREE.TEST"}},
		"clocks that differ":               {func() kerberos.Config { c := enrol(ahead, "ledger"); return c }(), []string{"the clocks of this machine and of the KDC of LOCKTREE.TEST differ by more than 5m0s", "NTP"}},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if strings.HasPrefix(name, "a realm without") { // it is tried again until its time is up
				err = hostile.Refused(t, dials(c.cfg), c.says[0])
				require.ErrorIs(t, err, recipes.ErrUnreachable)
			} else {
				err = dialled(t, server.Addr, c.cfg, time.Minute)
				require.ErrorIs(t, err, recipes.ErrAuth)
			}
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
	require.NoError(t, dialled(t, server.Addr, good, time.Minute))

	// After a failure that may pass, the login is tried again until its time is up.
	k.Stop()
	err = hostile.Refused(t, dials(good), "no KDC of LOCKTREE.TEST answers (127.0.0.1:")
	require.ErrorIs(t, err, recipes.ErrUnreachable)
	require.ErrorContains(t, err, "check that one runs")
	mute := silence(t)
	conf := file("c", "[libdefaults]\ndefault_realm = LOCKTREE.TEST\n[realms]\nLOCKTREE.TEST = {\n kdc = "+mute+"\n}\n")
	// gokrb5 would wait for longer, and obeys no context.
	err = hostile.Refused(t, dials(with(func(c *kerberos.Config) { c.Krb5Conf = conf })), "the KDC has not answered in the time allowed for one attempt")
	require.ErrorIs(t, err, recipes.ErrUnreachable)

	// The server's key is replaced, but its keytab is not.
	k.Resume()
	k.Rekey("zookeeper/localhost")
	require.ErrorContains(t, dialled(t, server.Addr, good, time.Minute), "have an older one (kvno)")
}

// silence is an address that takes everything and answers nothing.
func silence(t *testing.T) string {
	t.Helper()
	port := realzk.FreePorts(t, 1)[0]
	address := fmt.Sprintf("127.0.0.1:%d", port)
	udp, err := net.ListenPacket("udp", address)
	require.NoError(t, err)
	tcp, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { udp.Close(); tcp.Close() })
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	return address
}

func TestConfigMistakesAreNamed(t *testing.T) {
	for says, cfg := range map[string]kerberos.Config{
		"use one of them":             {Keytab: "a", CCache: "b"},
		`"klist -k a" lists them`:     {Keytab: "a"},
		"the servers' principal and ": {ServerPrincipal: "a", Service: "b"},
	} {
		_, err := kerberos.New(cfg)
		require.ErrorContains(t, err, says)
	}
}

// ZooKeeper's own rules: SaslServerPrincipal, SecurityUtils.createSaslClient.
func TestServersAreLookedForAsZooKeeperDoes(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\ndefault_realm = HOME\n"), 0o600))
	cache := filepath.Join("testdata", "cache")
	names := map[string][]string{"10.0.0.1": {"zk1.example.com."}, "10.0.0.2": {"somebody.else."}}
	addresses := map[string][]string{"zk1.example.com.": {"10.0.0.1"}, "somebody.else.": {"10.9.9.9"}, "zk1": {"10.0.0.1"}}
	for name, c := range map[string]struct {
		cfg             kerberos.Config
		server, address string
		want            string
	}{
		"by its name in DNS":           {kerberos.Config{}, "zk1:2181", "10.0.0.1:2181", "zookeeper/zk1.example.com@HOME"},
		"dialled by name":              {kerberos.Config{}, "zk1:2181", "zk1:2181", "zookeeper/zk1.example.com@HOME"},
		"a name that is not confirmed": {kerberos.Config{}, "ZK2:2181", "10.0.0.2:2181", "zookeeper/zk2@HOME"},
		"an address without a name":    {kerberos.Config{}, "zk3:2181", "10.0.0.3:2181", "zookeeper/zk3@HOME"},
		"as configured":                {kerberos.Config{AsConfigured: true}, "zk1:2181", "10.0.0.1:2181", "zookeeper/zk1@HOME"},
		"of another service":           {kerberos.Config{Service: "zk", AsConfigured: true}, "zk1:2181", "10.0.0.1:2181", "zk/zk1@HOME"},
		"in another realm":             {kerberos.Config{ServerRealm: "AWAY", AsConfigured: true}, "zk1:2181", "10.0.0.1:2181", "zookeeper/zk1@AWAY"},
		"all under one name":           {kerberos.Config{ServerPrincipal: "zk/all", ServerRealm: "AWAY"}, "zk1:2181", "10.0.0.1:2181", "zk/all@AWAY"},
		"one name with its realm":      {kerberos.Config{ServerPrincipal: "zk/all@THERE", ServerRealm: "AWAY"}, "zk1:2181", "10.0.0.1:2181", "zk/all@THERE"},
	} {
		c.cfg.Krb5Conf, c.cfg.CCache = conf, cache
		login, err := kerberos.New(c.cfg)
		require.NoError(t, err, name)
		login.Resolve(names, addresses)
		got, err := login.ServerOf(context.Background(), c.server, c.address)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for want, cfg := range map[string]kerberos.Config{
		"svc/host@R": {Principal: "svc/host@R"},
		"svc@R":      {Principal: "svc/host@R", RemoveHost: true},
		"svc/host":   {Principal: "svc/host@R", RemoveRealm: true},
		"svc":        {Principal: "svc/host@R", RemoveHost: true, RemoveRealm: true},
		"":           {Principal: "svc/host"},
	} {
		require.Equal(t, want, kerberos.NameOf(cfg))
	}
}
