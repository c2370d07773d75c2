package server

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// postgres counts no requests that could be read at once.
type postgres struct {
	addr, version, durability string
	program                   *program
}

func startPostgres(s *Scope, _ Options) Server {
	return postgresWith(s, "written and synchronised to disk; an advisory lock is in memory", "on")
}

// startPostgresUnsynced is for what durability costs.
func startPostgresUnsynced(s *Scope, _ Options) Server {
	return postgresWith(s, "in memory, and on disk soon after", "off")
}

func postgresWith(s *Scope, durability, synchronous string) Server {
	name := found(s, "postgresql", "postgres", "/usr/lib/postgresql/*/bin/postgres")
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // initdb is beside it
	}
	p := newProgram(s, true)
	p.run(filepath.Join(filepath.Dir(name), "initdb"), "-D", p.dir+"/data", "-U", "compare", "--auth=trust", "--no-sync")
	port := realzk.FreePorts(s, 1)[0]
	db := &postgres{addr: loopback(port), durability: durability, program: p}
	ready := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c := Must(pgx.Connect(ctx, "postgres://compare@"+db.addr+"/postgres"))
		defer c.Close(ctx)
		Check(c.QueryRow(ctx, "show server_version").Scan(&db.version))
		Must(c.Exec(ctx, "create table if not exists locks (name text primary key)"))
	}
	p.start(func() error { return Try(ready) }, name, "-D", p.dir+"/data", "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=300", "-c", "synchronous_commit="+synchronous)
	return db
}

func (p *postgres) Addrs() []string         { return []string{p.addr} }
func (p *postgres) Pids() []int             { return p.program.pids() }
func (p *postgres) Counts() (Counts, error) { return Counts{-1, -1}, nil }
func (p *postgres) Version() string         { v, _, _ := strings.Cut(p.version, " "); return "PostgreSQL " + v }
func (p *postgres) Durability() string      { return p.durability }

type mariadb struct {
	addr    string
	db      *sql.DB
	program *program
}

func startMariaDB(s *Scope, _ Options) Server {
	name := found(s, "mariadb-server-core", "mariadbd", "/usr/sbin/mariadbd")
	p := newProgram(s, true)
	port := realzk.FreePorts(s, 1)[0]
	m := &mariadb{addr: loopback(port), program: p}
	db := Must(sql.Open("mysql", "root@tcp("+m.addr+")/"))
	s.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	m.db = db
	// GET_LOCK needs no table, and what makes the system's tables is in a package of the clients'.
	p.start(db.Ping, name, "--no-defaults", "--skip-grant-tables", "--datadir="+p.dir, "--port="+strconv.Itoa(port), "--bind-address=127.0.0.1",
		"--socket="+p.dir+"/socket", "--max-connections=300", "--skip-name-resolve")
	return m
}

func (m *mariadb) Addrs() []string    { return []string{m.addr} }
func (m *mariadb) Pids() []int        { return m.program.pids() }
func (m *mariadb) Durability() string { return "in memory: GET_LOCK writes nothing" }
func (m *mariadb) asking() int64      { return 1 }

func (m *mariadb) Counts() (c Counts, err error) {
	var name string
	err = m.db.QueryRow("show global status like 'Questions'").Scan(&name, &c.Requests)
	return c, err
}

func (m *mariadb) Version() string {
	out, _ := exec.Command("mariadbd", "--version").Output()
	_, rest, _ := strings.Cut(string(out), "Ver ")
	v, _, _ := strings.Cut(rest, "-")
	return fmt.Sprint("MariaDB ", v)
}

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
	port := realzk.FreePorts(s, 1)[0]
	b := &pgBouncer{Server: db, addr: loopback(port)}
	host, dbPort, _ := strings.Cut(db.Addrs()[0], ":")
	config := fmt.Sprintf("[databases]\npostgres = host=%s port=%s user=compare\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\nlogfile =\npidfile =\n", host, dbPort, port)
	file := filepath.Join(p.dir, "pgbouncer.ini")
	Check(os.WriteFile(file, []byte(config), 0o644))
	p.start(p.listens(b.addr), name, file)
	out, _ := exec.Command(name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	b.version = first + ", pool_mode = transaction, before " + db.Version()
	return b
}

// Addrs are the pool's, and then the database's own.
func (b *pgBouncer) Addrs() []string { return append([]string{b.addr}, b.Server.Addrs()...) }
func (b *pgBouncer) Version() string { return b.version }
