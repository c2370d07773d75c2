package saved

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// format is the version of the files that this package writes and reads.
const format = 2

// maxFile bounds what [Decode] reads.
const maxFile = 256 << 20

// Question is what plans answer: those of all ensembles of a configuration.
type Question struct {
	Stack     string
	Ensembles []diff.Ensemble
	Options   plan.Options // without Identities and Elsewhere, which follow from the ensembles
	Checks    []plan.Check // the results of the configuration's checks at that time
}

// Answer makes the plans, one for each ensemble. It changes nothing in the question.
func (q *Question) Answer() []*plan.Plan { return diff.CompareAll(q.Ensembles, q.Options) }

// File is a saved plan that was read.
type File struct {
	Stack  string
	Plans  []*plan.Plan
	Checks []plan.Check
}

// CheckStack returns an error when the saved plan is not of this stack.
func (f *File) CheckStack(stack string) error {
	if f.Stack != stack {
		return &refusal{explain.Explanation{Summary: "Saved plan is of another stack"},
			fmt.Sprintf("the saved plan is of stack %q, this configuration is of stack %q: apply it from its own directory", f.Stack, stack)}
	}
	return nil
}

// header is the first line of a file. The fields Format and Version come first, so that every program can read them.
type header struct {
	Format  int    `json:"locktree_plan"`
	Version string `json:"version"`
	Answer  string `json:"answer_sha256"`
}

const (
	prefix  = `{"locktree_plan":`
	sealLen = 2*sha256.Size + 2 // the last line: the sum of all before it, between line feeds
)

// Encode writes a question, and the sum of the answer that [Question.Answer] gives in this version of the program. It writes piece
// by piece, so that the file is never in memory as a whole. Equal questions give equal bytes.
func (q *Question) Encode(w io.Writer, version string, answer []*plan.Plan) error {
	head, err := json.Marshal(header{format, version, sumOf(answer)})
	if err != nil {
		return fmt.Errorf("saved: encode: %w", err)
	}
	seal := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(w, seal))
	_, _ = out.Write(append(head, '\n')) // Flush returns its error
	_ = writer(out).document(reflect.ValueOf(q).Elem())
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%x\n", seal.Sum(nil))
	return err
}

// sumOf is the sum of everything that plans contain, including what they keep for their transactions.
func sumOf(answer []*plan.Plan) string {
	sum := sha256.New()
	out := bufio.NewWriter(sum)
	_ = writer(out).document(reflect.ValueOf(answer))
	_ = out.Flush() // a hash returns no error
	return hex.EncodeToString(sum.Sum(nil))
}

// Decode reads what Encode wrote, if this program is of the version that wrote it, and answers the question. The error may be
// [ErrNotPlan], a [*VersionError] or the reader's own. Any other error says that the file is cut off or damaged, or that this
// program makes another plan. No input makes it panic.
func Decode(r io.Reader, version string) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1)) // one byte more reveals a file that is too long
	if err != nil {
		return nil, err
	}
	head, body, err := openFile(data, version)
	if err != nil {
		return nil, err
	}
	q := &Question{}
	if err := reader(body).document(reflect.ValueOf(q).Elem()); err != nil {
		return nil, otherBuild(version, err)
	}
	plans, err := answerOf(q, head.Answer)
	if err != nil {
		return nil, otherBuild(version, err)
	}
	return &File{Stack: q.Stack, Plans: plans, Checks: q.Checks}, nil
}

// openFile checks the outside of a file and returns the question in it.
func openFile(data []byte, version string) (head header, body []byte, err error) {
	switch {
	case len(data) > maxFile:
		return head, nil, damaged(fmt.Sprintf("it is larger than %d MiB", maxFile>>20))
	// Cut off within the prefix: this can only be the beginning of a plan file.
	case len(data) > 0 && len(data) < len(prefix) && strings.HasPrefix(prefix, string(data)):
		return head, nil, truncated(len(data))
	case !bytes.HasPrefix(data, []byte(prefix)):
		return head, nil, ErrNotPlan
	}
	// Format and version come first: other formats look different. A file that is cut off here has neither.
	n, _ := fmt.Sscanf(string(data[:min(len(data), 200)]), prefix+`%d,"version":%q`, &head.Format, &head.Version)
	if n > 0 && head.Format != format || n > 1 && head.Version != version {
		return head, nil, &VersionError{Wrote: head.Version, Reads: version, Format: head.Format}
	}
	end := len(data) - sealLen
	line := bytes.IndexByte(data, '\n')
	if line < 0 || line >= end || data[end] != '\n' || data[len(data)-1] != '\n' {
		return head, nil, truncated(len(data))
	}
	written, err := hex.DecodeString(string(data[end+1 : len(data)-1]))
	if err != nil { // a cut file may end with a line feed of its text
		return head, nil, truncated(len(data))
	}
	if seal := sha256.Sum256(data[:end]); !bytes.Equal(written, seal[:]) {
		return head, nil, damaged("its checksum does not match its contents")
	}
	if err := json.Unmarshal(data[:line], &head); err != nil {
		return head, nil, damaged(err.Error())
	}
	return head, data[line+1 : end], nil
}

