package conformance

import "github.com/locktree/locktree/recipes/internal/session/wire"

// script is a scenario. testdata/golden.txt has real ZooKeeper's answers to it.
type script struct {
	name string
	ops  []Op
}

func create(s int, path string, flags int32) Op {
	return Op{S: s, Op: wire.OpCreate, Path: path, ACL: anyone, Flags: flags, TTL: -1}
}

func get(s int, path string) Op { return Op{S: s, Op: wire.OpGetData, Path: path, Watch: true} }
func set(s int, path string) Op {
	return Op{S: s, Op: wire.OpSetData, Path: path, Data: []byte("new"), Version: -1}
}
func del(s int, path string) Op { return Op{S: s, Op: wire.OpDelete, Path: path, Version: -1} }
func list(s int, path string) Op {
	return Op{S: s, Op: wire.OpGetChildren2, Path: path, Watch: true}
}
func exists(s int, path string) Op { return Op{S: s, Op: wire.OpExists, Path: path, Watch: true} }
func multi(ops ...Op) Op           { return Op{Op: wire.OpMulti, Ops: ops} }

// scripts cover cases that random sequences reach rarely or never.
func scripts() []script {
	return []script{
		{"the server's own nodes", ownNodes()}, // first: its Stats are those of a new server
		{"every odd path in every operation", oddPaths()},
		{"malformed bodies", malformed()},
		{"what a multi makes of its operations", multis()},
		{"one watch per connection and path", []Op{
			create(0, "/a", 0), get(1, "/a"), exists(1, "/a"), list(1, "/a"), get(2, "/a"),
			create(0, "/a/b", 0), set(0, "/a"), set(0, "/a"), get(1, "/a"), list(1, "/a/b"), get(1, "/a/b"),
			del(0, "/a/b"), exists(1, "/a/b"), create(0, "/a/b", 1), del(0, "/a/b"), del(0, "/a"),
		}},
		{"persistent and recursive watches", persistentWatches()},
		{"watches set again after a reconnect", rearmed()},
		{"ephemerals at the end of a session", []Op{
			create(1, "/a", 0), create(0, "/a/e", 1), create(0, "/a/s-", 3), create(0, "/a/s-", 3),
			list(1, "/a"), get(1, "/a/e"), exists(2, "/a/s-0000000001"), {S: 0, Op: wire.OpGetEphemerals, Path: "/a"},
			{S: 0, Op: wire.OpGetEphemerals, Path: "!"}, {S: 1, Op: wire.OpGetEphemerals, Path: "!/"}, {S: 0, Op: wire.OpCloseSession},
			list(1, "/a"), create(2, "/a/s-", 3),
		}},
		{"rights", rights()},
		{"quotas", quotas()},
		{"sequence numbers", []Op{
			create(0, "/q", 0), create(0, "/q/a", 0), del(0, "/q/a"), create(0, "/q/n-", 2), create(0, "/q/", 2),
			create(0, "/q/n-", 3), create(0, "/q/n-0000000004", 0), create(0, "/q/n-", 2), create(0, "/q/n-", 2),
			multi(create(0, "/q/m-", 2), create(0, "/q/m-", 3), del(0, "/q/m-0000000006"), create(0, "/q/m-", 2)),
			multi(create(0, "/q/m-", 2), create(0, "/nosuch/m-", 2)), create(0, "/q/n-", 2), list(0, "/q"),
		}},
		{"containers and lifetimes", []Op{
			{Op: wire.OpCreateContainer, Path: "/c", ACL: anyone, Flags: 4}, {Op: wire.OpCreateContainer, Path: "/p", ACL: anyone},
			create(0, "/o", 4), create(0, "/c/x", 1), {Op: wire.OpCreateTTL, Path: "/t", ACL: anyone, Flags: 5, TTL: 1000_000},
			{Op: wire.OpCreateTTL, Path: "/t/s-", ACL: anyone, Flags: 6, TTL: 1 << 39}, create(0, "/u", 5),
			{Op: wire.OpCreateTTL, Path: "/v", ACL: anyone, Flags: 0, TTL: 5}, get(0, "/c"), get(0, "/o"), get(0, "/t"),
		}},
		{"the node of a key, which comes and goes with its contenders", keys()},
		{"reconfiguring a standalone server", []Op{{Op: wire.OpReconfig, Path: "server.2=h:1:2;3"}}},
	}
}

