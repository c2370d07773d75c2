//go:build linux

package server

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// RedisPair is a Redis with a replica, which is behind it by some time: Redis replicates after it has answered.
type RedisPair struct {
	Primary, Replica string // addresses
	primary, replica *redis
}

// StartRedisPair starts both. The replica hears of a write so much later than it would on loopback.
func StartRedisPair(s *Scope, lag time.Duration) (*RedisPair, error) {
	return begin(s, func(s *Scope) *RedisPair {
		args := []string{"--appendonly", "no", "--repl-diskless-sync-delay", "0"}
		p := &RedisPair{primary: redises(s, 1, "", args...).(*redis)}
		p.Primary = p.primary.addrs[0]
		from := p.Primary
		if lag > 0 {
			away, err := Away(s, []string{from}, 2*lag)
			if err != nil {
				s.Fatalf("%v", err)
			}
			from = away.Addrs[0]
		}
		p.replica = redises(s, 1, "", append(args, "--replicaof", strings.Replace(from, ":", " ", 1))...).(*redis)
		p.Replica = p.replica.addrs[0]
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			info, err := ask(p.Replica)
			if err == nil && info["master_link_status"] == "up" {
				return p
			}
			if time.Now().After(end) {
				s.Fatalf("the replica has not followed within a minute: %v", err)
			}
		}
	})
}

// FailOver kills the primary and promotes the replica, as Sentinel does.
func (p *RedisPair) FailOver() error {
	p.primary.programs[0].kill()
	c, err := net.DialTimeout("tcp", p.Replica, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c, "REPLICAOF NO ONE\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+OK") {
		err = fmt.Errorf("the replica was not promoted: %s", strings.TrimSpace(answer))
	}
	return err
}

// Forget kills one of several servers, which starts again without what it had in memory.
func (r *redis) Forget(i int) (err error) {
	r.programs[i].kill()
	defer func() {
		if p, ok := recover().(failure); ok {
			err = fmt.Errorf("%s", string(p))
		}
	}()
	r.start(i)
	return nil
}
