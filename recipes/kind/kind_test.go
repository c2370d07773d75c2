package kind_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

func TestEveryKindIsComplete(t *testing.T) {
	for _, k := range kind.All() {
		t.Run(k.Name, func(t *testing.T) {
			require.Same(t, k, kind.Lookup(k.Name))
			require.NotEmpty(t, k.Doc)
			p := k.New()
			require.Same(t, k, p.Kind())
			require.NoError(t, kind.Validate(p), "defaults must be valid")
			seen := map[string]bool{}
			for _, f := range p.Fields() {
				require.NotEmpty(t, f.Doc, f.Name)
				require.False(t, seen[f.Name], "parameter %s twice", f.Name)
				seen[f.Name] = true
				require.True(t, f.Required != (f.Default != nil), "%s: either required or with a default", f.Name)
			}
			require.Equal(t, k.Container || k.Key != nil, len(k.Queues) == 0)
			for _, q := range k.Queues {
				if q.Child != "" {
					require.Contains(t, k.Children, q.Child, "a queue's directory must be provisioned")
				}
			}
		})
	}
	require.Nil(t, kind.Lookup("nonsense"))
}

func TestSetRefusesWhatTheDeclarationForbids(t *testing.T) {
	p := kind.Semaphore.New().(*kind.SemaphoreParams)
	fields := map[string]kind.Field{}
	for _, f := range p.Fields() {
		fields[f.Name] = f
	}
	for _, c := range []struct {
		field string
		value any
		say   string
	}{
		{"permits", 0, "between 1 and"},
		{"permits", 1.5, "whole number"},
		{"permits", math.Inf(1), "whole number"},
		{"permits", "8", "whole number"},
		{"max_waiters", -1, "between 0"},
		{"wire", "etcd", `must be one of "curator"`},
		{"description", 7, "must be a string"},
		{"description", strings.Repeat("x", 600), "at most 512"},
	} {
		err := fields[c.field].Set(c.value)
		var pe *kind.ParamError
		require.ErrorAs(t, err, &pe, "%s = %v", c.field, c.value)
		require.Equal(t, c.field, pe.Name)
		require.ErrorContains(t, err, c.say)
	}
	require.Equal(t, 1, p.Permits, "a refused value must change nothing")
	require.NoError(t, fields["permits"].Set(float64(8)))
	require.Equal(t, 8, p.Permits)
}

// A program that leaves a parameter out means its default, whether it writes a literal or starts from New.
func TestTheZeroValueOfAParameterIsItsDefault(t *testing.T) {
	for k, zero := range map[*kind.Kind]kind.Params{
		kind.Namespace: &kind.NamespaceParams{}, kind.Mutex: &kind.MutexParams{}, kind.RWLock: &kind.RWLockParams{},
		kind.Semaphore: &kind.SemaphoreParams{Permits: 1}, kind.Election: &kind.ElectionParams{},
	} {
		require.Empty(t, kind.Diff(k.New(), zero), k.Name)
		want, err := (&kind.Payload{Params: k.New()}).Encode()
		require.NoError(t, err)
		got, err := (&kind.Payload{Params: zero}).Encode()
		require.NoError(t, err, k.Name)
		require.Equal(t, string(want), string(got))
	}
}

func TestDiffNamesChangedParametersOnly(t *testing.T) {
	a, b := kind.Mutex.New().(*kind.MutexParams), kind.Mutex.New().(*kind.MutexParams)
	require.Empty(t, kind.Diff(a, b))
	b.MaxWaiters, b.Wire = 20, kind.WireKazoo
	require.Equal(t, []kind.Change{
		{Name: "max_waiters", Before: 0, After: 20},
		{Name: "wire", Before: "curator", After: "kazoo", Replace: true},
	}, kind.Diff(a, b))
	require.Panics(t, func() { kind.Diff(a, kind.RWLock.New()) })
}

