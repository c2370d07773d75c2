package drivers

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/locktree/locktree/examples/compare/lock"
)

// etcd is the mutex of its package concurrency. Workers that want the same lock have sessions of their own: two that share
// one are, to that mutex, the same owner. Those that want others share.
func etcd(_ context.Context, addrs []string) (lock.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		return lock.Client{}, err
	}
	var sessions []*concurrency.Session
	used := map[string]int{} // how many of them, by lock
	return lock.Client{Close: c.Close, Locker: func(_ context.Context, name string) (lock.Locker, error) {
		if used[name] == len(sessions) {
			s, err := concurrency.NewSession(c, concurrency.WithTTL(int(TTL.Seconds())))
			if err != nil {
				return lock.Locker{}, err
			}
			sessions = append(sessions, s)
		}
		s := sessions[used[name]]
		used[name]++
		m := concurrency.NewMutex(s, "/"+name)
		return lock.Locker{Lock: m.Lock, Unlock: m.Unlock, Token: func() uint64 { return uint64(m.Header().Revision) }, Lost: s.Done}, nil
	}}, nil
}
