package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/zktest"
)

// Examination is what a server answered to the checks.
type Examination struct {
	Kind    string // "Apache ZooKeeper" or "ClickHouse Keeper", as its handshake tells
	Version string // the first line of what it answers to srvr; "" for nothing
	Results []Result
}

// Result is how a server answered a check.
type Result struct {
	Check
	Compared   int    // answers and events
	Difference string // where it answered otherwise than zktest first; "" for nowhere
	Err        error  // why it could not be asked
}

// Differs reports whether the server answers a check that locktree needs otherwise than it should, or could not be asked it.
func (r Result) Differs() bool { return r.Difference != "" || r.Err != nil }

// answerTime bounds the wait for an answer of a server that is examined.
const answerTime = 20 * time.Second

// NewRoot is a path for Examine that nobody else uses, below a node that exists.
func NewRoot(under string) string {
	return strings.TrimSuffix(under, "/") + "/locktree-compat-" + strings.ToLower(rand.Text()[:12])
}

// Examine asks a server the checks, which it compares with what zktest answers: as ZooKeeper of the release that the server names. It creates a node at root, which must not exist, and everything else below it, and deletes all that at the end, also if
// ctx ends. An error means that the server could not be examined, or that something is left.
func Examine(ctx context.Context, dial Dial, root string) (*Examination, error) {
	x := &Examination{Kind: "Apache ZooKeeper"}
	dial = hasty(dial)
	h, err := newHand(dial)
	if err != nil {
		return nil, err
	}
	defer func() { h.end() }()
	answer, _ := Word(dial, "srvr") // it may be forbidden
	x.Version, _, _ = strings.Cut(answer, "\n")
	like, _ := release(answer)
	if err := h.do(create(0, root, 0)); err != nil {
		return nil, fmt.Errorf("create %s: %w", root, err)
	}
	ref := newReference(like...)
	defer ref.Close()
	for i, check := range checks() {
		if ctx.Err() != nil {
			break
		}
		x.Results = append(x.Results, check.ask(dial, pipe(ref), root, fmt.Sprintf("/c%02d", i)))
	}
	h.end()
	if h, err = newHand(dial); err == nil { // the first may have ended meanwhile
		err = h.remove(root)
	} else {
		h = &hand{}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is left on the server: %w", root, err)
	}
	return x, ctx.Err()
}

// ask plays the check against a server and the reference.
func (c Check) ask(dial, reference Dial, root, name string) Result {
	r := Result{Check: c}
	got, err := (&player{dial: dial, root: root + name, telling: byName}).play(c.ops)
	if err != nil {
		r.Err = fmt.Errorf("%w; it had said:\n%s", err, strings.Join(got, "\n"))
		return r
	}
	want, err := (&player{dial: reference, root: name, telling: byName}).play(c.ops)
	if err != nil {
		r.Err = fmt.Errorf("zktest: %w", err)
		return r
	}
	r.Compared, r.Difference = firstDifference(got, want)
	return r
}

// hasty is dial with a bound for each wait.
func hasty(dial Dial) Dial {
	return func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		return impatient{c}, nil
	}
}

type impatient struct{ net.Conn }

func (c impatient) SetDeadline(time.Time) error {
	return c.Conn.SetDeadline(time.Now().Add(answerTime))
}
func (c impatient) SetReadDeadline(time.Time) error {
	return c.Conn.SetReadDeadline(time.Now().Add(answerTime))
}
func (c impatient) SetWriteDeadline(time.Time) error {
	return c.Conn.SetWriteDeadline(time.Now().Add(answerTime))
}

// hand is a session for what lies around the checks.
type hand struct{ s *session }

func newHand(dial Dial) (*hand, error) {
	s, err := open(dial, 0, make([]byte, 16), 0)
	if err != nil {
		return nil, err
	}
	return &hand{s}, nil
}

func (h *hand) end() {
	if h.s != nil {
		_, _, _ = h.s.call(opClose, nil)
		_ = h.s.conn.Close()
		h.s = nil
	}
}

// ask makes a request; its error is the server's too.
func (h *hand) ask(op Op) (frame, error) {
	var w out
	op.encode(&player{}, &w, h.s)
	f, _, err := h.s.call(op.Op, w.b)
	if err == nil && f.code != 0 {
		err = refusal(f.code)
	}
	return f, err
}

func (h *hand) do(op Op) error {
	_, err := h.ask(op)
	return err
}

// refusal is a server's error code.
type refusal int32

func (r refusal) Error() string { return "the server answered " + zktest.Code(r).String() }

// remove deletes a node and all that is below it. What a check hides it has emptied itself.
func (h *hand) remove(path string) error {
	names, err := h.list(path)
	if err != nil && !errors.Is(err, refusal(codeNoAuth)) {
		return err
	}
	for _, name := range names {
		if err := h.remove(path + "/" + name); err != nil {
			return err
		}
	}
	if err := h.do(del(0, path)); err != nil && !errors.Is(err, refusal(codeNoNode)) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

const codeNoAuth = -102

func (h *hand) list(path string) (names []string, err error) {
	f, err := h.ask(Op{Op: opChildren, Path: path})
	if errors.Is(err, refusal(codeNoNode)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil {
			names, err = nil, errShort
		}
	}()
	return f.body.strs(), nil
}
