package recipes_test

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// befall plays the faults, each at its time, and returns when all of them are over.
func (w *simWorld) befall() {
	var wg sync.WaitGroup
	for _, f := range w.plan.faults {
		time.Sleep(time.Until(w.born.Add(f.at)))
		w.mu.Lock()
		w.stats.faults++
		w.mu.Unlock()
		wg.Go(func() { w.strike(f) })
		w.inspect()
	}
	wg.Wait()
}

// strike is one fault from its beginning to its end.
func (w *simWorld) strike(f simFault) {
	c := w.clients[f.client]
	id := c.session()
	switch f.what {
	case "cut":
		c.Arm(harness.Cut{Dir: harness.Direction(f.n % 2), After: f.n})
		time.Sleep(f.lasts)
		c.Disarm()
	case "refuse-one":
		c.SetRefuse(true)
		w.Srv.Disconnect(id)
		time.Sleep(f.lasts)
		c.SetRefuse(false)
	case "refuse":
		w.Srv.RefuseDials(true)
		w.Srv.Disconnect(0)
		w.recount(int32(f.n % 4))
		time.Sleep(f.lasts)
		w.Srv.RefuseDials(false)
	case "disconnect":
		w.Srv.Disconnect(id)
	case "expire":
		w.spoil(sessionName(id))
		w.Srv.Expire(id)
	case "swap":
		w.spoil(sessionName(id))
		w.Srv.SwapSessionID(id)
		w.Srv.Disconnect(id)
	case "partition", "pause":
		if f.what == "pause" {
			f.dir = zktest.Both
		}
		w.Srv.Partition(id, f.dir)
		time.Sleep(f.lasts)
		w.Srv.Heal(id)
	case "freeze":
		w.Srv.Freeze()
		time.Sleep(f.lasts)
		w.Srv.Thaw()
	case "lag":
		if w.follower != nil {
			w.follower.Lag()
			time.Sleep(f.lasts)
			w.follower.CatchUp()
		}
	case "behind":
		w.behind(f)
	case "delete", "revoke":
		w.meddle(f)
	case "drain":
		w.shut(f)
	case "found":
		w.found(f)
	case "resize", "lower":
		w.resize(f)
	case "stall", "stall-look":
		w.stall(f, c, id)
	case "hang-up":
		c.HangUp()
	case "restart":
		w.restart(c)
	default:
		w.inject(f, id)
	}
}

// inject lets a fault strike the next fitting request, or for a while.
func (w *simWorld) inject(f simFault, id int64) {
	fits := func(r zktest.Request) bool { return r.Session == id && r.Op == f.op }
	var rule *zktest.Injection
	switch f.what {
	case "drop-reply":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.DropReply)
	case "drop-request", "lose-reply":
		// A hole in a stream cannot last: whoever loses a packet loses the connection soon after.
		kind := zktest.DropRequest
		if f.what == "lose-reply" {
			kind = zktest.LoseReply
		}
		rule = w.Srv.Inject(zktest.Once(fits), kind)
		select {
		case <-rule.Hit():
		case <-time.After(f.lasts):
		}
		rule.Remove()
		time.Sleep(w.plan.timeout / 10)
		w.Srv.Disconnect(id)
		return
	case "cut-before":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.CutBefore)
	case "cut-after":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.CutAfter)
	case "cut-at":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.CutAt(f.n%64))
	case "delay-reply":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.DelayReply(f.lasts))
	case "hold-reply":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.HoldReply)
	case "delay":
		rule = w.Srv.Inject(zktest.Once(fits), zktest.Hold)
	case "throttle":
		rule = w.Srv.Inject(fits, zktest.Fail(zktest.CodeThrottled))
	}
	time.Sleep(f.lasts)
	rule.Release()
}

// recount is a new leader whose count of the children created lags by n (ZOOKEEPER-3249), or is right. It does not give a number
// that a contender has, or one before that.
func (w *simWorld) recount(n int32) {
	for _, dir := range w.dirs {
		queue, there := w.Srv.Get(dir)
		if !there { // the mark of a semaphore has no queues
			continue
		}
		count := (queue.Stat.Cversion+int32(len(queue.Children)))/2 - n
		for _, name := range queue.Children {
			if k, ok := kind.ParseContender(name); ok {
				count = max(count, k.Seq+1)
			}
		}
		require.NoError(w.T, w.Srv.SetCreateCount(dir, max(0, count)))
	}
}

// meddle is an administrator's hand in a queue.
func (w *simWorld) meddle(f simFault) {
	dir := w.dirs[f.n%len(w.dirs)]
	n, _ := w.Srv.Get(dir)
	line, _ := kind.SortContenders(n.Children)
	if len(line) == 0 {
		return
	}
	node := kind.JoinPath(dir, line[f.n/3%len(line)].Name)
	if f.what == "revoke" {
		_ = w.Srv.Set(node, []byte(kind.RevokeMessage)) // it may have gone
		return
	}
	w.spoil(node)
	_ = w.Srv.Delete(node) // it may have gone
}

// restart closes the client under its workers and dials another.
func (w *simWorld) restart(c *simClient) {
	c.restarting <- struct{}{} // one at a time
	defer func() { <-c.restarting }()
	id, start := c.session(), time.Now()
	lost := c.lost() // then there is nobody to confirm anything, and what it left goes when the servers expire it
	err := c.client().Close()
	if took := time.Since(start); took > recipes.ObserverGrace+w.plan.timeout+4*w.plan.latency { // a server that is connected is waited for
		w.violated("Close of client %d took %v", c.number, took)
	}
	if err == nil && !lost {
		w.departed(c.number, id)
	}
	c.dialAgain()
}

// departed: a client whose Close was confirmed has left nothing.
func (w *simWorld) departed(client int, id int64) {
	for _, s := range w.Srv.Sessions() {
		if s.ID == id && len(s.Ephemerals) > 0 && !w.swapped(id) {
			w.violated("client %d is closed and %v are left", client, s.Ephemerals)
		}
	}
}

func (w *simWorld) swapped(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.spoiled[sessionName(id)]
	return ok
}

// dialAgain tries until it succeeds.
func (c *simClient) dialAgain() {
	for c.redial(context.Background()) != nil {
		time.Sleep(time.Second)
	}
}

// heal ends every fault there may be.
func (w *simWorld) heal() {
	w.Srv.Heal(0)
	w.Srv.Thaw()
	w.Srv.RefuseDials(false)
	if w.follower != nil {
		w.follower.CatchUp()
	}
	for _, c := range w.clients {
		c.SetRefuse(false)
		c.Disarm()
	}
}