// keys has the transactions of package recipes that create a container with its first child, and delete it with its last.
func keys() []Op {
	box := func(path string) Op { return Op{Op: wire.OpCreateContainer, Path: path, ACL: anyone, Flags: 4} }
	check := func(version int32) Op { return Op{Op: wire.OpCheck, Path: "/f", Version: version} }
	return []Op{
		create(0, "/f", 0), multi(check(1), box("/f/k"), create(0, "/f/k/c-", 3)),
		multi(check(0), box("/f/k"), create(0, "/f/k/c-", 3)), get(0, "/f/k"), get(0, "/f/k/c-0000000000"),
		multi(check(0), box("/f/k"), create(1, "/f/k/c-", 3)), multi(check(0), create(0, "/f/k/c-", 3)), list(1, "/f/k"),
		multi(del(0, "/f/k/c-0000000000"), del(0, "/f/k")), list(1, "/f/k"), multi(del(0, "/f/k/c-0000000000")),
		multi(del(0, "/f/k/c-0000000001"), del(0, "/f/k")), exists(1, "/f/k"), multi(check(0), create(0, "/f/k/c-", 3)),
		multi(check(0), box("/f/k"), box("/f/k/l"), create(0, "/f/k/l/c-", 3), create(0, "/f/k/l/c-", 3)), list(0, "/f/k/l"),
		multi(check(0), box("/f/k/g"), create(0, "/f/k/g/c-", 3)), multi(del(0, "/f/k/l"), del(0, "/f/k")),
		multi(del(0, "/f/k/l/c-0000000000"), del(0, "/f/k/l/c-0000000001"), del(0, "/f/k/l"), del(0, "/f/k")),
		multi(del(0, "/f/k/g/c-0000000000"), del(0, "/f/k/l/c-0000000000"), del(0, "/f/k/l/c-0000000001"), del(0, "/f/k/g"), del(0, "/f/k/l"), del(0, "/f/k")),
		multi(check(0), box("/f/k"), create(0, "/f/k/c-", 3)), list(0, "/f/k"), get(1, "/f"),
	}
}

// oddPaths sends every path that a server must judge, with every operation that takes one.
func oddPaths() []Op {
	ops := []Op{create(0, "/a", 0)}
	for _, path := range []string{
		"/", "/a/", "//a", "/a//b", "/.", "/a/..", "/a/.b", "/a/b..", "/a\x01", "/a\x7f", "/a\u0080", "/a\x00b", "/\u00e9", "/\ud7ff",
		"/\ue000", "/\uf8ff", "/\uf900", "/\uffef", "/\ufff0", "/\uffff", "/\U0001f512", "/nosuch/", "/nosuch/../x",
		"!", "!a", "!a/b", "!//",
	} {
		ops = append(ops,
			create(0, path, 0), create(0, path, 2), Op{Op: wire.OpCreate2, Path: path, ACL: anyone, Flags: 1},
			exists(0, path), get(0, path), set(0, path), list(0, path), Op{Op: wire.OpGetACL, Path: path},
			Op{Op: wire.OpSetACL, Path: path, ACL: anyone, Version: -1}, Op{Op: wire.OpSync, Path: path}, del(0, path),
			multi(create(0, path, 0)), multi(del(0, path)), multi(Op{Op: wire.OpCheck, Path: path, Version: -1}),
			Op{Op: wire.OpMultiRead, Ops: []Op{{Op: wire.OpGetData, Path: path}, {Op: wire.OpGetChildren, Path: path}}},
		)
	}
	// The root's own Stat depends on the server's other nodes.
	kept := ops[:0]
	for _, o := range ops {
		if o.Path != "!" && o.Path != "!//" || o.Op == wire.OpDelete || o.Op == wire.OpSync || o.Op == wire.OpCreate {
			kept = append(kept, o)
		}
	}
	return kept
}

