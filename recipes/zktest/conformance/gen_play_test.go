package conformance

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// The names are few, so that sequences collide: they create existing nodes, delete watched ones, and expect present versions.
var (
	genPath = rapid.SampledFrom([]string{
		"/a", "/a", "/a", "/b", "/b", "/a/c", "/a/c", "/a/d", "/a/c/e", "/b/c", "", "/nosuch", "/nosuch/x",
		"/a/s-0000000000", "/a/s-0000000001", "/s-0000000002", "/a/c/s-0000000000",
	})
	genOddPath = rapid.SampledFrom([]string{
		"/", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a/.b", "/a\x01", "/a\x00b", "/\u00e9t\u00e9", "/\ufffd", "/a\ue000",
		"!", "!a", "!zookeeper", "!/zookeeper", "!/zookeeper/quota", "!/zookeeper/config", "/\U0001f512",
	})
	genData    = rapid.SampledFrom([][]byte{nil, {}, []byte("x"), []byte("a longer value")})
	genVersion = rapid.SampledFrom([]int32{-1, -1, -1, 0, 0, 1, 2, 7})
	genACL     = rapid.SampledFrom([][]ACL{
		anyone, anyone, anyone, anyone, anyone, {{1, "world", "anyone"}}, {{31, "auth", ""}}, nil,
		{{31, "digest", "u:x"}, {1, "world", "anyone"}}, {{31, "digest", "u"}}, {{31, "ip", "127.0.0.1"}},
		{{31, "ip", "127.0.0.0/8"}}, {{31, "ip", "127.0.0.0/33"}}, {{31, "ip", "10.0.0.1/0"}}, {{31, "nosuch", "x"}},
		{{31, "world", "all"}}, {{15, "auth", ""}, {1, "world", "anyone"}, {15, "auth", ""}, {1, "world", "anyone"}},
		{{31, "digest", "u::"}}, {{31, "digest", ":p"}}, {{0, "world", "anyone"}}, {{24, "world", "anyone"}},
		{{31, "x509", "CN=a"}}, {{31, "sasl", "a"}}, {{31, "super", ""}}, {{31, "ip", "+1.02.3.4"}},
	})
	genFlags = rapid.SampledFrom([]int32{0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, -1})
)

// genAnyPath draws an odd path once in twenty: most are refused, and change nothing.
func genAnyPath(t *rapid.T) string {
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		return genOddPath.Draw(t, "path")
	}
	return genPath.Draw(t, "path")
}

// genCreate draws a create of any kind. Most sequential paths end in "s-", so that later steps can guess their numbers.
func genCreate(t *rapid.T, inMulti bool) Op {
	o := Op{
		Op: wire.OpCreate, Path: genAnyPath(t), Data: genData.Draw(t, "data"),
		ACL: genACL.Draw(t, "acl"), Flags: genFlags.Draw(t, "flags"), TTL: -1,
	}
	if o.Flags == 2 || o.Flags == 3 {
		o.Path = rapid.SampledFrom([]string{"/s-", "/a/s-", "/a/c/s-", "/b/", "/nosuch/s-"}).Draw(t, "sequential")
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0, 1, 2:
		o.Op = wire.OpCreate2
	case 3:
		o.Op = wire.OpCreateContainer
	case 4:
		o.Op, o.TTL = wire.OpCreateTTL, rapid.SampledFrom([]int64{100_000, 0, -1, 1 << 40}).Draw(t, "ttl")
		if o.Flags < 5 {
			o.TTL = max(o.TTL, 0) // a negative one without a TTL mode ends the process of 3.8.0
		}
	}
	if inMulti && o.Op != wire.OpCreateTTL && o.Flags > 4 {
		o.Flags = 0 // a lone TTL flag in a multi is a scripted case
	}
	return o
}

// genWrite draws a part of a multi.
func genWrite(t *rapid.T) Op {
	switch rapid.IntRange(0, 6).Draw(t, "write") {
	case 0, 1, 2:
		return genCreate(t, true)
	case 3, 4:
		return Op{Op: wire.OpDelete, Path: genAnyPath(t), Version: genVersion.Draw(t, "version")}
	case 5:
		return Op{Op: wire.OpSetData, Path: genAnyPath(t), Data: genData.Draw(t, "data"), Version: genVersion.Draw(t, "version")}
	}
	return Op{Op: wire.OpCheck, Path: genAnyPath(t), Version: genVersion.Draw(t, "version")}
}

func genMulti(t *rapid.T) Op {
	o := Op{Op: wire.OpMulti}
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		o.Ops = append(o.Ops, genWrite(t))
	}
	return o
}

func genMultiRead(t *rapid.T) Op {
	o := Op{Op: wire.OpMultiRead}
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		kind := rapid.SampledFrom([]int32{wire.OpGetData, wire.OpGetChildren}).Draw(t, "kind")
		o.Ops = append(o.Ops, Op{Op: kind, Path: genPath.Draw(t, "path")})
	}
	return o
}

