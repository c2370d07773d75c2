package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// Step is one side of a login by SASL: it answers a challenge, which is nil at first. done ends the login.
type Step func(challenge []byte) (token []byte, done bool, err error)

// LoggedIn is dial with a login by SASL on each connection that is granted a session, before any other request.
func LoggedIn(dial Dial, start func() (Step, error)) Dial {
	return func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		step, err := start()
		return &loggingIn{Conn: c, step: step}, err
	}
}

// loggingIn logs in after the reply to the connect request, before it passes the reply on.
type loggingIn struct {
	net.Conn
	step Step
	once sync.Once
	rest bytes.Buffer // of that reply
	err  error
}

func (c *loggingIn) Read(b []byte) (int, error) {
	c.once.Do(func() { c.err = c.login() })
	if c.rest.Len() > 0 {
		return c.rest.Read(b)
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(b)
}

func (c *loggingIn) login() error {
	granted, err := c.frame()
	if err != nil {
		return err
	}
	c.rest.Write(binary.BigEndian.AppendUint32(nil, uint32(len(granted))))
	c.rest.Write(granted)
	if d := (wire.Decoder{B: granted[8:]}); d.Int64() == 0 {
		return nil // expired: the server hangs up
	}
	var challenge []byte
	for {
		token, done, err := c.step(challenge)
		if err != nil || done {
			return err
		}
		e := wire.Encoder{B: make([]byte, 4)}
		e.Int32(0)
		e.Int32(wire.OpSASL)
		e.Buffer(token)
		binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4))
		if _, err := c.Conn.Write(e.B); err != nil {
			return err
		}
		answer, err := c.frame()
		if err != nil {
			return err
		}
		d := wire.Decoder{B: answer}
		d.Int32()
		d.Int64()
		if code := d.Int32(); code != 0 {
			return fmt.Errorf("the login was refused with code %d", code)
		}
		challenge = d.Buffer()
	}
}

func (c *loggingIn) frame() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 16 || n > 64<<10 {
		return nil, errors.New("no frame")
	}
	body := make([]byte, n)
	_, err := io.ReadFull(c.Conn, body)
	return body, err
}

// RandomLoggedIn is Random with logins: start begins one, at either server.
func RandomLoggedIn(t *testing.T, dial Dial, start func() (Step, error), reference ...zktest.Option) {
	t.Helper()
	ref := newReference(append(as(t, dial), reference...)...)
	defer ref.Close()
	random(t, LoggedIn(dial, start), LoggedIn(pipe(ref), start))
}
