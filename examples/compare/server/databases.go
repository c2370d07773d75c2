//go:build linux

package server

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// postgres counts no requests that could be read at once.
func postgres(s *Scope, _ int) *Server {
	name := found(s, "postgresql", "postgres", "/usr/lib/postgresql/*/bin/postgres")
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // initdb is beside it
	}
	p := newProgram(s, true)
	p.run(filepath.Join(filepath.Dir(name), "initdb"), "-D", p.dir+"/data", "-U", "compare", "--auth=trust", "--no-sync")
	port := realzk.FreePorts(s, 1)[0]
	up := &Server{Addrs: []string{loopback(port)}, Durability: "written and synchronised to disk; an advisory lock is in memory",
		Counts: func() Counts { return Counts{-1, -1} }}
	ready := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		c := Must(pgx.Connect(ctx, "postgres://compare@"+up.Addrs[0]+"/postgres"))
		defer c.Close(ctx)
		Check(c.QueryRow(ctx, "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)").Scan(&up.Version))
		Must(c.Exec(ctx, "create table if not exists locks (name text primary key)"))
	}
	p.start(func() error { return Try(ready) }, name, "-D", p.dir+"/data", "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "max_connections=300")
	return up
}

// pgBouncer is PostgreSQL behind a connection pool that gives every transaction a connection of its own choice, as most
// programs with many processes have it. Its addresses are the pool's, and then the database's own.
func pgBouncer(s *Scope, members int) *Server {
	name := found(s, "pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	up := postgres(s, members)
	p := newProgram(s, true)
	port := realzk.FreePorts(s, 1)[0]
	host, dbPort, _ := strings.Cut(up.Addrs[0], ":")
	config := fmt.Sprintf("[databases]\npostgres = host=%s port=%s user=compare\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\nlogfile =\npidfile =\n", host, dbPort, port)
	file := filepath.Join(p.dir, "pgbouncer.ini")
	Check(os.WriteFile(file, []byte(config), 0o644))
	up.Addrs = append([]string{loopback(port)}, up.Addrs...)
	p.start(func() error {
		c, err := net.Dial("tcp", up.Addrs[0])
		if err == nil {
			_ = c.Close()
		}
		return err
	}, name, file)
	up.Version = versionOf(name) + ", pool_mode = transaction, before " + up.Version
	return up
}

func mariadb(s *Scope, _ int) *Server {
	name := found(s, "mariadb-server-core", "mariadbd", "/usr/sbin/mariadbd")
	p := newProgram(s, true)
	port := realzk.FreePorts(s, 1)[0]
	db := Must(sql.Open("mysql", "root@tcp("+loopback(port)+")/"))
	s.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	// GET_LOCK needs no table, and what makes the system's tables is in a package of the clients'.
	p.start(db.Ping, name, "--no-defaults", "--skip-grant-tables", "--datadir="+p.dir, "--port="+strconv.Itoa(port), "--bind-address=127.0.0.1",
		"--socket="+p.dir+"/socket", "--max-connections=300", "--skip-name-resolve")
	_, version, _ := strings.Cut(versionOf(name), "Ver ")
	version, _, _ = strings.Cut(version, "-")
	return &Server{Addrs: []string{loopback(port)}, Version: "MariaDB " + version, Durability: "in memory: GET_LOCK writes nothing", asking: 1,
		Counts: func() (c Counts) {
			var name string
			Check(db.QueryRow("show global status like 'Questions'").Scan(&name, &c.Requests))
			return c
		}}
}
