package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// keeperOn serves the handshake of a ClickHouse Keeper on loopback until the test ends. A session there has a password of zeros.
func keeperOn(t *testing.T) (addr string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	grant := binary.BigEndian.AppendUint32(make([]byte, 0, 40), 36)
	grant = binary.BigEndian.AppendUint32(grant, 0)     // the protocol's version
	grant = binary.BigEndian.AppendUint32(grant, 30000) // ms
	grant = binary.BigEndian.AppendUint64(grant, 7)
	grant = append(binary.BigEndian.AppendUint32(grant, 16), make([]byte, 16)...)
	connections = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, 4)); err == nil {
					_, _ = c.Write(grant)
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	return l.Addr().String(), connections
}

func TestCommandsRefuseAKeeper(t *testing.T) {
	addr, connections := keeperOn(t)
	dir := t.TempDir()
	text := "locktree {\n  stack = \"s\"\n}\nensemble \"main\" {\n  servers = [\"" + addr + "\"]\n  auth \"digest\" {\n    username = \"u\"\n    password = \"p\"\n  }\n}\nmutex \"a\" {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(text), 0o600))
	says := addr + " is a ClickHouse Keeper, whose sessions end with their connection, so a lock there cannot survive a reconnect; " +
		"locktree needs Apache ZooKeeper: name its servers instead"
	for command, times := range map[string]int{"plan": 1, "apply -auto-approve": 1, "destroy -auto-approve": 1, "status": 1, "init": 1, "exec /a -- true": 1,
		"doctor": 2, // it asks each server, and then the ensemble
	} {
		connections.Store(0)
		var stdout, stderr strings.Builder
		code := start(t.Context(), append([]string{"-chdir=" + dir}, strings.Fields(command)...), nil, strings.NewReader(""), &stdout, &stderr)
		all := strings.Join(strings.Fields(strings.ReplaceAll(stdout.String()+stderr.String(), "│", "")), " ")
		if command != "init" { // which asks whether there are servers yet, and has written its files
			require.NotZero(t, code, "%s: %s", command, all)
		}
		require.Equal(t, times, strings.Count(all, says), "%s: %s", command, all)
		require.Equal(t, int32(times), connections.Load(), command)
	}
}
