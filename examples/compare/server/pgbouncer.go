//go:build linux

package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// pgBouncer is PostgreSQL behind a connection pool that gives every transaction a connection of its own choice, as most
// programs with many processes have it.
type pgBouncer struct {
	Server        // the database
	addr, version string
}

func startPgBouncer(s *Scope, opts Options) Server {
	name := found(s, "pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	db := startPostgres(s, opts)
	p := newProgram(s, true)
	b := &pgBouncer{Server: db}
	port := realzk.FreePorts(s, 1)[0]
	b.addr = loopback(port)
	host, dbPort, _ := strings.Cut(db.Addrs()[0], ":")
	config := fmt.Sprintf("[databases]\npostgres = host=%s port=%s user=compare\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\nlogfile =\npidfile =\n", host, dbPort, port)
	file := filepath.Join(p.dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		s.Fatalf("%v", err)
	}
	p.start(p.listens(b.addr), name, file)
	out, _ := exec.Command(name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	b.version = first + ", pool_mode = transaction, before " + db.Version()
	return b
}

// Addrs are the pool's, and then the database's own.
func (b *pgBouncer) Addrs() []string { return append([]string{b.addr}, b.Server.Addrs()...) }
func (b *pgBouncer) Version() string { return b.version }
