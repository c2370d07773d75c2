package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

// scriptCommands are the verbs of the scripts in addition to those of testscript.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"zk": zkCommand,

	// code NUMBER COMMAND... runs a command that must end with that exit code.
	"code": func(ts *testscript.TestScript, _ bool, args []string) {
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		if got := exitCode(ts, args[1:]); got != want {
			ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
		}
	},

	// until PATTERN NUMBER COMMAND... repeats code until the output matches, at most five times. It is for a command that looks for
	// something within a time of its own. If the machine stops meanwhile, that time is over before the command has looked.
	"until": func(ts *testscript.TestScript, _ bool, args []string) {
		pattern, err := regexp.Compile("(?m)" + args[0])
		ts.Check(err)
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		for range 5 {
			if got := exitCode(ts, args[2:]); got != want {
				ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[2:], " "), got, want)
			}
			if pattern.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr")) {
				return
			}
		}
		ts.Fatalf("%s: five times the output does not match %s", strings.Join(args[2:], " "), args[0])
	},

	// counts plan|apply|destroy [import=N] [add=N] [change=N] [destroy=N] [forget=N] checks the last sentence of the last command, in text
	// or in JSON. The words come from view and are tested there, so a script does not repeat them.
	"counts": func(ts *testscript.TestScript, _ bool, args []string) {
		var c plan.Counts
		for _, arg := range args[1:] {
			word, number, _ := strings.Cut(arg, "=")
			n, err := strconv.Atoi(number)
			ts.Check(err)
			switch word {
			case "import":
				c.Import = n
			case "add":
				c.Add = n
			case "change":
				c.Change = n
			case "destroy":
				c.Destroy = n
			case "forget":
				c.Forget = n
			default:
				ts.Fatalf("counts %s", arg)
			}
		}
		want := planview.SummaryLine(c)
		if args[0] != "plan" {
			var out bytes.Buffer
			view.NewHuman(view.Stream{Writer: &out}, view.Stream{}).Show(planview.Applied{Operation: args[0], Counts: c})
			want = strings.TrimSpace(out.String())
		}
		if !strings.Contains(ts.ReadFile("stdout"), want) {
			ts.Fatalf("the output does not contain %q", want)
		}
	},

	// hush SECRET COMMAND... runs a command, with any exit code of the program. Its output must contain neither the secret, its base64 form
	// nor a digest made with it.
	"hush": func(ts *testscript.TestScript, _ bool, args []string) {
		code := exitCode(ts, args[1:])
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if !exitCodeSet[code] || strings.Contains(out, "goroutine ") {
			ts.Fatalf("it ended with %d", code)
		}
		if strings.TrimSpace(out) == "" {
			ts.Fatalf("the command said nothing: that proves nothing")
		}
		sum := sha1.Sum([]byte("admin:" + args[0]))
		for _, secret := range []string{args[0], base64.StdEncoding.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString([]byte(args[0]))} {
			if strings.Contains(out, secret) {
				ts.Fatalf("the output contains %s", secret)
			}
		}
	},

	// subst FILE OLD NEW replaces a text in a file. It fails when the text does not
	// occur: a script that edits nothing proves nothing.
	"subst": func(ts *testscript.TestScript, _ bool, args []string) {
		text := ts.ReadFile(args[0])
		if !strings.Contains(text, args[1]) {
			ts.Fatalf("%s does not contain %q", args[0], args[1])
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
	},

	// json checks that the last standard output is one JSON document. "json lines" checks that each of its lines is one, and that they are of
	// the types that follow, if any. Messages about the progress on a slow machine do not count.
	"json": func(ts *testscript.TestScript, _ bool, args []string) {
		text := strings.TrimSpace(ts.ReadFile("stdout"))
		documents := []string{text}
		if len(args) > 0 {
			documents = strings.Split(text, "\n")
		}
		types := ""
		for _, d := range documents {
			var v map[string]any
			if err := json.Unmarshal([]byte(d), &v); err != nil {
				ts.Fatalf("%v in %q", err, d)
			}
			if kind, ok := v["type"].(string); ok && !strings.HasSuffix(kind, "progress") && !strings.HasSuffix(types, " "+kind) {
				types += " " + kind
			}
		}
		if want := strings.Join(args, " "); len(args) > 1 && "lines"+types != want {
			ts.Fatalf("messages of the types%s, want %s", types, want)
		}
	},

	// seal FILE makes the last line of a saved plan, the sum of what precedes it, right again.
	"seal": func(ts *testscript.TestScript, _ bool, args []string) {
		text := ts.ReadFile(args[0])
		text = text[:len(text)-2*sha256.Size-2]
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf([]byte(text), "\n%x\n", sha256.Sum256([]byte(text))), 0o600))
	},

	// await PATH NUMBER waits until a node has that many children. So a script knows how far a command in the background has got.
	"await": func(ts *testscript.TestScript, _ bool, args []string) {
		h := ts.Value(handKey{}).(*hand)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ts.Check(h.awaitChildren(ctx, args[0], args[1]))
	},

	// awaitpage FILE PATTERN waits until a file names a page, and that page's list of locks matches.
	"awaitpage": func(ts *testscript.TestScript, _ bool, args []string) {
		deadline, seen := time.Now().Add(patience), ""
		for want := regexp.MustCompile(args[1]); !want.MatchString(seen); time.Sleep(10 * time.Millisecond) { // another process, as below
			text, _ := os.ReadFile(ts.MkAbs(args[0]))
			url := regexp.MustCompile(`(?m)^http://\S+/$`).FindString(string(text))
			if resp, err := http.Get(url + "locks"); err == nil {
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				seen = string(body)
			}
			if time.Now().After(deadline) {
				ts.Fatalf("no page of %q says %s: %s", url, args[1], seen)
			}
		}
	},
	// awaitline FILE VARIABLE waits until a file has a line, and puts it into a variable.
	"awaitline": func(ts *testscript.TestScript, _ bool, args []string) {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // another process: there is nothing to wait on
			text, err := os.ReadFile(ts.MkAbs(args[0]))
			if line, _, ok := strings.Cut(string(text), "\n"); ok {
				ts.Setenv(args[1], line)
				return
			} else if time.Now().After(deadline) {
				ts.Fatalf("no line is in %s: %q, %v", args[0], text, err)
			}
		}
	},
}

func exitCode(ts *testscript.TestScript, command []string) int {
	err := ts.Exec(command[0], command[1:]...)
	var exit interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		ts.Fatalf("%v: %v", command, err)
		return -1
	}
}

func (h *hand) awaitChildren(ctx context.Context, path, count string) error {
	want, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	conn, _, err := zk.Connect([]string{h.addr}, 40*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		children, _, events, err := conn.ChildrenW(path)
		if (errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil || len(children) >= want {
			return err
		}
		select {
		case <-events:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