// answerOf returns the answer to the question of a file, and an error if its sum is not the wanted one.
//
// Compare relies on trees that were read or loaded. In a forged file they may be anything, so a panic is an error here.
func answerOf(q *Question, want string) (plans []*plan.Plan, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("it makes no sense: %v", trouble)
		}
	}()
	for _, e := range q.Ensembles {
		if err := checkSound(e, q.Stack); err != nil {
			return nil, err
		}
	}
	plans = q.Answer()
	if sumOf(plans) != want {
		return nil, errors.New("the answer differs")
	}
	return plans, nil
}

// checkSound checks what Compare does not check itself: which nodes belong to the stack and at which paths, because a plan may
// delete them.
func checkSound(e diff.Ensemble, stack string) error {
	root := e.Desired.Root
	if err := cmp.Or(kind.ValidatePath(root), kind.ValidateName(stack)); err != nil {
		return err
	}
	if e.Desired.Stack != stack {
		return fmt.Errorf("stack %q in a file of stack %q", e.Desired.Stack, stack)
	}
	if e.Current == nil {
		return nil
	}
	if at := e.Current.IndexPin.Path; at != "" && at != record.IndexPath(root, stack) {
		return fmt.Errorf("the record is said to be at %q", at)
	}
	for _, n := range e.Current.Nodes {
		if err := kind.ValidatePath(n.Path); err != nil {
			return err
		}
		inside := n.Path != root && kind.Below(n.Path, root) && !kind.Below(n.Path, record.ScaffoldPath(root))
		if n.Payload != nil && n.Payload.Owner.Stack == stack && !inside {
			return fmt.Errorf("%s is not a node of stack %q", n.Path, stack)
		}
		if n.Live != nil && slices.ContainsFunc(n.Live.Parts, func(part plan.Part) bool { return kind.ValidateName(part.Name) != nil }) {
			return fmt.Errorf("%s has a child without a legal name", n.Path)
		}
	}
	return nil
}

// ErrNotPlan: the data is not a saved plan.
var ErrNotPlan error = &refusal{explain.Explanation{Summary: "Not a plan file", Next: `"locktree plan -out FILE" writes one.`}, "not a locktree plan file"}

// refusal is an error about a file that says what to do instead.
type refusal struct {
	explain.Explanation
	text string
}

func (e *refusal) Error() string { return "plan: " + e.text }

// Explain implements [explain.Explainer].
func (e *refusal) Explain() explain.Explanation { return e.Explanation }

func truncated(size int) error {
	return &refusal{explain.Explanation{Summary: "The plan file is cut off", Next: "Create the plan again."}, fmt.Sprintf("the plan file ends after %d bytes, in the middle", size)}
}

func damaged(why string) error {
	return &refusal{explain.Explanation{Summary: "The plan file is damaged", Written: "Nothing was written.", Next: "Create the plan again."}, "damaged plan file: " + why}
}

// otherBuild is the error of an undamaged file that gives another plan here, although its writer had the version of this program.
func otherBuild(version string, why error) error {
	return &refusal{explain.Explanation{Summary: "Saved plan of another build", Written: "Nothing was written.",
		Next: "Apply it with the program that made it, or create the plan again."},
		fmt.Sprintf("the plan was made by locktree %s, but not by this program, whose plan differs: %v", version, why)}
}

// VersionError means that another version of the program wrote the file.
type VersionError struct {
	Wrote, Reads string // the versions of the programs; Wrote may be ""
	Format       int    // of the file
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("plan: the plan file was written by locktree %s (format %d), this is locktree %s (format %d), which may plan something else", e.Wrote, e.Format, e.Reads, format)
}

// Explain implements [explain.Explainer].
func (e *VersionError) Explain() explain.Explanation {
	return explain.Explanation{Summary: "Saved plan of another version", Written: "Nothing was written.",
		Next: fmt.Sprintf("Apply it with the version that wrote it, or create the plan again. To have one version everywhere, pin it: locktree { required_version = %q }.", "= "+e.Reads)}
}