// ownNodes looks at the nodes that every new server has, and tries to change them.
func ownNodes() []Op {
	var ops []Op
	for _, path := range []string{"!/zookeeper", "!/zookeeper/quota", "!/zookeeper/config"} {
		ops = append(ops, del(0, path), multi(del(0, path)), create(0, path, 0), Op{Op: wire.OpGetACL, Path: path})
	}
	return append(ops, get(0, "!/zookeeper/config"), set(0, "!/zookeeper/config"), del(0, "!/"), create(0, "!/", 0),
		create(0, "!/zookeeper/config/x", 0), create(0, "!/zookeeper/x", 1), list(0, "!/zookeeper"), del(0, "!/zookeeper/x"))
}

// malformed cuts every kind of body short: none at all, one byte, a length beyond what follows or equal to it, the greatest length and the
// smallest.
func malformed() []Op {
	ops := []Op{create(0, "/a", 0)}
	for _, code := range []int32{
		wire.OpCreate, wire.OpDelete, wire.OpExists, wire.OpGetData, wire.OpSetData, wire.OpGetACL, wire.OpSetACL, wire.OpGetChildren, wire.OpSync, wire.OpGetChildren2,
		wire.OpMulti, wire.OpCreate2, wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpMultiRead,
		wire.OpSetWatches, wire.OpGetAllChildrenNumber, wire.OpSetWatches2, wire.OpAddWatch, wire.OpCheck, wire.OpReconfig, wire.OpGetEphemerals, wire.OpAuth, wire.OpSASL, wire.OpDeleteContainer,
	} {
		for _, body := range []string{"", "\x00", "\x00\x00\x00\x05/a", "\x00\x00\x00\x02/a", "\x7f\xff\xff\xff/a", "\x80\x00\x00\x00"} {
			ops = append(ops, Op{Op: stepGarbage, Mode: code, Data: []byte(body)})
		}
	}
	return append(ops, Op{Op: stepGarbage, Mode: wire.OpSASL, Data: []byte("\xff\xff\xff\xff")}, // no token: not an empty one
		Op{Op: stepGarbage, Mode: wire.OpExists, Data: []byte("\xff\xff\xff\xff\x00")},
		Op{Op: stepGarbage, Mode: wire.OpPing, Data: []byte("surplus")},
		Op{Op: wire.OpCheck, Path: "/a", Version: 7}, get(0, "/a")) // a check that holds is never answered, so this one fails
}

// multis has transactions with flags and operation codes that do not go together, with parts that see each other, and with a part that
// fails.
func multis() []Op {
	c2, cc := create(0, "/m2", 0), create(0, "/mc", 4)
	c2.Op, cc.Op = wire.OpCreate2, wire.OpCreateContainer
	plain := create(0, "/mp", 0)
	plain.Op = wire.OpCreateContainer
	ttl := Op{Op: wire.OpCreateTTL, Path: "/mt", ACL: anyone, Flags: 5, TTL: 1000_000}
	lone := Op{Op: wire.OpCreateTTL, Path: "/ml", ACL: anyone, Flags: 0, TTL: 5}
	return []Op{
		multi(), multi(c2, cc, plain, ttl, create(0, "/mo", 4)), multi(create(0, "/x", 5)), multi(create(0, "/x", 9)),
		multi(lone), multi(create(0, "/x", 0), create(0, "/y/z", 0), del(0, "/x")),
		multi(Op{Op: wire.OpGetData, Path: "/x"}), multi(create(0, "/x", 0), Op{Op: wire.OpGetData, Path: "/x"}),
		{Op: wire.OpMultiRead, Ops: []Op{create(0, "/x", 0)}}, {Op: wire.OpMultiRead},
		multi(create(0, "/e", 1), create(0, "/e/x", 0)), multi(create(0, "/d", 0), create(0, "/d/x", 0), del(0, "/d")),
		multi(create(0, "/d", 0), set(0, "/d"), Op{Op: wire.OpCheck, Path: "/d", Version: 1}, del(0, "/d"), create(0, "/d", 1)),
		exists(1, "/w"), list(1, "/d"), multi(create(0, "/w", 0), set(0, "/w"), del(0, "/w"), create(0, "/w", 0)), get(1, "/w"),
		multi(set(0, "/w"), set(0, "/w"), Op{Op: wire.OpCheck, Path: "/w", Version: 9}), get(0, "/w"), get(0, "/d"),
		{Op: wire.OpMulti, Ops: []Op{{Op: wire.OpSetACL, Path: "/w", ACL: anyone}}},
	}
}

