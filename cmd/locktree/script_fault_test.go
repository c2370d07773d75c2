package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/locktree/locktree/recipes/zktest"
)

// scriptFaults are the verbs by which a script controls the in-memory server. OPERATION is "multi", "getData", ..., with "@2" behind it for
// the second one from now on, or "*" for each. PATH selects the requests that name it.
var scriptFaults = map[string]func(*testscript.TestScript, bool, []string){
	// fault OPERATION KIND [PATH] fails the next such request.
	"fault": func(ts *testscript.TestScript, _ bool, args []string) {
		fault, ok := faultKinds[args[1]]
		if !ok {
			ts.Fatalf("no such fault: %s", args[1])
		}
		h := ts.Value(handKey{}).(*hand)
		h.faults = append(h.faults, scriptServer(ts).Inject(picked(ts, args[0], append(args[2:], "")[0]), fault))
	},

	// heal ends all faults.
	"heal": func(ts *testscript.TestScript, _ bool, _ []string) {
		h := ts.Value(handKey{}).(*hand)
		for _, f := range h.faults {
			f.Remove()
		}
		h.faults = nil
	},

	// meanwhile OPERATION PATH VERB ... runs "zk VERB ..." when the next such request arrives, before it is executed.
	"meanwhile": func(ts *testscript.TestScript, _ bool, args []string) {
		server, h := scriptServer(ts), ts.Value(handKey{}).(*hand)
		match, each := picked(ts, args[0], args[1]), strings.HasSuffix(args[0], "*")
		hold := func() *zktest.Injection { return server.Inject(zktest.Once(match), zktest.Hold) }
		held := hold()
		go func() {
			for {
				select {
				case <-held.Hit():
				case <-h.over:
					return
				}
				h.meddle(args[2:])
				if !each {
					held.Release()
					return
				}
				next := hold() // before this one goes on, or the next request would get through
				held.Release()
				held = next
			}
		}()
	},

	// lost OPERATION PATH VERB ... executes the next such request, and ends the connection instead of answering. It runs "zk VERB ..."
	// before the client, which is back, sees what is there now.
	"lost": func(ts *testscript.TestScript, _ bool, args []string) {
		server, h := scriptServer(ts), ts.Value(handKey{}).(*hand)
		match, gone := picked(ts, args[0], args[1]), false
		server.Inject(func(r zktest.Request) bool {
			hit := match(r)
			gone = gone || hit
			return hit
		}, zktest.DropReply)
		held := server.Inject(zktest.Once(func(r zktest.Request) bool { return gone && r.Op == "multi" && r.Path == "/" }), zktest.Hold)
		go func() {
			select {
			case <-held.Hit():
				h.meddle(args[2:])
				held.Release()
			case <-h.over:
			}
		}()
	},

	// cutoff ID ends the connection of the program called ID. The program gets no other connection until the script ends the program.
	"cutoff": func(ts *testscript.TestScript, _ bool, args []string) {
		h := ts.Value(handKey{}).(*hand)
		h.mu.Lock()
		p := h.programs[args[0]]
		h.mu.Unlock()
		s, err := p.client.Session(context.Background())
		ts.Check(err)
		p.cut.Store(true)
		scriptServer(ts).Disconnect(s.ID())
	},

	// mute makes the server accept connections and answer nothing.
	"mute": func(ts *testscript.TestScript, _ bool, _ []string) { scriptServer(ts).Freeze() },

	// server OPTION... replaces the script's server by one with these options.
	"server": func(ts *testscript.TestScript, _ bool, args []string) {
		opts := []zktest.Option{zktest.WithSuperDigest(superDigest)}
		for _, arg := range args {
			name, value, _ := strings.Cut(arg, "=")
			n, _ := strconv.Atoi(value)
			switch name {
			case "jute.maxbuffer":
				opts = append(opts, zktest.WithMaxFrame(n))
			case "words":
				opts = append(opts, zktest.WithWords(value))
			case "enforceQuota":
				opts = append(opts, zktest.WithQuotaEnforcement())
			default:
				ts.Fatalf("no such option: %s", arg)
			}
		}
		server := zktest.New(opts...)
		ts.Defer(server.Close)
		*ts.Value(serverKey{}).(**zktest.Server) = server
		other, err := newHand(server.Addr())
		ts.Check(err)
		h := ts.Value(handKey{}).(*hand)
		_ = h.client.Close()
		h.addr, h.client = other.addr, other.client
		ts.Setenv("ZK", server.Addr())
		ts.Setenv("LOCKTREE_VAR_zk", server.Addr())
	},

	// repeat FILE NUMBER TEXT adds a text to a file that many times. In the text, "#" is the number of earlier times and "|" the end of a
	// line. "#" in the name makes a file for each.
	"repeat": func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		files := map[string]*strings.Builder{}
		if !strings.Contains(args[0]+args[2], "#") {
			args[2], n = strings.Repeat(args[2], n), 1
		}
		for i := range n {
			name := strings.ReplaceAll(args[0], "#", strconv.Itoa(i))
			if files[name] == nil {
				files[name] = &strings.Builder{}
			}
			files[name].WriteString(strings.NewReplacer("#", strconv.Itoa(i), "|", "\n").Replace(args[2]))
		}
		for name, text := range files {
			f, err := os.OpenFile(ts.MkAbs(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			ts.Check(err)
			_, err = f.WriteString(text.String())
			ts.Check(errors.Join(err, f.Close()))
		}
	},
}

var faultKinds = map[string]zktest.Fault{
	"lose": zktest.DropReply, "cut": zktest.CutBefore, "noauth": zktest.Fail(zktest.CodeNoAuth), "system": zktest.Fail(zktest.CodeSystemError),
	"throttled": zktest.Fail(zktest.CodeThrottled), "refuse": zktest.Fail(codeAuthFailed),
}

func scriptServer(ts *testscript.TestScript) *zktest.Server {
	return *ts.Value(serverKey{}).(**zktest.Server)
}

func picked(ts *testscript.TestScript, operation, path string) func(zktest.Request) bool {
	each := strings.HasSuffix(operation, "*")
	op, nth, numbered := strings.Cut(strings.TrimSuffix(operation, "*"), "@")
	left := 1
	if numbered {
		n, err := strconv.Atoi(nth)
		ts.Check(err)
		left = n
	}
	return func(r zktest.Request) bool {
		if r.Op != op || path != "" && !slices.Contains(r.Paths, path) {
			return false
		}
		left--
		return each || left == 0
	}
}

// meddle runs "zk VERB ...". The script's next zk command reports its errors.
func (h *hand) meddle(args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := h.do(ctx, args); err != nil {
		h.mu.Lock()
		h.trouble = errors.Join(h.trouble, fmt.Errorf("meanwhile %v: %w", args, err))
		h.mu.Unlock()
	}
}
