package conformance

// Check is a scenario that a server in use can be asked: all its nodes are below one, and others may write meanwhile.
type Check struct {
	Name  string
	Needs string // what of locktree rests on it; "" for nothing
	ops   []Op
}

// checks are what locktree needs of a server, and what tells kinds of servers apart.
func checks() []Check {
	login := func(s int) Op { return Op{S: s, Op: opAuth, Path: "digest", Data: []byte("u:p")} }
	listed := func(path string, acl ...ACL) Op { return Op{Op: opCreate, Path: path, ACL: acl, TTL: -1} }
	acl := func(s int, path string) Op { return Op{S: s, Op: opGetACL, Path: path} }
	check := func(path string, version int32) Op { return Op{Op: opCheck, Path: path, Version: version} }
	together := func(s int, ops ...Op) Op { return Op{S: s, Op: stepPipeline, Ops: ops} }
	versioned := func(op Op, version int32) Op { op.Version = version; return op }
	create2 := create(0, "/a", 0)
	create2.Op = opCreate2
	return []Check{
		{"numbers of contenders", "every lock: who is first", []Op{
			create(0, "/q", 0), create(0, "/q/a-", 3), create(1, "/q/b-", 3), create(2, "/q/c-", 3), list(0, "/q"),
			del(0, "/q/a-0000000000"), create(0, "/q/a-", 3), create(0, "/q/plain", 0), create(1, "/q/b-", 3), list(1, "/q"),
			exists(2, "/q/b-0000000001"),
		}},
		{"the zxid of a create", "fencing tokens", []Op{
			create(0, "/t", 1), exists(1, "/t"), set(1, "/t"), get(0, "/t"), del(0, "/t"), create(1, "/t", 1), exists(0, "/t"),
		}},
		{"transactions", "multi-locks, hand-offs, apply", []Op{
			create(0, "/a", 0), create(0, "/b", 0),
			multi(create(0, "/a/l-", 3), create(0, "/b/l-", 3), check("/a", 0), set(0, "/b")),
			exists(1, "/a/l-0000000000"), exists(1, "/b/l-0000000000"), exists(1, "/b"),
			multi(create(0, "/a/l-", 3), del(0, "/a/l-0000000000"), create(0, "/c", 0), create(0, "/c/d", 0)), list(1, "/a"), list(1, "/c"),
		}},
		{"transactions that fail", "multi-locks, hand-offs, apply", []Op{
			create(0, "/a", 0), multi(create(0, "/b", 0), del(0, "/nosuch"), create(0, "/c", 0)), exists(0, "/b"),
			multi(check("/a", 7), create(0, "/b", 0)), multi(set(0, "/a"), create(0, "/a", 0)), get(0, "/a"),
		}},
		{"heartbeats", "leases: a transaction of checks goes through the quorum, and changes nothing", []Op{
			create(0, "/e", 1), multi(check("/e", -1)), get(0, "/e"), multi(check("/nosuch", -1)), multi(check("/e", -1), check("/nosuch", -1)),
			del(1, "/e"), multi(check("/e", -1)),
		}},
		{"watches", "waiting for a lock", []Op{
			create(0, "/w", 0), create(0, "/w/e", 1), get(1, "/w/e"), get(2, "/w/e"), exists(2, "/w/e"), list(1, "/w"), set(0, "/w/e"), set(0, "/w/e"),
			get(1, "/w/e"), del(0, "/w/e"), create(0, "/w/e", 1), list(1, "/w"), exists(2, "/w/f"), multi(create(0, "/w/f", 1), set(0, "/w")),
		}},
		{"the order of events and answers", "grants: an event comes before an answer that shows what it tells of", []Op{
			create(0, "/w", 0), get(1, "/w"), list(1, "/w"), together(1, set(1, "/w"), get(1, "/w")),
			together(1, create(1, "/w/a-", 3), list(1, "/w"), del(1, "/w/a-0000000000"), list(1, "/w")),
			together(0, create(0, "/w/b-", 3), list(0, "/w"), multi(check("/w", -1)), exists(0, "/w/b-0000000001"), set(0, "/w"), get(0, "/w")),
		}},
		{"the end of a session", "a lock whose holder has gone", []Op{
			create(0, "/q", 0), create(1, "/q/a-", 3), create(2, "/q/b-", 3), get(2, "/q/a-0000000000"), get(0, "/q/a-0000000000"), list(0, "/q"),
			{S: 1, Op: opClose}, list(0, "/q"), create(0, "/q/c-", 3),
		}},
		{"versions and refusals", "apply: nothing is written over somebody's newer change", []Op{
			create(0, "/v", 0), versioned(set(0, "/v"), 3), versioned(set(0, "/v"), 0), versioned(del(0, "/v"), 0), create(0, "/v", 0),
			create(0, "/nosuch/a", 0), create(0, "/v/e", 1), create(0, "/v/e/x", 0), del(0, "/v"), set(0, "/nosuch"), get(0, "/nosuch"), list(0, "/nosuch"),
			{Op: opSync, Path: "/v"}, {Op: opSetACL, Path: "/v", ACL: anyone, Version: 5}, {Op: opSetACL, Path: "/v", ACL: anyone, Version: 0}, acl(0, "/v"),
		}},
		{"rights", "access lists of digest identities", []Op{
			login(0), listed("/o", ACL{31, "auth", ""}), acl(0, "/o"), get(1, "/o"), set(1, "/o"), create(1, "/o/x", 0), list(1, "/o"),
			login(1), get(1, "/o"), create(1, "/o/x", 0), del(2, "/o/x"), del(1, "/o/x"),
		}},
		{"rights of everybody", "access lists that let everybody read", []Op{
			login(0), listed("/o", ACL{31, "auth", ""}, ACL{1, "world", "anyone"}), acl(0, "/o"), get(1, "/o"), set(1, "/o"),
			listed("/r", ACL{1, "world", "anyone"}), acl(0, "/r"), set(0, "/r"),
		}},
		{"access lists of addresses", "access lists of ip identities", []Op{
			login(0), listed("/i", ACL{31, "ip", "10.1.2.3"}, ACL{31, "auth", ""}), acl(0, "/i"), listed("/j", ACL{1, "ip", "10.1.2.3"}), listed("/k", ACL{1, "nosuch", "x"}),
		}},
		{"a session and its connection", "a lock outlives a connection", []Op{
			create(0, "/e", 1), {Op: stepReconnect}, exists(1, "/e"), create(0, "/f", 1),
		}},
		{"create2", "", []Op{create2, exists(1, "/a")}},
		{"reads in one request", "", []Op{create(0, "/a", 0), {Op: opMultiRead, Ops: []Op{{Op: opGetData, Path: "/a"}, {Op: opGetData, Path: "/nosuch"}}}}},
		{"removeWatches", "", []Op{create(0, "/a", 0), get(0, "/a"), {Op: opRemoveWatches, Path: "/a", Mode: 2}, set(1, "/a")}},
	}
}