// persistentWatches mixes the three kinds on the same paths: the events of each kind, and the kinds that it replaces.
func persistentWatches() []Op {
	watch := func(path string, mode int32) Op { return Op{S: 1, Op: wire.OpAddWatch, Path: path, Mode: mode} }
	remove := func(path string, mode int32) Op { return Op{S: 1, Op: wire.OpRemoveWatches, Path: path, Mode: mode} }
	return []Op{
		watch("/a", 0), watch("/a", 7), create(0, "/a", 0), set(0, "/a"), set(0, "/a"), create(0, "/a/b", 0), set(0, "/a/b"),
		del(0, "/a/b"), get(1, "/a"), set(0, "/a"), set(0, "/a"), list(1, "/a"), create(0, "/a/b", 0), create(0, "/a/c", 0),
		watch("/a", 1), create(0, "/a/b/d", 0), set(0, "/a/b/d"), set(0, "/a"), del(0, "/a/b/d"), list(1, "/a/b"), create(0, "/a/b/d", 1),
		{S: 2, Op: wire.OpAddWatch, Path: "", Mode: 1}, multi(set(0, "/a/b"), create(0, "/x", 0), del(0, "/a/b/d")),
		{S: 1, Op: wire.OpCheckWatches, Path: "/a", Mode: 1}, {S: 0, Op: wire.OpCheckWatches, Path: "/nosuch", Mode: 3}, remove("/a", 1), set(0, "/a"),
		create(0, "/a/k", 0), remove("/a", 2), remove("/a", 3), remove("/a", 0), remove("/a", 4), set(0, "/a"), create(0, "/a/l", 0),
		{S: 2, Op: wire.OpCloseSession}, create(0, "/y", 0),
	}
}

// rearmed makes changes between the end of a connection and setWatches, and gives zxids from before and after them.
func rearmed() []Op {
	again := func(back int64, lists ...[]string) Op {
		o := Op{S: 1, Op: wire.OpSetWatches, Back: back}
		if len(lists) > 3 {
			o.Op = wire.OpSetWatches2
		}
		copy(o.Lists[:], lists)
		return o
	}
	all, root := []string{"/a", "/b", "/nosuch"}, []string{"!"}
	return []Op{
		create(0, "/a", 0), create(0, "/b", 0), get(1, "/a"), {S: 1, Op: stepReconnect}, set(0, "/a"),
		again(0, all, all, all), set(0, "/a"), create(0, "/b/c", 0), create(0, "/nosuch", 0), del(0, "/nosuch"),
		again(100, all, nil, all), {S: 1, Op: stepReconnect}, set(0, "/a"), create(0, "/a/d", 1),
		again(2, []string{"/a"}, nil, []string{"/a"}), {S: 1, Op: stepReconnect}, again(0, nil, nil, nil, all, []string{""}),
		set(0, "/a"), create(0, "/a/e", 0), create(0, "/nosuch", 0), del(0, "/nosuch"),
		// The empty path is the root's second name, and a watch on it differs from a watch on "/".
		{S: 1, Op: stepReconnect}, again(0, root, root, root), create(0, "!/rearmed", 1), del(0, "!/rearmed"),
	}
}