func TestParseContender(t *testing.T) {
	const u = "0c6d0f3e-7d3c-4f0c-9a60-0a1b2c3d4e5f"
	for name, want := range map[string]kind.Contender{
		"_c_" + u + "-lock-0000000005":       {GUID: u, Seq: 5, Marker: "lock-"},
		"_c_" + u + "-latch-0000000005":      {GUID: u, Seq: 5, Marker: "latch-"},
		"_c_" + u + "-lease-0000000005":      {GUID: u, Seq: 5, Marker: "lease-"},
		"_c_" + u + "-__READ__0000000007":    {GUID: u, Seq: 7, Shared: true, Marker: "__READ__"},
		"_c_" + u + "-__WRIT__0000000007":    {GUID: u, Seq: 7, Marker: "__WRIT__"},
		"0123456789abcdef__lock__0000000001": {Seq: 1, Marker: "__lock__"},
		"0123456789abcdef__rlock__000000001": {}, // nine digits: no server wrote that
		"x-72057594037927936-0000000003":     {Seq: 3, Marker: "x-"},
		"x--72057594037927936-0000000003":    {Seq: 3, Marker: "x-"},
		"x-72057594037927936--2147483648":    {Seq: math.MinInt32, Marker: "x-"},
		"_c_" + u + "-lock--2147483648":      {GUID: u, Seq: math.MinInt32, Marker: "lock-"},
		"_c_" + u + "-lock--000000005":       {GUID: u, Seq: -5, Marker: "lock-"},
		"lock-2147483647":                    {Seq: math.MaxInt32, Marker: "lock-"},
		"lock-2147483648":                    {},
		"config":                             {},
		"0-meta":                             {},
		"_c_x":                               {},
		"":                                   {},
		"x-":                                 {},
		"x-0000000003":                       {},
		"lock-00000000１２":                    {},
	} {
		got, ok := kind.ParseContender(name)
		require.Equal(t, want.Marker != "", ok, name)
		if ok {
			want.Name = name
			require.Equal(t, want, got)
		}
	}
}

// The counter wraps (recipes/testdata/failure-cases.md, case 58). Clients that compare strings or plain integers then let a newcomer
// overtake the holder. A client that may create a child can also give it a number half the way round. For some orders of a list, that put
// the waiter before the holder.
func TestOrderSurvivesSequenceWrap(t *testing.T) {
	for _, c := range []struct {
		queue []string // in order; the places of other do not matter
		other []string
	}{
		{[]string{"lock-2147483646", "lock-2147483647", "lock--2147483648", "lock--2147483647"}, nil},
		{[]string{"_c_b-__WRIT__0000000003", "_c_a-__READ__0000000003"}, nil}, // a reader that was a writer stands behind its own node
		{[]string{"a-lock-0000000005", "b-lock-0000000006"}, []string{"x-lock--2147483642"}},
		{[]string{"a-lock-0000000005", "b-lock-0000000006"}, []string{"x-lock--2147483643"}},
		{[]string{"a-lock-0000000005", "b-lock-0000000006"}, []string{"c-lock-0000000007", "x-lock--1000000000", "y-lock-1500000000", "z-lock--2147483642"}},
		{[]string{"a-lock-0000000005", "b-lock-0000000006"}, []string{"x-lock-1431655770", "y-lock--1431655765"}},
	} {
		all := slices.Concat(c.queue, c.other, []string{"config"})
		same, _ := kind.SortContenders(all)
		for seed := range uint64(200) {
			rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			line, junk := kind.SortContenders(all)
			require.Equal(t, same, line, "it does not depend on the listing")
			require.Equal(t, []string{"config"}, junk)
			var names []string
			for _, k := range line {
				if slices.Contains(c.queue, k.Name) {
					names = append(names, k.Name)
				}
			}
			require.Equal(t, c.queue, names)
		}
	}
}

func TestEachKindAdmitsByItsQueue(t *testing.T) {
	queue := func(names ...string) []kind.Contender {
		q, _ := kind.SortContenders(names)
		return q
	}
	wait := func(behind int, k *kind.Kind, p kind.Params, line []kind.Contender, i int) {
		admitted, at := k.Queues[0].Admit(p, line, i)
		require.False(t, admitted)
		require.Equal(t, behind, at)
	}
	hold := func(k *kind.Kind, p kind.Params, line []kind.Contender, i int) {
		admitted, _ := k.Queues[0].Admit(p, line, i)
		require.True(t, admitted)
	}
	mutex := queue("lock-0000000000", "lock-0000000001", "lock-0000000002")
	hold(kind.Mutex, nil, mutex, 0)
	wait(1, kind.Mutex, nil, mutex, 2)

	rw := queue("__READ__0000000000", "__READ__0000000001", "__WRIT__0000000002", "__READ__0000000003", "__WRIT__0000000004", "__READ__0000000005")
	hold(kind.RWLock, nil, rw, 1)
	wait(1, kind.RWLock, nil, rw, 2) // a writer waits for its predecessor
	wait(2, kind.RWLock, nil, rw, 3)
	wait(4, kind.RWLock, nil, rw, 5) // a reader waits for the nearest writer, not the first

	sem := queue("lease-0000000000", "lease-0000000001", "lease-0000000002")
	p := &kind.SemaphoreParams{Permits: 2}
	hold(kind.Semaphore, p, sem, 1)
	wait(kind.AnyChange, kind.Semaphore, p, sem, 2)
}

