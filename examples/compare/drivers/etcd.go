package drivers

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/locktree/locktree/examples/compare/lock"
)

// etcd is the mutex of its package concurrency. Workers that want the same lock have sessions of their own: two that share
// one are, to that mutex, the same owner. Those that want others share.
func etcd(addrs []string, ttl time.Duration) lock.Client {
	c := lock.Must(clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: time.Minute, Logger: zap.NewNop()}))
	var sessions []*concurrency.Session
	used := map[string]int{} // how many of them, by lock
	return lock.Client{Close: c.Close, Locker: func(name string) lock.Locker {
		if used[name] == len(sessions) {
			sessions = append(sessions, lock.Must(concurrency.NewSession(c, concurrency.WithTTL(int(ttl.Seconds())))))
		}
		s := sessions[used[name]]
		used[name]++
		m := concurrency.NewMutex(s, "/"+name)
		return lock.Locker{Lock: m.Lock, Unlock: m.Unlock, Token: func() uint64 { return uint64(m.Header().Revision) }, Lost: s.Done}
	}}
}