func genSetWatches(t *rapid.T) Op {
	o := Op{Op: rapid.SampledFrom([]int32{wire.OpSetWatches, wire.OpSetWatches2}).Draw(t, "kind"), Back: int64(rapid.IntRange(0, 6).Draw(t, "back"))}
	for i := range 5 {
		o.Lists[i] = rapid.SliceOfN(genPath, 0, 3).Draw(t, "list")
	}
	return o
}

// genStep draws one step; the common ones are listed more than once.
func genStep(t *rapid.T) Op {
	var o Op
	watch := rapid.Bool()
	switch rapid.IntRange(0, 39).Draw(t, "step") {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		o = genCreate(t, false)
	case 8, 9, 10, 11:
		o = Op{Op: wire.OpDelete, Path: genAnyPath(t), Version: genVersion.Draw(t, "version")}
	case 12, 13, 14:
		o = Op{Op: wire.OpSetData, Path: genAnyPath(t), Data: genData.Draw(t, "data"), Version: genVersion.Draw(t, "version")}
	case 15, 16, 17:
		o = Op{Op: wire.OpExists, Path: genAnyPath(t), Watch: watch.Draw(t, "watch")}
	case 18, 19, 20:
		o = Op{Op: wire.OpGetData, Path: genAnyPath(t), Watch: watch.Draw(t, "watch")}
	case 21, 22:
		o = Op{Op: wire.OpGetChildren2, Path: genAnyPath(t), Watch: watch.Draw(t, "watch")}
	case 23:
		o = Op{Op: wire.OpGetChildren, Path: genAnyPath(t), Watch: watch.Draw(t, "watch")}
	case 24:
		o = Op{Op: wire.OpGetACL, Path: genAnyPath(t)}
	case 25, 26:
		o = Op{Op: wire.OpSetACL, Path: genAnyPath(t), ACL: genACL.Draw(t, "acl"), Version: genVersion.Draw(t, "version")}
	case 27, 28, 29, 30:
		o = genMulti(t)
	case 31:
		o = genMultiRead(t)
	case 32:
		o = Op{Op: wire.OpAuth, Path: rapid.SampledFrom([]string{"digest", "digest", "digest", "ip", "nosuch"}).Draw(t, "scheme"), Data: []byte("u:p")}
	case 33:
		o = Op{Op: wire.OpSync, Path: genPath.Draw(t, "path")}
	case 34:
		o = Op{Op: wire.OpGetAllChildrenNumber, Path: genPath.Draw(t, "path")}
	case 35:
		o = Op{Op: wire.OpGetEphemerals, Path: genPath.Draw(t, "path")}
	case 36, 37:
		o = genWatchOp(t)
	case 38:
		o = rapid.SampledFrom([]Op{{Op: stepReconnect}, {Op: wire.OpWhoAmI}, {Op: wire.OpCloseSession}}).Draw(t, "session")
	case 39:
		o = genSetWatches(t)
	}
	o.S = rapid.IntRange(0, sessionCount-1).Draw(t, "session")
	return o
}

func genWatchOp(t *rapid.T) Op {
	return Op{
		Op:   rapid.SampledFrom([]int32{wire.OpAddWatch, wire.OpAddWatch, wire.OpRemoveWatches, wire.OpCheckWatches}).Draw(t, "kind"),
		Path: genPath.Draw(t, "path"), Mode: int32(rapid.IntRange(0, 3).Draw(t, "mode")),
	}
}

// racy reports whether ZooKeeper's threads race on requests close behind this one. After setACL, ZooKeeper checks against the old list or
// the new. From a createContainer with an ephemeral node's flag it makes a container, but refuses it children until it is committed.
func racy(o Op) bool {
	return o.Op == wire.OpSetACL || o.Op == wire.OpCreateContainer && (o.Flags == 1 || o.Flags == 3) || slices.ContainsFunc(o.Ops, racy)
}

// genPipeline draws requests to be sent together. It leaves out requests that end the connection, and those with a racy effect.
func genPipeline(t *rapid.T) Op {
	o := Op{Op: stepPipeline}
	for range rapid.IntRange(2, 6).Draw(t, "depth") {
		sub := genStep(t)
		if sub.Op != stepReconnect && sub.Op != wire.OpCloseSession && sub.Op != wire.OpAuth && !racy(sub) {
			o.Ops = append(o.Ops, sub)
		}
	}
	o.S = rapid.IntRange(0, sessionCount-1).Draw(t, "session")
	return o
}

func genAny(t *rapid.T) Op {
	if rapid.IntRange(0, 9).Draw(t, "together") == 0 {
		return genPipeline(t)
	}
	return genStep(t)
}

// genSequence draws a sequence. It starts from a small tree, so that even short ones find something.
func genSequence(t *rapid.T) []Op {
	ops := []Op{
		{Op: wire.OpCreate, Path: "/a", Data: []byte("a"), ACL: anyone},
		{S: 1, Op: wire.OpCreate, Path: "/a/c", ACL: anyone},
	}
	n := rapid.SampledFrom([]int{1, 10, 30, 60}).Draw(t, "length") // a slice with rapid's own length would mostly be short
	return append(ops, rapid.SliceOfN(rapid.Custom(genAny), n, n).Draw(t, "ops")...)
}
