//go:build linux

// Package kdc starts a key distribution center for tests: MIT Kerberos from Debian (krb5-kdc, krb5-admin-server). The center has a realm, a
// database, keys and a loopback port of its own. It reads and writes no file of the system. The package ends each process that it started
// by that process's id.
//
// When the programs are not installed the test fails, naming the command that installs them. It never skips.
package kdc

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Realm is the realm of every center here.
const Realm = "LOCKTREE.TEST"

// Options of a center.
type Options struct {
	// Lifetime is how long the tickets last that clients get with KDC.Conf: a second at least; 0 = an hour.
	Lifetime time.Duration
	// Ahead is how far the center's clock is ahead.
	Ahead time.Duration
}

// KDC is one running center.
type KDC struct {
	Dir  string // the directory of the center's files; removed when the test ends
	Conf string // the path of a krb5.conf for the center's clients

	tb   realzk.TB
	opts Options
	port int
	cmd  *exec.Cmd
	gone chan struct{}
}

const install = "apt-get install -y krb5-kdc krb5-admin-server krb5-user libfaketime"

// Start runs a center until the test ends, and returns once it serves.
func Start(tb realzk.TB, opts Options) *KDC {
	tb.Helper()
	dir, err := os.MkdirTemp("", "kdc-")
	if err != nil {
		tb.Fatalf("kdc: %v", err)
	}
	k := &KDC{Dir: dir, Conf: filepath.Join(dir, "krb5.conf"), tb: tb, opts: opts, port: realzk.FreePorts(tb, 1)[0]}
	tb.Cleanup(func() {
		k.Stop()
		if tb.Failed() {
			log, _ := os.ReadFile(k.path("kdc.log"))
			tb.Logf("%s:\n%s", k.path("kdc.log"), log)
		}
		os.RemoveAll(dir)
	})
	if opts.Lifetime == 0 {
		k.opts.Lifetime = time.Hour
	}
	k.Configure("")
	k.write("kdc.conf", fmt.Sprintf(`[kdcdefaults]
  kdc_listen = 127.0.0.1:%[1]d
  kdc_tcp_listen = 127.0.0.1:%[1]d
[realms]
  %[2]s = {
    database_name = %[3]s/principal
    key_stash_file = %[3]s/stash
    acl_file = %[3]s/kadm5.acl
    max_life = 1h
    default_principal_flags = +preauth
    max_renewable_life = 1d
    supported_enctypes = aes256-cts:normal aes128-cts:normal
  }
[logging]
  kdc = FILE:%[3]s/kdc.log
`, k.port, Realm, dir))
	k.write("kadm5.acl", "")
	k.Run("/usr/sbin/kdb5_util", "create", "-s", "-r", Realm, "-P", "master")
	k.Resume()
	return k
}

// Configure writes Conf again, with further lines of [libdefaults].
func (k *KDC) Configure(more string) {
	k.tb.Helper()
	k.write("krb5.conf", fmt.Sprintf(`[libdefaults]
  default_realm = %[1]s
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  dns_canonicalize_hostname = false
  ticket_lifetime = %[2]ds
  %[3]s
[realms]
  %[1]s = {
    kdc = 127.0.0.1:%[4]d
  }
`, Realm, int(k.opts.Lifetime/time.Second), more, k.port))
}

// Add creates principals with random keys.
func (k *KDC) Add(principals ...string) {
	k.tb.Helper()
	for _, p := range principals {
		k.admin("addprinc -randkey " + p)
	}
}

// Keytab exports the keys of principals as they are into a file in Dir, replacing it.
func (k *KDC) Keytab(name string, principals ...string) string {
	k.tb.Helper()
	fresh := k.path(name + ".new")
	os.Remove(fresh)
	k.admin("ktadd -k " + fresh + " -norandkey " + strings.Join(principals, " "))
	if err := os.Rename(fresh, k.path(name)); err != nil {
		k.tb.Fatalf("kdc: %v", err)
	}
	return k.path(name)
}