// rights tests every right of every operation, with a client that has it and one that does not. It also tests what becomes of lists and
// identities.
func rights() []Op {
	login := func(s int, who string) Op { return Op{S: s, Op: wire.OpAuth, Path: "digest", Data: []byte(who)} }
	acl := func(s int, path string, version int32, acl ...ACL) Op {
		return Op{S: s, Op: wire.OpSetACL, Path: path, ACL: acl, Version: version}
	}
	read := func(s int, path string) Op { return Op{S: s, Op: wire.OpGetACL, Path: path} }
	owned := create(0, "/o", 0)
	owned.ACL = []ACL{{31, "auth", ""}, {1, "world", "anyone"}, {31, "auth", "ignored"}}
	return []Op{
		{Op: wire.OpWhoAmI}, owned, login(0, "u:p"), login(0, "u:p"), login(0, "v:q:r"), login(0, "w"), {Op: wire.OpWhoAmI}, owned, read(0, "/o"), read(1, "/o"),
		set(1, "/o"), create(1, "/o/x", 0), create(0, "/o/x", 0), del(1, "/o/x"), acl(1, "/o", -1, anyone...), multi(set(0, "/o")),
		{S: 1, Op: wire.OpMulti, Ops: []Op{set(1, "/o/x"), {Op: wire.OpCheck, Path: "/o", Version: 0}, set(1, "/o"), del(1, "/o/x")}},
		get(1, "/o"), list(2, "/o"), acl(0, "/o", 1, anyone...), acl(0, "/o", 0, ACL{16, "world", "anyone"}, ACL{1, "digest", "a:b"}),
		set(0, "/o"), read(1, "/o"), get(1, "/o"), list(1, "/o"), exists(1, "/o"), {S: 1, Op: wire.OpGetAllChildrenNumber, Path: "/o"}, {S: 1, Op: wire.OpSync, Path: "/o"},
		acl(1, "/o", 1, anyone...), read(1, "/o"), acl(1, "/o", -1), acl(1, "/o", -1, ACL{2, "ip", "127.0.0.1/8"}, ACL{5, "ip", "10.1.2.3"}),
		set(1, "/o"), get(1, "/o"), read(1, "/o"), {S: 2, Op: wire.OpAuth, Path: "ip", Data: nil}, {S: 2, Op: wire.OpWhoAmI},
		{S: 2, Op: wire.OpAuth, Path: "nosuch", Data: []byte("x")}, {S: 2, Op: wire.OpWhoAmI},
	}
}

// quotas goes up to the hard limits and beyond, also within one transaction. Its paths are absolute, so it deletes at the end what it
// leaves behind.
func quotas() []Op {
	at := func(path string) string { return "!/zookeeper/quota" + path }
	limit := create(0, at("/gq/zookeeper_limits"), 0)
	limit.Data = []byte("count=-1,bytes=-1;countHardLimit=4;byteHardLimit=20")
	stats := create(0, at("/gq/zookeeper_stats"), 0)
	stats.Data = []byte("count=0,bytes=0")
	node := func(path string, size int) Op {
		o := create(0, path, 0)
		o.Data = make([]byte, size)
		return o
	}
	grow := func(size int) Op {
		return Op{Op: wire.OpSetData, Path: "!/gq/a", Data: make([]byte, size), Version: -1}
	}
	see := get(0, at("/gq/zookeeper_stats"))
	see.Watch = false
	return []Op{
		node("!/gq", 3), node("!/gq/a", 1), create(0, at("/gq"), 0), limit, stats, see, node("!/gq/b", 10), see,
		grow(7), see, grow(8), see, node("!/gq/b/c", 1), node("!/gq/d", 0), node("!/gq/e", 0), see,
		multi(del(0, "!/gq/d"), node("!/gq/e", 0)), multi(node("!/gq/f", 0)), del(0, "!/gq/d"), see,
		multi(node("!/gq/g", 0), set(0, "/nosuch")), see, del(0, at("/gq/zookeeper_limits")), node("!/gq/h", 30), see,
		del(0, "!/gq/h"), del(0, "!/gq/b"), del(0, "!/gq/a"), del(0, at("/gq/zookeeper_stats")), del(0, at("/gq")), del(0, "!/gq"),
	}
}
