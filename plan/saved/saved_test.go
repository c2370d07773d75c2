package saved_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/recipes/kind"
)

const (
	version = "1.2.3"
	stack   = "shop"
	prefix  = `{"locktree_plan":`
)

var (
	admin  = kind.ACL{Scheme: "digest", ID: "admin:AAAA", Perms: kind.PermAll}
	worker = kind.ACL{Scheme: "digest", ID: "worker:BBBB", Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
)

func declare(path string, k *kind.Kind, edit ...func(*plan.Node)) *plan.Node {
	name := k.Name + path[strings.LastIndexByte(path, '/')+1:]
	n := &plan.Node{Path: path, Addr: plan.Addr(k.Name + "." + name), ACL: kind.List{admin, worker},
		Payload: &kind.Payload{Params: k.New(), Owner: kind.Owner{Stack: stack, Addr: k.Name + "." + name}}}
	for _, f := range edit {
		f(n)
	}
	return n
}

func permits(n int) func(*plan.Node) {
	return func(node *plan.Node) { node.Payload.Params.(*kind.SemaphoreParams).Permits = n }
}

func tree(nodes ...*plan.Node) *plan.Tree {
	return &plan.Tree{Ensemble: "main", Root: "/locks", Stack: stack, Nodes: nodes}
}

// found makes a declared tree one that was read.
func found(t *plan.Tree) *plan.Tree {
	t.IndexPin = plan.Pin{Path: record.IndexPath(t.Root, stack), Czxid: 3, Version: 4}
	for i, n := range t.Nodes {
		n.Payload.Gen = 1
		n.Live = &plan.Live{Czxid: int64(i + 10), Version: 1, ModifiedMs: 1_700_000_000_000}
		for _, child := range n.Payload.Children() {
			n.Live.Parts = append(n.Live.Parts, plan.Part{Name: child, Czxid: int64(i + 10), ACL: n.ACL})
		}
	}
	return t
}

// question has a change of every sort.
func question() *saved.Question {
	desired := tree(
		declare("/locks/new", kind.RWLock),
		declare("/locks/pay", kind.Namespace),
		declare("/locks/pay/ledger", kind.Mutex),
		declare("/locks/pay/pool", kind.Semaphore, permits(5)),
	)
	desired.Intent.Outputs = []plan.Output{
		{Name: "o", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"v"`)},
		{Name: "s", Sensitive: true, Value: json.RawMessage(`"hunter2"`), From: []plan.Addr{"mutex.ledger"}},
	}
	current := found(tree(
		declare("/locks/old", kind.Election),
		declare("/locks/pay", kind.Namespace),
		declare("/locks/pay/ledger", kind.Mutex),
		declare("/locks/pay/pool", kind.Semaphore, permits(3)),
	))
	current.Nodes[3].Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "lease-1", ID: "host-a/1", Session: 7}}}
	return &saved.Question{Stack: stack, Checks: []plan.Check{{Addr: "check.small", Verdict: plan.CheckPass}}, Ensembles: []diff.Ensemble{{
		Servers: []string{"zk1:2181", "zk2:2181"}, Current: current, Desired: desired, Identities: kind.List{{Scheme: "digest", ID: admin.ID}},
	}}, Options: plan.Options{Drain: time.Minute}}
}

func file(t testing.TB, q *saved.Question) []byte {
	var b bytes.Buffer
	require.NoError(t, q.Encode(&b, version, q.Answer()))
	return b.Bytes()
}

func decode(data []byte) (*saved.File, error) { return saved.Decode(bytes.NewReader(data), version) }

func TestSavedPlanIsAnsweredAgain(t *testing.T) {
	q := question()
	f, err := decode(file(t, q))
	require.NoError(t, err)
	require.Equal(t, q.Answer(), f.Plans)
	require.Equal(t, q.Checks, f.Checks)
	require.Equal(t, []string{"zk1:2181", "zk2:2181"}, f.Plans[0].Servers)
	require.EqualValues(t, 60_000, f.Plans[0].Drain)
	require.True(t, f.Plans[0].HasChanges())
	require.Equal(t, file(t, q), file(t, q), "equal questions give equal bytes")
}

// A new field of a tree, a node or the options must get into the file without a line of code, or this test fails.
func TestEveryFieldOfTheQuestionIsCarried(t *testing.T) {
	for _, k := range kind.All() {
		q := &saved.Question{}
		root := &plan.Tree{}
		filler{t: t, params: k, tree: root}.fill(reflect.ValueOf(root).Elem(), "Tree")
		filler{t: t, params: k, tree: root}.fill(reflect.ValueOf(q).Elem(), "Question")
		back, err := saved.Carried(q)
		require.NoError(t, err)
		require.Equal(t, q, back, k.Name)
		require.Same(t, back.Ensembles[0].Desired, back.Ensembles[0].Desired.Intent.Elsewhere[0], "trees may refer to each other")
	}
}

// filler sets every field to a value of its own.
type filler struct {
	t      testing.TB
	params *kind.Kind
	tree   *plan.Tree
	n      *int64
}

func (f filler) fill(v reflect.Value, at string) {
	if f.n == nil {
		f.n = new(int64)
	}
	*f.n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*f.n)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*f.n))
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *f.n))
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*plan.Tree]() {
			v.Set(reflect.ValueOf(f.tree))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), at)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), at+"[]")
		f.fill(v.Index(1), at+"[]")
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, at)
		f.fill(one, at+"[]")
		v.SetMapIndex(key, one)
	case reflect.Interface:
		switch v.Type() {
		case reflect.TypeFor[kind.Params]():
			p := f.params.New()
			f.fill(reflect.ValueOf(p).Elem(), at)
			v.Set(reflect.ValueOf(p))
		default:
			f.t.Fatalf("%s is a %s, which is not carried", at, v.Type())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMilli(int64(*f.n))))
			return
		}
		require.LessOrEqual(f.t, v.NumField(), 63, at)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			require.True(f.t, field.IsExported(), "%s.%s cannot be carried: a field of a tree must be exported", at, field.Name)
			f.fill(v.Field(i), at+"."+field.Name)
		}
		if v.Type() == reflect.TypeFor[plan.Output]() {
			v.FieldByName("Sensitive").SetBool(false) // its value would be left out
		}
	default:
		f.t.Fatalf("%s is a %s, which is not carried", at, v.Type())
	}
}

// The sum covers everything in an answer, also what only its transactions use.
func TestTheSumSeesEveryPartOfAnAnswer(t *testing.T) {
	plans := question().Answer()
	sum := func() string {
		return saved.SumOf(plans)
	}
	before := sum()
	for what, edit := range map[string]func(p *plan.Plan){
		"a problem":    func(p *plan.Plan) { p.Problems = append(p.Problems, plan.Problem{Detail: "x"}) },
		"a pin":        func(p *plan.Plan) { p.Pins[0].Version++ },
		"a parameter":  func(p *plan.Plan) { p.Changes[len(p.Changes)-1].Params[0].After = 6 },
		"a list":       func(p *plan.Plan) { p.Changes[0].Before.ACL = kind.List{admin} },
		"a payload":    func(p *plan.Plan) { p.Changes[0].Before.Payload.Gen++ },
		"no change":    func(p *plan.Plan) { p.Changes = nil },
		"another kind": func(p *plan.Plan) { p.Changes[0].Kind = kind.Mutex },
	} {
		plans = question().Answer()
		require.Equal(t, before, sum())
		edit(plans[0])
		require.NotEqual(t, before, sum(), what)
	}
}

func TestSecretsAreNotInTheFile(t *testing.T) {
	data := file(t, question())
	require.NotContains(t, string(data), "hunter2", "the value of a sensitive output")
	require.Contains(t, string(data), admin.ID, "an apply needs the digest")
	f, err := decode(data)
	require.NoError(t, err)
	doc, err := json.Marshal(document.Of("", f.Checks, f.Plans...))
	require.NoError(t, err)
	require.NotContains(t, string(doc), "AAAA")
	require.NotContains(t, string(doc), "BBBB")
}

func TestTruncatedFileIsSaidToBeTruncatedWhereverItEnds(t *testing.T) {
	data := file(t, question())
	for n := 1; n < len(data); n += 7 {
		_, err := decode(data[:n])
		require.ErrorContains(t, err, fmt.Sprintf("ends after %d bytes", n), "cut after %d of %d", n, len(data))
	}
	_, err := decode(nil)
	require.ErrorIs(t, err, saved.ErrNotPlan)
}

func TestDamagedFileIsRefusedWhicheverByteChanged(t *testing.T) {
	data := file(t, question())
	for n := len(prefix); n < len(data)-1; n += 5 {
		bad := bytes.Clone(data)
		bad[n] ^= 0x04
		_, err := decode(bad)
		require.Error(t, err, "byte %d", n)
		require.NotErrorIs(t, err, saved.ErrNotPlan)
	}
	bad := bytes.Replace(data, []byte("ledger"), []byte("legder"), 1)
	require.NotEqual(t, data, bad)
	_, err := decode(bad)
	require.ErrorContains(t, err, "damaged plan file: its checksum does not match")
	_, err = decode(append(data, '{'))
	require.Error(t, err, "something follows")
}

func TestForeignFilesAreNotPlans(t *testing.T) {
	for _, s := range []string{"PK\x03\x04zip", "{}", `{"format_version":"1.2"}`, "null", "[]", " " + prefix + "1}"} {
		_, err := decode([]byte(s))
		require.ErrorIs(t, err, saved.ErrNotPlan, s)
	}
}

// Another version may plan something different, so its file is refused. The error names both versions and what to pin.
func TestPlanOfAnotherVersionIsRefused(t *testing.T) {
	later := func() []byte {
		var b bytes.Buffer
		require.NoError(t, question().Encode(&b, "1.2.4", question().Answer()))
		return b.Bytes()
	}()
	for wrote, data := range map[string][]byte{
		"1.2.4": later,
		"0.1.0": []byte(prefix + `1,"version":"0.1.0","stack":"shop","body":{"plans":[]},"sha256":"00"}`),
		"9.0.0": []byte(prefix + `3,"version":"9.0.0","shape":["nothing we know"`),
	} {
		_, err := decode(data)
		var e *saved.VersionError
		require.ErrorAs(t, err, &e)
		require.ErrorContains(t, err, "locktree "+wrote)
		require.ErrorContains(t, err, "locktree "+version)
		require.Contains(t, e.Explain().Next, `required_version = "= 1.2.3"`)
	}
}

// The version does not always tell: a build before 0.1.0 wrote this file in another form, but with the version of the present build.
func TestPlanOfAnotherBuildIsRefused(t *testing.T) {
	data, err := os.ReadFile("testdata/former_build.ltplan")
	require.NoError(t, err)
	_, err = saved.Decode(bytes.NewReader(data), "0.1.0-dev")
	require.ErrorContains(t, err, "of another form")
}

func TestTooLargeAFileIsRefused(t *testing.T) {
	zeros := io.MultiReader(strings.NewReader(prefix), zeroes{})
	_, err := saved.Decode(zeros, version)
	require.ErrorContains(t, err, "larger than 256 MiB")
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// sealed returns head and body with the right checksum.
func sealed(head, body []byte) []byte {
	data := append(append(bytes.Clone(head), '\n'), body...)
	return fmt.Appendf(data, "\n%x\n", sha256.Sum256(data))
}

// The seal keeps accidents out, not authors. But the answer in a file must be the one to its question. So every accepted file holds what
// package diff plans, and no write outside the stack.
func TestSealedNonsenseIsRefused(t *testing.T) {
	refused := func(data []byte, what string) {
		t.Helper()
		_, err := decode(data)
		require.ErrorContains(t, err, "whose plan differs", what)
	}
	good := file(t, question())
	_, err := decode(good)
	require.NoError(t, err)
	other := question()
	other.Options.Destroy = true
	ofOther := file(t, other)
	head, _, _ := bytes.Cut(good, []byte("\n"))
	_, rest, _ := bytes.Cut(ofOther, []byte("\n"))
	refused(sealed(head, rest[:len(rest)-66]), "the question of one plan and the answer of another")
	_, body, _ := bytes.Cut(good, []byte("\n"))
	body = body[:len(body)-66]
	refused(sealed(head, append(bytes.Clone(body), 0)), "something follows")
	refused(sealed(head, body[:len(body)-9]), "something is missing")

	for what, edit := range map[string]func(*saved.Question){
		"another stack":      func(q *saved.Question) { q.Ensembles[0].Desired.Stack = "other" },
		"no stack":           func(q *saved.Question) { q.Stack, q.Ensembles[0].Desired.Stack = "", "" },
		"no root":            func(q *saved.Question) { q.Ensembles[0].Desired.Root = "" },
		"a record elsewhere": func(q *saved.Question) { q.Ensembles[0].Current.IndexPin.Path = "/elsewhere" },
		"a node elsewhere":   func(q *saved.Question) { q.Ensembles[0].Current.Nodes[0].Path = "/other/a" },
		"a node of the tool": func(q *saved.Question) { q.Ensembles[0].Current.Nodes[0].Path = "/locks/.locktree/stacks" },
		"a path that climbs": func(q *saved.Question) { q.Ensembles[0].Current.Nodes[0].Path = "/locks/../a" },
		"a part that climbs": func(q *saved.Question) { q.Ensembles[0].Current.Nodes[3].Live.Parts[0].Name = "../x" },
		// No read returns these trees, and package diff panics on them.
		"no node":    func(q *saved.Question) { q.Ensembles[0].Current.Nodes[0] = nil },
		"no tree":    func(q *saved.Question) { q.Ensembles[0].Desired = nil },
		"no payload": func(q *saved.Question) { q.Ensembles[0].Current.Nodes[0].Payload.Params = nil },
	} {
		q := question()
		edit(q)
		var b bytes.Buffer
		require.NoError(t, q.Encode(&b, version, answerOf(q)), what)
		refused(b.Bytes(), what)
	}
}

// answerOf returns the answer, or nil if there is none.
func answerOf(q *saved.Question) (plans []*plan.Plan) {
	defer func() { _ = recover() }()
	return q.Answer()
}

func FuzzDecode(f *testing.F) {
	good := file(f, question())
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(prefix + `2,"version":"9"}`))
	head, body, _ := bytes.Cut(good, []byte("\n"))
	f.Add(body[:len(body)-66])
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, sealed(head, data)} { // as a body, so that the seal does not stop the fuzzer
			if file, err := decode(data); err != nil {
				require.NotEmpty(t, err.Error())
			} else {
				require.NotEmpty(t, file.Plans)
			}
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }
func (failing) Read([]byte) (int, error)  { return 0, errors.New("bad sector") }

func TestErrorsOfTheDiskAreNotHidden(t *testing.T) {
	require.ErrorContains(t, question().Encode(failing{}, version, nil), "disk full")
	_, err := saved.Decode(failing{}, version)
	require.ErrorContains(t, err, "bad sector")
}

// A list is in the file once, however many nodes, parts and payloads have it. It is also in memory once after the file is read.
func TestAnAccessListIsWrittenAndReadOnce(t *testing.T) {
	nodes := func(n int) (out []*plan.Node) {
		for i := range 50 {
			s := declare(fmt.Sprintf("/locks/s%02d", i), kind.Semaphore, permits(n))
			s.Payload.ChildACL = kind.List{admin}
			out = append(out, s)
		}
		return out
	}
	q := &saved.Question{Stack: stack, Ensembles: []diff.Ensemble{{Current: found(tree(nodes(1)...)), Desired: tree(nodes(2)...), Identities: kind.List{{Scheme: "digest", ID: admin.ID}}}}}
	data := file(t, q)
	require.Equal(t, 1, strings.Count(string(data), admin.ID))
	require.Equal(t, 1, strings.Count(string(data), worker.ID))
	require.Equal(t, 1, strings.Count(string(data), "/locks/s07"))
	f, err := decode(data)
	require.NoError(t, err)
	first := f.Plans[0].Changes[0]
	for _, c := range f.Plans[0].Changes {
		require.Same(t, &first.Before.ACL[0], &c.Before.ACL[0])
		require.Same(t, &first.Before.ACL[0], &c.After.ACL[0])
		require.Same(t, &first.Before.Payload.ChildACL[0], &c.After.Payload.ChildACL[0])
		for _, part := range c.Before.Live.Parts {
			require.Same(t, &first.Before.ACL[0], &part.ACL[0])
		}
	}
}