func TestPayloadRoundTrip(t *testing.T) {
	for _, k := range kind.All() {
		in := &kind.Payload{
			Params: k.New(), Owner: kind.Owner{Stack: "prod", Addr: k.Name + ".x"}, Protect: true, Gen: 3,
			ChildACL: kind.List{{Scheme: "digest", ID: "u:h", Perms: kind.PermAll}}, State: kind.StateDraining,
		}
		data, err := in.Encode()
		require.NoError(t, err)
		out, err := kind.Decode(data)
		require.NoError(t, err)
		again, err := out.Encode()
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
		require.Equal(t, in.Params, out.Params)
		require.Equal(t, in.Owner, out.Owner)
		require.Equal(t, in.ChildACL, out.ChildACL)
		require.True(t, out.Protect)
		require.Less(t, len(data), 1024)
	}
}

// Such fields in "owner" were dropped.
func TestPayloadKeepsFieldsOfNewerVersions(t *testing.T) {
	p, err := kind.Decode([]byte(`{"locktree":1,"type":"mutex","spec":{"max_waiters":3,"colour":"red"},"future":{"a":1},` +
		`"owner":{"team":"b","stack":"s","addr":"mutex.a","Stack":"t","at":{"x":1}}}`))
	require.NoError(t, err)
	require.Equal(t, kind.Owner{Stack: "t", Addr: "mutex.a"}, p.Owner)
	desired := &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "u", Addr: "mutex.b"}}
	desired.Carry(p)
	data, err := desired.Encode()
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(data, &doc))
	require.Equal(t, map[string]any{"a": 1.0}, doc["future"])
	require.Equal(t, "red", doc["spec"].(map[string]any)["colour"])
	require.Contains(t, string(data), `"owner":{"stack":"u","addr":"mutex.b","at":{"x":1},"team":"b"}`)
	again, err := kind.Decode(data)
	require.NoError(t, err)
	require.Equal(t, desired.Owner, again.Owner)
	desired.Carry(again)
	same, err := desired.Encode()
	require.NoError(t, err)
	require.Equal(t, string(data), string(same))
}

func TestDecodeRefusesWhatIsNotAPayload(t *testing.T) {
	for _, data := range []string{"", "5", "127.0.0.1", `"locktree"`, "{}", `{"a":1}`, "[1]", "\x00\x00\x00\x05", "{" + strings.Repeat(" ", 70<<10) + `"locktree":1}`} {
		_, err := kind.Decode([]byte(data))
		require.ErrorIs(t, err, kind.ErrForeign, "%.40q", data)
	}
	var ve *kind.VersionError
	_, err := kind.Decode([]byte(`{"locktree":2,"type":"mutex","spec":[]}`))
	require.ErrorAs(t, err, &ve)
	require.Equal(t, 2, ve.Got)
	// A plan offers to overwrite a damaged payload. A newer program's payload is not damaged.
	for data, unknown := range map[string]string{
		`{"locktree":1,"type":"barrier"}`:                `type "barrier"`,
		`{"locktree":1,"type":"mutex","state":"frozen"}`: `state "frozen"`,
	} {
		_, err := kind.Decode([]byte(data))
		require.ErrorAs(t, err, &ve)
		require.Equal(t, &kind.VersionError{Got: kind.Format, Unknown: unknown}, ve)
	}
	for _, data := range []string{
		`{"locktree":1`, `{"locktree":"1"}`, `{"locktree":0}`, `{"locktree":1}`, `{"locktree":1,"type":""}`,
		`{"locktree":1,"type":"semaphore","spec":{}}`, `{"locktree":1,"type":"semaphore","spec":{"permits":0}}`,
		`{"locktree":1,"type":"mutex","spec":[]}`,
		`{"locktree":1,"type":"mutex","child_acl":[["world","anyone"]]}`,
	} {
		_, err := kind.Decode([]byte(data))
		require.ErrorContains(t, err, "kind: damaged payload: ", data)
	}
}

func TestPermLetters(t *testing.T) {
	p, err := kind.ParsePerm("rdc")
	require.NoError(t, err)
	require.Equal(t, "cdr", p.String())
	for _, bad := range []string{"", "x", "rr", "CDRWA"} {
		_, err := kind.ParsePerm(bad)
		require.Error(t, err, bad)
	}
}

