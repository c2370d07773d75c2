package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
)

// richPlan has a change of every sort.
func richPlan(t testing.TB) *plan.Plan {
	m := applied(t, base())
	tree := declared(
		declare("/locks/new", kind.RWLock),
		declare("/locks/pay", kind.Namespace, acl(admin)),
		declare("/locks/pay/ledger", kind.Mutex, set("wire", "kazoo")),
		declare("/locks/pay/pool", kind.Semaphore, set("permits", 5), acl(admin)),
	)
	tree.Intent.Outputs = []plan.Output{{Name: "o", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"v"`)}}
	current := held(m.read(t, testRoot, testStack), "/locks/pay/pool", 2, 1)
	return plan.Diff(current, tree, plan.Options{Identities: us})
}

func saved(t testing.TB, plans ...*plan.Plan) []byte {
	var b bytes.Buffer
	require.NoError(t, (&plan.File{Version: "1.2.3", Stack: testStack, Plans: plans}).Encode(&b))
	return b.Bytes()
}

func TestSavedPlanComesBackWhole(t *testing.T) {
	p := richPlan(t)
	f, err := plan.DecodeFile(bytes.NewReader(saved(t, p, plan.Diff(nil, base(), plan.Options{}))))
	require.NoError(t, err)
	require.Equal(t, "1.2.3", f.Version)
	require.Len(t, f.Plans, 2)
	require.NoError(t, f.CheckStack(testStack))
	q := f.Plans[0]
	require.Equal(t, p.Pins, q.Pins)
	require.Equal(t, p.Index, q.Index)
	require.Equal(t, p.Problems, q.Problems)
	require.Equal(t, p.Outputs, q.Outputs)
	require.Equal(t, p.Transaction, q.Transaction)
	require.Equal(t, p.Changes[3].Usage, q.Changes[3].Usage)
	want, err := p.Operations("0123456789abcdef", kind.WorldAll())
	require.NoError(t, err)
	got, err := q.Operations("0123456789abcdef", kind.WorldAll())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Contains(t, string(saved(t, p)), admin.ID, "an apply needs the digest")
}

func TestPlanOfAnotherStackIsRefused(t *testing.T) {
	f, err := plan.DecodeFile(bytes.NewReader(saved(t, richPlan(t))))
	require.NoError(t, err)
	require.NoError(t, f.CheckStack("shop"))
	err = f.CheckStack("other")
	require.ErrorContains(t, err, `of stack "shop"`)
	require.ErrorContains(t, err, `of stack "other"`)
}

func TestTruncatedFileIsSaidToBeTruncatedWhereverItEnds(t *testing.T) {
	data := saved(t, richPlan(t))
	data = bytes.TrimSuffix(data, []byte("\n"))
	step := 1
	if len(data) > 3000 {
		step = 7
	}
	for n := 1; n < len(data); n += step {
		_, err := plan.DecodeFile(bytes.NewReader(data[:n]))
		require.ErrorContains(t, err, fmt.Sprintf("ends after %d bytes", n), "cut after %d of %d", n, len(data))
	}
	_, err := plan.DecodeFile(strings.NewReader(""))
	require.ErrorIs(t, err, plan.ErrNotPlan)
}

func TestDamagedFileIsRefusedWhicheverByteChanged(t *testing.T) {
	data := saved(t, richPlan(t))
	body := bytes.Index(data, []byte(`"body"`))
	for n := body + 8; n < len(data)-2; n += 13 {
		bad := bytes.Clone(data)
		bad[n] ^= 0x04
		_, err := plan.DecodeFile(bytes.NewReader(bad))
		require.Error(t, err, "byte %d", n)
		require.NotErrorIs(t, err, plan.ErrNotPlan)
	}
	bad := bytes.Replace(data, []byte(`"permits":5`), []byte(`"permits":6`), 1)
	require.NotEqual(t, data, bad)
	_, err := plan.DecodeFile(bytes.NewReader(bad))
	var e *plan.DamagedError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "checksum")
	_, err = plan.DecodeFile(bytes.NewReader(append(data, '{')))
	require.ErrorAs(t, err, &e, "something follows")
}

func TestForeignFilesAreNotPlans(t *testing.T) {
	for _, s := range []string{"PK\x03\x04zip", "{}", `{"format_version":"1.2"}`, "null", "[]", " " + plan.Prefix + "1}"} {
		_, err := plan.DecodeFile(strings.NewReader(s))
		require.ErrorIs(t, err, plan.ErrNotPlan, s)
	}
}

func TestNewerFileSaysUpgrade(t *testing.T) {
	for _, s := range []string{
		plan.Prefix + `2,"version":"9.0.0","body":{}}`,
		plan.Prefix + `2,"shape":["nothing we know"`,
		plan.Prefix + `99999999999999999999}`,
	} {
		_, err := plan.DecodeFile(strings.NewReader(s))
		var e *plan.VersionError
		require.ErrorAs(t, err, &e, s)
		require.ErrorContains(t, err, "upgrade locktree")
	}
	_, err := plan.DecodeFile(strings.NewReader(plan.Prefix + `2,"version":"9.0.0","body":{}}`))
	require.ErrorContains(t, err, "9.0.0")
	var e *plan.DamagedError
	_, err = plan.DecodeFile(strings.NewReader(plan.Prefix + `0,"body":{}}`))
	require.ErrorAs(t, err, &e)
}

// sealed makes a file with a right checksum around any body.
func sealed(body string) []byte {
	return fmt.Appendf(nil, `%s1,"version":"1","stack":%q,"sha256":%q,"body":%s}`, plan.Prefix, testStack, plan.Sum([]byte(body)), body)
}

// The checksum keeps accidents out, not authors: a body that is sealed but makes
// no sense must not get as far as a panic or a write outside the stack.
func TestSealedNonsenseIsRefused(t *testing.T) {
	payload, err := declare("/locks/a", kind.Mutex).Payload.Encode()
	require.NoError(t, err)
	node := func(path, live string) string {
		return fmt.Sprintf(`{"path":%q,"address":"a","payload":%s,"acl":0%s}`, path, payload, live)
	}
	const live = `,"live":{}`
	planned := func(changes string) string {
		return fmt.Sprintf(`{"plans":[{"root":"/locks","stack":"shop","index":{"path":"/locks/.locktree/stacks/shop"},"acls":[[]],"changes":[%s]}]}`, changes)
	}
	_, err = plan.DecodeFile(bytes.NewReader(sealed(planned(`{"action":"create","after":` + node("/locks/a", "") + `}`))))
	require.NoError(t, err, "the base of the cases below is sound")
	for _, body := range []string{
		`[]`, `{"plans":[{}]}`, `{"plans":[{"root":"/locks","stack":"other","index":{"path":"/locks/.locktree/stacks/other"}}]}`,
		`{"plans":[{"root":"/locks","stack":"shop","index":{"path":"/elsewhere"}}]}`,
		planned(`{"action":"update","after":` + node("/locks/a", "") + `}`),
		planned(`{"action":"create","before":` + node("/locks/a", live) + `}`),
		planned(`{"action":"delete","before":` + node("/locks/a", "") + `}`),
		planned(`{"action":"explode","after":` + node("/locks/a", "") + `}`),
		planned(`{"action":"create","after":` + node("/other/a", "") + `}`),
		planned(`{"action":"create","after":` + node("/locks/.locktree/stacks", "") + `}`),
		planned(`{"action":"create","after":` + node("/locks/../a", "") + `}`),
		planned(`{"action":"no-op","before":` + node("/locks/b", live) + `,"after":` + node("/locks/a", "") + `}`),
		planned(`{"action":"delete","before":` + node("/locks/a", `,"live":{"parts":[{"name":"../x"}]}`) + `}`),
		planned(`{"action":"create","after":{"path":"/locks/a","payload":{"x":1}}}`),
		planned(`{"action":"create","same":true,"after":{}}`),
		planned(`{"action":"create","after":{"path":"/locks/a","acl":1,"payload":` + string(payload) + `}}`),
		planned(`{"action":"create","after":{"path":"/locks/a","child_acl":-1,"payload":` + string(payload) + `}}`),
		planned(`{"action":"delete","before":` + node("/locks/a", `,"live":{"parts":[{"name":"x","acl":7}]}`) + `}`),
		planned(`{"action":"no-op","same":true}`),
		planned(`{"action":"update","same":true,"before":` + node("/locks/a", live) + `}`),
		`{"plans":[{"root":"/locks","stack":"shop","index":{"path":"/locks/.locktree/stacks/shop"},"changes":{}}]}`,
		`{"plans":[{"root":"/locks","stack":"shop","index":{"path":"/locks/.locktree/stacks/shop"},"pins":[7]}]}`,
	} {
		_, err := plan.DecodeFile(bytes.NewReader(sealed(body)))
		var e *plan.DamagedError
		require.ErrorAs(t, err, &e, body)
	}
}

func TestNothingPrintedShowsADigest(t *testing.T) {
	p := richPlan(t)
	doc, err := json.Marshal(p)
	require.NoError(t, err)
	printed := string(doc) + p.String()
	for i := range p.Changes {
		c := &p.Changes[i]
		one, err := json.Marshal(c)
		require.NoError(t, err)
		printed += string(one) + c.String() + fmt.Sprintf("%+v %v", c.Before, c.After)
	}
	require.Contains(t, printed, "digest:worker:cdr")
	for _, secret := range []string{"AAAA", "BBBB"} {
		require.NotContains(t, printed, secret)
	}
}

func FuzzDecodeFile(f *testing.F) {
	// Small, because what is found is minimised; TestDamagedFile covers a rich one.
	good := saved(f, plan.Diff(nil, declared(declare("/locks/a", kind.Semaphore)), plan.Options{}))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(plan.Prefix + `2,"version":"9"}`))
	f.Add(good[bytes.Index(good, []byte(`{"plans"`)) : len(good)-2])
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) { // as a body, so that the checksum does not stop the fuzzer
			checkDecoded(t, sealed(string(data)))
		}
		checkDecoded(t, data)
	})
}

func checkDecoded(t *testing.T, data []byte) {
	file, err := plan.DecodeFile(bytes.NewReader(data))
	if err != nil {
		require.NotEmpty(t, err.Error())
		return
	}
	for _, p := range file.Plans {
		_, _ = json.Marshal(p)
		_ = p.String()
		p.InUse()
		p.ACLSteps()
		ops, err := p.Operations("0123456789abcdef", kind.WorldAll())
		for _, op := range ops {
			require.True(t, plan.Under(op.Path, p.Root), op.Path)
		}
		if err == nil {
			require.GreaterOrEqual(t, plan.Size(ops), 0)
		}
	}
	require.NoError(t, file.Encode(new(bytes.Buffer)))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }
func (failing) Read([]byte) (int, error)  { return 0, errors.New("bad sector") }

func TestErrorsOfTheDiskAreNotHidden(t *testing.T) {
	require.ErrorContains(t, (&plan.File{Stack: testStack}).Encode(failing{}), "disk full")
	_, err := plan.DecodeFile(failing{})
	require.ErrorContains(t, err, "bad sector")
}

// Nearly all of a large plan is what stays as it is: it stands in the file once, and
// comes back as it was.
func TestWhatStaysIsWrittenOnce(t *testing.T) {
	const n = 200
	var nodes []*plan.Node
	for i := range n {
		nodes = append(nodes, declare(fmt.Sprintf("/locks/m%03d", i), kind.Mutex, set("description", "a lock of many")))
	}
	tree := declared(nodes...)
	current := applied(t, tree).read(t, testRoot, testStack)
	tree.Nodes[7].AllowLockout = true
	p := plan.Diff(current, tree, plan.Options{})
	require.False(t, p.HasChanges())
	data := saved(t, p)
	require.Equal(t, n, strings.Count(string(data), "a lock of many"))
	f, err := plan.DecodeFile(bytes.NewReader(data))
	require.NoError(t, err)
	q := f.Plans[0]
	require.Equal(t, p.Pins, q.Pins)
	for i := range p.Changes {
		require.Equal(t, p.Changes[i].Before.Payload, q.Changes[i].Before.Payload)
		require.Equal(t, p.Changes[i].After, q.Changes[i].After)
	}
	require.Equal(t, data, saved(t, q))
}

// A list stands in the file once, however many nodes, parts and payloads have it, and
// is in memory once when it comes back.
func TestAnAccessListIsWrittenAndReadOnce(t *testing.T) {
	tree := func(permits int) *plan.Tree {
		var nodes []*plan.Node
		for i := range 50 {
			n := declare(fmt.Sprintf("/locks/s%02d", i), kind.Semaphore, set("permits", permits))
			n.Payload.ChildACL = []kind.ACL{admin}
			nodes = append(nodes, n)
		}
		return declared(nodes...)
	}
	p := replan(t, applied(t, tree(1)), tree(2))
	data := saved(t, p)
	require.Equal(t, 2, strings.Count(string(data), admin.ID), "one list of the nodes, one of their contenders")
	require.Equal(t, 1, strings.Count(string(data), worker.ID))
	f, err := plan.DecodeFile(bytes.NewReader(data))
	require.NoError(t, err)
	q := f.Plans[0]
	require.Equal(t, p.Changes, q.Changes)
	first := q.Changes[0]
	for _, c := range q.Changes {
		require.Same(t, &first.Before.ACL[0], &c.Before.ACL[0])
		require.Same(t, &first.Before.ACL[0], &c.After.ACL[0])
		require.Same(t, &first.Before.Payload.ChildACL[0], &c.After.Payload.ChildACL[0])
		for _, part := range c.Before.Live.Parts {
			require.Same(t, &first.Before.ACL[0], &part.ACL[0])
		}
	}
}

// Seen with a lock that was let go: it says no address itself, and in the file the change
// of its old place had none either.
func TestSavedImportToAnotherPathKeepsItsAddress(t *testing.T) {
	m := applied(t, base())
	left := declared(base().Nodes[:3]...)
	m.apply(t, replanIntent(t, m, left, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.election.locks_solo"}}}))
	tree := declared(append(base().Nodes[:3], declare("/locks/boss", kind.Election))...)
	p := replanIntent(t, m, tree, plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_boss", Path: "/locks/solo", Target: "/locks/boss"}}})
	require.Equal(t, []string{"+ /locks/boss", "~ /locks/solo"}, actions(p))
	q := decoded(t, p)
	require.Equal(t, p.String(), q.String())
	require.EqualValues(t, "namespace.x.election.locks_boss", q.Changes[len(q.Changes)-1].Addr)
	require.EqualValues(t, "namespace.x.election.locks_boss", q.Changes[len(q.Changes)-1].After.Addr)
	settle(t, m, p, tree)
	require.Contains(t, m.read(t, testRoot, testStack).Index.Resources, "namespace.x.election.locks_boss moved from /locks/solo")
}

// What is let go is left as it is, also where somebody changed the list of a part of it:
// the plan that came back from a file showed that as a change to be made.
func TestSavedPlanChangesNothingOfWhatIsLetGo(t *testing.T) {
	m := applied(t, base())
	m.nodes["/locks/pay/pool/leases"].acl = kind.WorldAll()
	tree := declared(append(base().Nodes[:2], base().Nodes[3])...)
	p := replanIntent(t, m, tree, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.semaphore.locks_pay_pool"}}})
	require.Equal(t, []string{". /locks/pay/pool"}, actions(p))
	require.Nil(t, p.Changes[2].ACL)
	require.Nil(t, decoded(t, p).Changes[2].ACL)
	require.Equal(t, p.String(), decoded(t, p).String())
}