// Rekey gives a principal other keys, so its exported keys become worthless.
func (k *KDC) Rekey(principal string) {
	k.tb.Helper()
	k.admin("cpw -randkey " + principal)
}

// Kinit gets tickets with a keytab, as a person does, and returns the cache.
func (k *KDC) Kinit(cache, keytab, principal string, flags ...string) string {
	k.tb.Helper()
	k.Run("/usr/bin/kinit", append(flags, "-c", "FILE:"+k.path(cache), "-k", "-t", keytab, principal)...)
	return k.path(cache)
}

// JAAS writes a JAAS configuration whose section logs in with a keytab, for Java's
// servers and clients, and returns the system properties for it.
func (k *KDC) JAAS(section, keytab, principal string) map[string]string {
	k.tb.Helper()
	name := section + ".jaas"
	k.write(name, fmt.Sprintf(`%s {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true storeKey=true useTicketCache=false doNotPrompt=true
  keyTab="%s" principal="%s@%s";
};
`, section, keytab, principal, Realm))
	return map[string]string{"java.security.auth.login.config": k.path(name), "java.security.krb5.conf": k.Conf}
}

func (k *KDC) admin(query string) {
	k.tb.Helper()
	k.Run("/usr/sbin/kadmin.local", "-r", Realm, "-q", query)
}

// Run runs one of Kerberos' programs with the center's configuration.
func (k *KDC) Run(program string, args ...string) string {
	k.tb.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = k.env()
	out, err := cmd.CombinedOutput()
	// kadmin.local exits with 0 even when it answers with an error.
	if err != nil || strings.Contains(string(out), " while ") {
		k.tb.Fatalf("kdc: %s %s: %v\n%s(the programs are installed with: %s)", program, strings.Join(args, " "), err, out, install)
	}
	return string(out)
}

func (k *KDC) env() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+k.path("kdc.conf"), "KRB5CCNAME=FILE:"+k.path("cache"), "LC_ALL=C.UTF-8")
}

// Stop ends the process: clients get no answer.
func (k *KDC) Stop() {
	if k.cmd == nil {
		return
	}
	k.cmd.Process.Kill()
	<-k.gone
	k.cmd = nil
}

// Resume starts the process again on the same port and data.
func (k *KDC) Resume() {
	k.tb.Helper()
	log, err := os.OpenFile(k.path("kdc.out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		k.tb.Fatalf("kdc: %v", err)
	}
	defer log.Close()
	cmd := exec.Command("/usr/sbin/krb5kdc", "-n", "-r", Realm, "-P", k.path("pid"))
	cmd.Env, cmd.Stdout, cmd.Stderr = k.env(), log, log
	if k.opts.Ahead != 0 {
		libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
		if len(libs) == 0 {
			k.tb.Fatalf("kdc: no libfaketime, which this test needs; install it with: %s", install)
		}
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+libs[0], fmt.Sprintf("FAKETIME=%+ds", int(k.opts.Ahead/time.Second)))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		k.tb.Fatalf("kdc: start krb5kdc, which this test needs: %v; install it with: %s", err, install)
	}
	gone := make(chan struct{})
	k.cmd, k.gone = cmd, gone
	go func() {
		cmd.Wait()
		close(gone)
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", k.port), time.Second)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-gone:
			out, _ := os.ReadFile(k.path("kdc.out"))
			k.tb.Fatalf("kdc: krb5kdc exited instead of serving:\n%s", out)
		default:
		}
		if time.Now().After(end) {
			k.tb.Fatalf("kdc: krb5kdc does not serve: %v", err)
		}
	}
}

func (k *KDC) path(name string) string { return filepath.Join(k.Dir, name) }

func (k *KDC) write(name, text string) {
	k.tb.Helper()
	if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
		k.tb.Fatalf("kdc: %v", err)
	}
}
