package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Every system runs in a process of its own, which measures itself and is told what to do in lines of words on its
// standard input. It answers each with one line:
//
//	start servers=host:port,host:port name=… clients=8 workers=64 locks=64 …   ready
//	measure us=1000000                                                        measured us=… cycles=… each=9,8 …
//	stop                                                                      stopped
//
// or with "failed TEXT". Values are escaped as in a URL, and times are in microseconds.

// Serve is such a process, for a driver in Go. It ends with its input.
func Serve(d Driver, in io.Reader, out io.Writer) {
	var r *Running
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		verb, args, err := parse(lines.Text())
		answer := ""
		switch {
		case err != nil:
		case verb == "start":
			r, err = serveStart(d, args)
			answer = "ready"
		case r == nil:
			err = fmt.Errorf("%s comes after start", verb)
		case verb == "measure":
			answer = "measured " + formatResult(r.Measure(args.micros("us")))
		case verb == "stop":
			answer, err = "stopped", r.Stop()
			r = nil
		default:
			err = fmt.Errorf("unknown word %q", verb)
		}
		if err != nil {
			answer = "failed " + url.QueryEscape(err.Error())
		}
		fmt.Fprintln(out, answer)
	}
}

func serveStart(d Driver, args words) (*Running, error) {
	load := Load{Clients: int(args.int("clients")), Workers: int(args.int("workers")), Locks: int(args.int("locks")), Hold: args.micros("hold")}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := Start(ctx, d, strings.Split(args["servers"], ","), args["name"], load)
	if err != nil {
		return nil, err
	}
	return r, r.Warm(args.micros("warm"), args.micros("limit"))
}

// formatLoad is the line that starts a load.
func formatLoad(addrs []string, name string, l Load, warm, limit time.Duration) string {
	return fmt.Sprintf("start servers=%s name=%s clients=%d workers=%d locks=%d hold=%d warm=%d limit=%d", strings.Join(addrs, ","), name,
		l.Clients, l.Workers, l.Locks, l.Hold.Microseconds(), warm.Microseconds(), limit.Microseconds())
}

func formatResult(r Result) string {
	var each []string
	for _, n := range r.Each {
		each = append(each, strconv.FormatInt(n, 10))
	}
	return fmt.Sprintf("us=%d total=%d cycles=%d errors=%d overlaps=%d longest=%d first=%s each=%s", r.Window.Microseconds(), r.Total, r.Cycles,
		r.Errors, r.Overlaps, r.Longest.Microseconds(), url.QueryEscape(r.First), strings.Join(each, ","))
}

func parseResult(args words) (Result, error) {
	r := Result{Window: args.micros("us"), Total: args.int("total"), Cycles: args.int("cycles"), Errors: args.int("errors"),
		Overlaps: args.int("overlaps"), First: args["first"], Longest: args.micros("longest")}
	for n := range strings.SplitSeq(args["each"], ",") {
		cycles, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return r, fmt.Errorf("each: %w", err)
		}
		r.Each = append(r.Each, cycles)
	}
	return r, nil
}

type words map[string]string

func (w words) int(name string) int64 {
	n, _ := strconv.ParseInt(w[name], 10, 64)
	return n
}

func (w words) micros(name string) time.Duration {
	return time.Duration(w.int(name)) * time.Microsecond
}

// parse splits a line. A failure is returned as the error that it tells.
func parse(line string) (verb string, args words, err error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if verb == "failed" {
		text, unescaped := url.QueryUnescape(rest)
		return verb, nil, errors.Join(errors.New(text), unescaped)
	}
	args = words{}
	for word := range strings.FieldsSeq(rest) {
		k, v, _ := strings.Cut(word, "=")
		if args[k], err = url.QueryUnescape(v); err != nil {
			return verb, nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	return verb, args, nil
}
