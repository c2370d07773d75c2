// Package outbox sends a connection's frames in order, and each frame when it is due. It sends nothing while the connection is cut, and no
// frame after a frame that is held. A caller that queues a frame never waits.
package outbox

import (
	"net"
	"sync"
	"time"
)

// Box is what one connection has yet to send. Its methods are called with the lock held, except Run.
type Box struct {
	lock sync.Locker
	conn net.Conn // frames are written here
	// raw is the connection that is closed, because closing a TLS connection writes, and nothing here may wait.
	raw   net.Conn
	taken func(bytes int)
	ended func()

	queue []frame
	size  int
	cut   bool
	dead  bool
	died  chan struct{}
	wake  chan struct{}
}

// frame is one frame. The last one of a connection closes it.
type frame struct {
	bytes []byte
	due   time.Time
	gate  <-chan struct{} // the frame is sent only after this channel is closed; nil: nothing holds the frame
	last  bool
}

// isHeld reports whether the frame is still held.
func (f *frame) isHeld() bool {
	if f.gate == nil {
		return false
	}
	select {
	case <-f.gate:
		return false
	default:
		return true
	}
}

// New makes a box for a connection; raw is the connection below its TLS. The writer calls the function taken, with the lock held,
// whenever it has looked for frames to send. It calls the function ended when it has sent the last frame, or can send no more.
func New(lock sync.Locker, conn, raw net.Conn, taken func(bytes int), ended func()) *Box {
	return &Box{lock: lock, conn: conn, raw: raw, taken: taken, ended: ended, died: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Send queues a frame, which is held until gate is closed if there is one.
func (b *Box) Send(bytes []byte, due time.Time, gate <-chan struct{}) {
	b.queue = append(b.queue, frame{bytes: bytes, due: due, gate: gate})
	b.size += len(bytes)
	b.Wake()
}

// End closes the connection after the frames that are queued.
func (b *Box) End(due time.Time) {
	b.queue = append(b.queue, frame{due: due, last: true})
	b.Wake()
}

// Kill ends the connection at once and drops all queued frames.
func (b *Box) Kill() {
	if !b.dead {
		b.dead = true
		close(b.died)
		b.raw.Close()
	}
}

// Dead reports whether the socket is gone. The channel that Died returns is closed when the socket is gone.
func (b *Box) Dead() bool            { return b.dead }
func (b *Box) Died() <-chan struct{} { return b.died }

// Size is the number of bytes that wait.
func (b *Box) Size() int { return b.size }

// Cut stops the sending of frames if on is true, and resumes it if on is false.
func (b *Box) Cut(on bool) {
	b.cut = on
	b.Wake()
}

// Wake makes the writer look at the queue again, for example after a gate was closed.
func (b *Box) Wake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run is the writer. It returns when the connection has ended.
func (b *Box) Run() {
	for {
		batch, last, wait := b.takeDue()
		if len(batch) > 0 {
			if _, err := b.conn.Write(batch); err != nil {
				b.end()
				return
			}
		}
		switch {
		case last:
			b.end()
			return
		case wait < 0:
			continue
		case !b.pause(wait):
			return
		}
	}
}

func (b *Box) end() {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.Kill()
	b.ended()
}

// pause waits for a change of the queue, at most d if d is positive. It returns false when the connection is gone.
func (b *Box) pause(d time.Duration) bool {
	var timeout <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-b.died:
		return false
	case <-b.wake:
	case <-timeout:
	}
	return true
}

// batchSize bounds the bytes that the writer takes at a time. Box.size no longer includes them.
const batchSize = 64 << 10

// takeDue takes the frames that are due. The result wait is the time until the next frame is due; 0: wait until woken; negative:
// look again at once.
func (b *Box) takeDue() (batch []byte, last bool, wait time.Duration) {
	b.lock.Lock()
	defer b.lock.Unlock()
	// Frames leave in order: a frame that is not due, held back or cut off holds up all later frames.
	for len(b.queue) > 0 && len(batch) < batchSize && !b.cut && !last && !b.queue[0].isHeld() {
		f := b.queue[0]
		if left := time.Until(f.due); left > 0 {
			if len(batch) > 0 {
				break
			}
			return nil, false, left
		}
		batch, last = append(batch, f.bytes...), f.last
		b.queue[0] = frame{}
		b.queue = b.queue[1:]
		b.size -= len(f.bytes)
	}
	b.taken(len(batch))
	if len(batch) > 0 {
		return batch, last, -1
	}
	return nil, last, 0
}
