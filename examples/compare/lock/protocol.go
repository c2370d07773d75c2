package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Every system runs in a process of its own, which measures itself and is told what to do in lines of words on its
// standard input. It answers each with one line:
//
//	start servers=host:port,host:port name=… kind=mutex clients=8 workers=64 …   ready
//	measure us=1000000                                                          measured us=… cycles=… each=9,8 waits=12:3,15:1 …
//	stop                                                                        stopped
//
// or with "failed TEXT", or "absent TEXT" where the system has no such lock. Values are escaped as in a URL.

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
			r, answer, err = serveStart(d, args)
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
		if errors.Is(err, ErrNotOffered) {
			answer = "absent " + url.QueryEscape(err.Error())
		} else if err != nil {
			answer = "failed " + url.QueryEscape(err.Error())
		}
		fmt.Fprintln(out, answer)
	}
}

func serveStart(d Driver, args words) (*Running, string, error) {
	load := Load{}
	for name, field := range load.fields() {
		field.SetInt(args.int(name))
	}
	load.Kind, load.Hold = args["kind"], args.micros("hold")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := Start(ctx, d, strings.Split(args["servers"], ","), args["name"], load)
	if err != nil {
		return nil, "", err
	}
	if err := r.Warm(args.micros("warm"), args.micros("limit")); err != nil {
		return r, "", err
	}
	return r, "ready", nil
}

// fields are those of a load that are numbers, by the words they are sent as.
func (l *Load) fields() map[string]reflect.Value {
	v := reflect.ValueOf(l).Elem()
	all := map[string]reflect.Value{}
	for _, name := range []string{"Clients", "Workers", "Locks", "Set", "Stream", "Permits", "Reads", "Rate", "Handoff"} {
		all[strings.ToLower(name)] = v.FieldByName(name)
	}
	return all
}

// formatLoad is the line that starts a load.
func formatLoad(addrs []string, name string, l Load, warm, limit time.Duration) string {
	s := fmt.Sprintf("start servers=%s name=%s kind=%s hold=%d warm=%d limit=%d", strings.Join(addrs, ","), name, l.Kind,
		l.Hold.Microseconds(), warm.Microseconds(), limit.Microseconds())
	for word, field := range l.fields() {
		s += fmt.Sprintf(" %s=%d", word, field.Int())
	}
	return s
}

func formatResult(r Result) string {
	var waits []string
	for _, b := range r.Waits {
		waits = append(waits, fmt.Sprintf("%d:%d", b[0], b[1]))
	}
	var each []string
	for _, n := range r.Each {
		each = append(each, strconv.FormatInt(n, 10))
	}
	return fmt.Sprintf("us=%d total=%d cycles=%d errors=%d overlaps=%d longest=%d first=%s each=%s waits=%s", r.Window.Microseconds(), r.Total, r.Cycles, r.Errors,
		r.Overlaps, r.Longest.Microseconds(), url.QueryEscape(r.First), strings.Join(each, ","), strings.Join(waits, ","))
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
	for pair := range strings.SplitSeq(args["waits"], ",") {
		if pair == "" {
			continue
		}
		var wait [2]int64
		if _, err := fmt.Sscanf(pair, "%d:%d", &wait[0], &wait[1]); err != nil {
			return r, fmt.Errorf("waits: %q: %w", pair, err)
		}
		r.Waits = append(r.Waits, wait)
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
	text, unescaped := url.QueryUnescape(rest)
	switch {
	case verb == "failed":
		return verb, nil, errors.Join(errors.New(text), unescaped)
	case verb == "absent":
		return verb, nil, fmt.Errorf("%w: %s", ErrNotOffered, strings.TrimPrefix(text, ErrNotOffered.Error()+": "))
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