func TestNamesAndPaths(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "a/b", "a\x00", "a\x1f", "a\x7f", "\uf8ff", "\uffff", "\xff", strings.Repeat("x", 256)} {
		require.Error(t, kind.ValidateName(bad), "%q", bad)
	}
	// ZooKeeper, in Java, sees two surrogates in a character beyond U+FFFF. A configuration with such a name was valid, but its apply was
	// refused.
	for _, bad := range []string{"🔒", "a\U00010000", "\U0010ffff"} {
		require.ErrorContains(t, kind.ValidateName(bad), "which ZooKeeper refuses", "%q", bad)
		require.Error(t, kind.ValidatePath("/locks/"+bad), "%q", bad)
	}
	require.NoError(t, kind.ValidateName("Schlüssel"))
	for _, bad := range []string{"", "a", "/a/", "//a", "/a/../b", "/zookeeper", "/zookeeper/quota"} {
		require.Error(t, kind.ValidatePath(bad), "%q", bad)
	}
	for _, good := range []string{"/", "/a", "/a/zookeeper", "/été/a b", "/a/..."} {
		require.NoError(t, kind.ValidatePath(good), "%q", good)
	}
	require.Equal(t, "/a", kind.JoinPath("/", "a"))
	require.Equal(t, "/a/b", kind.JoinPath("/a", "b"))
	require.Equal(t, "/a", kind.ParentPath("/a/b"))
	require.Equal(t, "/", kind.ParentPath("/a"))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"locktree":1,"type":"semaphore","spec":{"permits":8},"owner":{"stack":"s","addr":"a"},"child_acl":[["digest","u:h","cr"]]}`))
	f.Add([]byte(`{"locktree":1,"type":"mutex","spec":null,"x":[1]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := kind.Decode(data)
		if err != nil {
			return
		}
		out, err := p.Encode()
		require.NoError(t, err)
		again, err := kind.Decode(out)
		require.NoError(t, err)
		require.Equal(t, p.Params, again.Params)
	})
}

func FuzzParseContender(f *testing.F) {
	f.Add("_c_0c6d0f3e-7d3c-4f0c-9a60-0a1b2c3d4e5f-lock--2147483648")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := kind.ParseContender(name)
		if ok {
			require.Equal(t, name, c.Name)
			require.Contains(t, name, c.Marker)
		}
	})
}

// While a password is replaced, a user has two. A list that masks them has two equal entries. Compared with the declaration, they counted
// as one, so a user without ADMIN saw a change in every plan.
func TestTwoPasswordsOfOneUserAreNoChangeWhereTheyAreMasked(t *testing.T) {
	acl := func(entries ...string) (list kind.List) {
		for _, e := range entries {
			id, letters, _ := strings.Cut(e, " ")
			perms, err := kind.ParsePerm(letters)
			require.NoError(t, err)
			list = append(list, kind.ACL{Scheme: "digest", ID: id, Perms: perms})
		}
		return list
	}
	for _, c := range []struct {
		why            string
		live, declared kind.List
		equal          bool
	}{
		{"two passwords, one set of rights", acl("u:x r", "u:x r"), acl("u:new r", "u:old r"), true},
		{"two sets of rights", acl("u:x rw", "u:x r"), acl("u:new r", "u:old rw"), true},
		{"others beside it", acl("u:x r", "u:x r", "v:h cd"), acl("v:h cd", "u:b r", "u:a r"), true},
		{"a password that is not there yet", acl("u:x r"), acl("u:new r", "u:old r"), false},
		{"a password that is there no more", acl("u:x r", "u:x r"), acl("u:old r"), false}, // servers drop duplicates, so they are two
		{"other rights", acl("u:x r", "u:x w"), acl("u:new r", "u:old r"), false},
		{"more rights than declared", acl("u:x r", "u:x w"), acl("u:h r"), false},
		{"somebody else's", acl("u:x r", "v:x r"), acl("u:new r", "u:old r"), false},
		{"nothing masked", acl("u:new r"), acl("u:old r"), false},
		{"one masked", acl("u:x r", "v:h r"), acl("v:h r", "u:hash r"), true},
		{"order and duplicates", acl("v:h r", "u:hash r", "u:hash r"), acl("u:hash r", "v:h r"), true},
		{"fewer entries", acl("v:h r"), acl("u:hash r", "v:h r"), false},
	} {
		require.Equal(t, c.equal, c.live.Equal(c.declared), c.why)
		require.Equal(t, c.equal, c.declared.Equal(c.live), c.why)
	}
}
