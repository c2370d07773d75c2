package drivers

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// sleeper tries to create one node, and sleeps.
type sleeper struct {
	c    *zk.Conn
	node string
}

func (s sleeper) Lock(context.Context) error {
	for {
		_, err := s.c.Create(s.node, nil, zk.FlagEphemeral, open)
		if err != zk.ErrNodeExists {
			return err
		}
		time.Sleep(again)
	}
}

func (s sleeper) Unlock(context.Context) error { return s.c.Delete(s.node, -1) }
