package plan

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// FileFormat is the version of the saved plan this package writes and reads.
const FileFormat = 1

// maxFile bounds what DecodeFile reads: 100,000 locks are 60 MiB, and as many semaphores
// that all change 125 MiB.
const maxFile = 512 << 20

// File is a saved plan: the plans of all ensembles of a configuration. It contains
// access lists with their digests, but no passwords and no sensitive values; it should
// be readable only by its owner (0600). Its checksum detects damage, not forgery:
// whoever may write the file decides what is applied.
type File struct {
	Format  int    // FileFormat
	Version string // of the program that wrote it
	Stack   string
	Plans   []*Plan
	Checks  []Check // the results of the configuration's checks when the plan was made
}

// ErrNotPlan: the data is not a saved plan.
var ErrNotPlan error = &refusal{Explanation{Summary: "Not a plan file", Next: `"locktree plan -out FILE" writes one.`}, "not a locktree plan file"}

// refusal is an error about a file that says what to do instead.
type refusal struct {
	Explanation
	text string
}

func (e *refusal) Error() string { return "plan: " + e.text }

// Explain implements [Explainer].
func (e *refusal) Explain() Explanation { return e.Explanation }

func truncated(size int) error {
	return &refusal{Explanation{Summary: "The plan file is cut off", Next: "Create the plan again."}, fmt.Sprintf("the plan file ends after %d bytes, in the middle", size)}
}

// ErrNotIndex: the data is not an index of locktree.
var ErrNotIndex = errors.New("plan: not a locktree index")

// DamagedError: the data claims to be ours but does not make sense.
type DamagedError struct {
	What  string // "plan file", "index"
	Field string // where, as a JSON path; "" for the whole
	Err   error
}

func (e *DamagedError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("plan: damaged %s: %v", e.What, e.Err)
	}
	return fmt.Sprintf("plan: damaged %s: %s: %v", e.What, e.Field, e.Err)
}

// Explain implements [Explainer].
func (e *DamagedError) Explain() Explanation {
	return Explanation{Summary: "The " + e.What + " is damaged", Written: "Nothing was written.", Next: "Create the plan again."}
}

func (e *DamagedError) Unwrap() error { return e.Err }

// VersionError: written by a newer version of this program.
type VersionError struct {
	What       string // "plan file", "index"
	Got, Reads int
	WrittenBy  string // version of the program that wrote it; may be ""
}

func (e *VersionError) Error() string {
	by := ""
	if e.WrittenBy != "" {
		by = " by locktree " + e.WrittenBy
	}
	return fmt.Sprintf("plan: the %s was written%s in format %d, this program reads format %d: upgrade locktree", e.What, by, e.Got, e.Reads)
}

// Explain implements [Explainer].
func (e *VersionError) Explain() Explanation {
	return Explanation{Summary: "Written by a newer locktree"}
}

// CheckStack returns an error when the saved plan is not of this stack.
func (f *File) CheckStack(stack string) error {
	if f.Stack != stack {
		return &refusal{Explanation{Summary: "Saved plan is of another stack"},
			fmt.Sprintf("the saved plan is of stack %q, this configuration is of stack %q: apply it from its own directory", f.Stack, stack)}
	}
	return nil
}

// envelope is the outside of a saved plan. Body stays bytes until its sum is checked.
type envelope struct {
	Format  int    `json:"locktree_plan"`
	Version string `json:"version"`
	Stack   string `json:"stack"`
	Sum     string `json:"sha256"`
	Body    span   `json:"body"`
}

// span is the text of a value as a part of the data that is decoded. A
// json.RawMessage would be a copy, and nearly all of a file is one value. It is
// used only with json.Unmarshal, which does not change its input.
type span []byte

func (s *span) UnmarshalJSON(text []byte) error {
	*s = text
	return nil
}

// Encode writes the file piece by piece, so that it is never in memory as a
// whole. Equal files give equal bytes.
//
// The checksum follows the body, because it is not known before the body is written. It covers
// the body's bytes and not its meaning: it can be checked without parsing anything.
func (f *File) Encode(w io.Writer) error {
	out := &fileWriter{to: bufio.NewWriter(w)}
	out.printf(`%s%d,"version":`, prefix, FileFormat)
	out.value(f.Version)
	out.printf(`,"stack":`)
	out.value(f.Stack)
	out.printf(`,"body":`)
	out.hash = sha256.New()
	out.printf(`{"plans":`)
	writeList(out, f.Plans, (*fileWriter).plan)
	if len(f.Checks) > 0 {
		out.printf(`,"checks":`)
		out.value(f.Checks)
	}
	out.printf("}")
	sum := hex.EncodeToString(out.hash.Sum(nil))
	out.hash = nil
	out.printf(",\"sha256\":%q}\n", sum)
	if out.err == nil {
		out.err = out.to.Flush()
	}
	return out.err
}

// fileWriter keeps the first error and writes nothing after it, so that Encode can check once, at the
// end, and its code reads like the output.
type fileWriter struct {
	to   *bufio.Writer
	hash hash.Hash // of what is written, while set
	err  error
}

func (w *fileWriter) write(text []byte) {
	if w.err != nil {
		return
	}
	if w.hash != nil {
		w.hash.Write(text)
	}
	_, w.err = w.to.Write(text)
}

func (w *fileWriter) printf(format string, args ...any) { w.write(fmt.Appendf(nil, format, args...)) }

