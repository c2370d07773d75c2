package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
)

// operations are methods of a session. They stand for its type, which has another name in the former version of the library that
// this program is also built with.
type operations interface {
	Get(ctx context.Context, path string) ([]byte, *zk.Stat, error)
	Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error)
	Exists(ctx context.Context, path string) (*zk.Stat, error)
}

// soaking is the soak of ../README.md in Go; Soak.java and soak.py do the same.
type soaking struct {
	*peer
	zk             operations
	owner, counter string
}

// soak has the arguments OWNER COUNTER GRANTS [stop=N]. It takes the lock GRANTS times, and adds one to the counter each time.
// It reads the counter and writes it without a version, so only the lock makes the two one step. The owner node is empty while
// no client holds the lock. With stop=N, soak halts for ever in grant N, after the write and before its acknowledgement: the
// worst moment for a kill.
func (p *peer) soak(h *handle, args []string) error {
	grants, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	stop := 0
	if len(args) > 3 {
		if stop, err = strconv.Atoi(strings.TrimPrefix(args[3], "stop=")); err != nil {
			return err
		}
	}
	s := soaking{peer: p, owner: args[0], counter: args[1]}
	if s.zk, err = p.client.Session(context.Background()); err != nil {
		return err
	}
	for i := 1; i <= grants; i++ {
		err := h.mutex.Do(context.Background(), func(ctx context.Context, l *recipes.Lease) error {
			return s.hold(ctx, l, i == stop)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s soaking) hold(ctx context.Context, l *recipes.Lease, stopHere bool) error {
	heir, err := s.inherit(ctx)
	if err != nil {
		return err
	}
	mine, err := s.zk.Set(ctx, s.owner, []byte(s.id+" "+l.Node()), -1)
	if err != nil {
		return err
	}
	data, _, err := s.zk.Get(ctx, s.counter)
	if err != nil {
		return err
	}
	value, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return err
	}
	value++
	if _, err := s.zk.Set(ctx, s.counter, strconv.AppendInt(nil, value, 10), -1); err != nil {
		return err
	}
	if stopHere {
		s.say(fmt.Sprint("- stopped ", value))
		select {}
	}
	s.say(fmt.Sprintf("- grant %d %d %s %s", value, l.Token(), l.Node(), heir))
	_, err = s.zk.Set(ctx, s.owner, []byte{}, mine.Version)
	if errors.Is(err, zk.ErrBadVersion) {
		return fmt.Errorf("overlap: somebody entered while %s held: %w", l.Node(), err)
	}
	return err
}

// inherit returns the ID in the owner node, usually "-" for none. An ID there is that of a holder that died. If the holder's
// contender still exists, two clients hold the lock: an overlap.
func (s soaking) inherit(ctx context.Context) (string, error) {
	before, _, err := s.zk.Get(ctx, s.owner)
	if err != nil || len(before) == 0 {
		return "-", err
	}
	id, node, _ := strings.Cut(string(before), " ")
	stat, err := s.zk.Exists(ctx, node)
	if err != nil {
		return "", err
	}
	if stat != nil {
		return "", fmt.Errorf("overlap: %s still holds", before)
	}
	return id, nil
}