func (w *fileWriter) value(v any) {
	text, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("plan: encode: %w", err)
	}
	w.write(text)
}

// writeList writes one element per line.
func writeList[T any](w *fileWriter, list []T, each func(*fileWriter, T)) {
	for i, v := range list {
		w.printf("%c\n", "[,"[min(i, 1)])
		each(w, v)
	}
	if len(list) == 0 {
		w.printf("[")
	}
	w.printf("]")
}

// plan writes the single fields first, then changes and pins. It cuts off the closing brace of the
// former and writes it at the end. planForm ends in Changes and Pins, which are empty here and
// therefore left out, and always has fields before them.
func (w *fileWriter) plan(p *Plan) {
	lists := tableOf(p)
	form := planForm{plainPlan: plainPlan(*p), prior: p.prior, Declared: p.Declared, ACLs: lists.lists}
	for _, c := range p.Access {
		form.Access = append(form.Access, accessForm{c, c.Before, c.After})
	}
	text, err := json.Marshal(form)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("plan: encode: %w", err)
	}
	w.write(bytes.TrimSuffix(text, []byte("}")))
	w.printf(`,"changes":`)
	writeList(w, p.Changes, func(w *fileWriter, c Change) {
		form, err := changeFormOf(&c, lists)
		if err != nil && w.err == nil {
			w.err = err
		}
		w.value(form)
	})
	w.printf(`,"pins":`)
	writeList(w, p.Pins, func(w *fileWriter, pin Pin) { w.value(pin) })
	w.printf("}")
}

// prefix is how every file of ours begins: Encode writes the fields in this order.
const prefix = `{"locktree_plan":`

// DecodeFile reads what Encode wrote. The error is [ErrNotPlan], a
// [*DamagedError], a [*VersionError], the reader's own, or says that the file is cut off;
// no input makes it panic.
func DecodeFile(r io.Reader) (*File, error) {
	data, err := readAll(r)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, damaged("", fmt.Errorf("it is larger than %d bytes", maxFile))
	// Cut off within the prefix: this can only be the beginning of a plan file.
	case len(data) > 0 && len(data) < len(prefix) && strings.HasPrefix(prefix, string(data)):
		return nil, truncated(len(data))
	case !bytes.HasPrefix(data, []byte(prefix)):
		return nil, ErrNotPlan
	}
	env, err := openEnvelope(data)
	if err != nil {
		return nil, err
	}
	var body bodyForm
	if err := json.Unmarshal(env.Body, &body); err != nil {
		return nil, damaged("body", err)
	}
	f := &File{Format: env.Format, Version: env.Version, Stack: env.Stack, Checks: body.Checks}
	for i, form := range body.Plans {
		p, err := form.plan()
		if err == nil && p.Stack != f.Stack {
			err = fmt.Errorf("stack %q in a file of stack %q", p.Stack, f.Stack)
		}
		if err != nil {
			return nil, damaged(fmt.Sprintf("body.plans[%d]", i), err)
		}
		f.Plans = append(f.Plans, p)
	}
	return f, nil
}

// readAll reads a file into a buffer of its size, if that is known: growing the buffer
// would take twice as much.
//
// If seeking fails, as with a pipe, the file is read without knowing its size; only seeking back must
// succeed. Reading one byte more than the limit reveals a file that is too long.
func readAll(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	if s, ok := r.(io.Seeker); ok {
		at, err := s.Seek(0, io.SeekCurrent)
		if err == nil {
			end, _ := s.Seek(0, io.SeekEnd)
			b.Grow(int(min(max(end-at, 0), maxFile) + bytes.MinRead))
			_, err = s.Seek(at, io.SeekStart)
			if err != nil {
				return nil, err
			}
		}
	}
	_, err := b.ReadFrom(io.LimitReader(r, maxFile+1))
	return b.Bytes(), err
}

func openEnvelope(data []byte) (*envelope, error) {
	var env envelope
	// The version comes first in the file, so that it can be read even if this program
	// does not know the form of the rest.
	n, digits := 0, data[len(prefix):]
	// Nine digits fit into an int of 32 bits. Without any, n stays 0.
	_, _ = fmt.Sscanf(string(digits[:min(len(digits), 9)]), "%d", &n)
	if n > FileFormat {
		_ = json.Unmarshal(data, &env)
		return nil, &VersionError{What: "plan file", Got: n, Reads: FileFormat, WrittenBy: env.Version}
	}
	if err := json.Unmarshal(data, &env); err != nil {
		if cutOff(data) {
			return nil, truncated(len(data))
		}
		return nil, damaged("", err)
	}
	// Newer formats were refused above, and there are no older ones.
	if env.Format != FileFormat {
		return nil, damaged("locktree_plan", fmt.Errorf("%d is not a format", env.Format))
	}
	if sum := sha256.Sum256(env.Body); hex.EncodeToString(sum[:]) != env.Sum {
		return nil, damaged("", errors.New("its checksum does not match its contents"))
	}
	return &env, nil
}

// cutOff reports whether the data is the beginning of a value. A Decoder can tell, json.Unmarshal
// cannot.
//
// Damage in the middle and a missing end are distinguished because they need different actions: to look
// for what changes the file, or to write it again.
func cutOff(data []byte) bool {
	var v json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(data)).Decode(&v), io.ErrUnexpectedEOF)
}

func damaged(field string, err error) error {
	return &DamagedError{What: "plan file", Field: field, Err: err}
}
