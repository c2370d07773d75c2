package kerberos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// A ticket has a ticket of Kerberos and the key that belongs to it.
type ticket struct {
	client    principal
	ticket    messages.Ticket
	key       types.EncryptionKey
	start     time.Time // when we got it
	end       time.Time
	renewTill time.Time // zero if it is not renewable
}

func (t *ticket) valid(now time.Time) bool { return t != nil && now.Before(t.end) }

// renewalTime returns when the ticket is to be renewed.
func (t *ticket) renewalTime() time.Time { return t.start.Add(t.end.Sub(t.start) / 5 * 4) }

// tickets has the tickets of a Login, and the files that they came from. A goroutine that uses them holds Login.turn.
type tickets struct {
	files    files
	tgt      *ticket
	outdated bool // the keytab has changed since the tickets were obtained
	services map[spn]*ticket
}

// A flight obtains one ticket, for all callers that wait for that ticket. gokrb5 obeys no context, so a flight goes on even when
// its callers have stopped waiting. The next caller finds the ticket.
type flight struct {
	done chan struct{}
	t    *ticket
	err  error
}

// ticket returns a ticket for a server.
func (l *Login) ticket(ctx context.Context, to spn) (*ticket, error) {
	l.mu.Lock()
	f := l.flights[to]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		l.flights[to] = f
		go func() {
			defer close(f.done)
			f.t, f.err = l.obtain(to)
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.flights, to)
		}()
	}
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.t, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no ticket for %s yet: the KDC has not answered in the time allowed for one attempt; check that it runs and can be reached (%w)", to, context.Cause(ctx))
	}
}

func (l *Login) obtain(to spn) (*ticket, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	defer l.schedule()
	if err := l.reread(); err != nil {
		return nil, err
	}
	return l.serve(to)
}

// serve returns a ticket for a server. The caller holds Login.turn.
func (l *Login) serve(to spn) (*ticket, error) {
	now, have := time.Now(), l.tickets.services[to]
	if have != nil && now.Before(have.renewalTime()) && !l.tickets.outdated {
		return have, nil
	}
	err := l.login()
	var fresh *ticket
	if err == nil {
		fresh, err = l.ask(to)
	}
	switch {
	case err == nil:
		l.tickets.services[to] = fresh
		return fresh, nil
	case have.valid(now):
		l.log.Warn("a ticket cannot be renewed; the present one serves until it ends", "server", to.String(), "end", have.end, "error", err)
		return have, nil
	}
	return nil, err
}

// reread reads the files if they have changed. The caller holds Login.turn. While the files cannot be read, the old tickets
// serve.
func (l *Login) reread() error {
	tk := &l.tickets
	if tk.services == nil { // the first call
		tk.services, tk.tgt = map[spn]*ticket{}, tk.files.tgt
	} else if l.stamp() == tk.files.stamp {
		return nil
	}
	files, err := l.read()
	switch {
	case err == nil:
	case tk.tgt.valid(time.Now()):
		l.log.Warn("the files of Kerberos cannot be read again, so the tickets at hand are used", "error", err)
		return nil
	default:
		return err
	}
	if files.client.String() != tk.files.client.String() {
		tk.tgt, tk.services = nil, map[spn]*ticket{}
	}
	if files.tgt != nil {
		tk.tgt, tk.services = files.tgt, map[spn]*ticket{}
	}
	tk.outdated = files.keytab != nil && tk.files.stamp != files.stamp
	tk.files = files
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = files.client
	return nil
}

// login obtains or renews the ticket-granting ticket, if that is due. The caller holds Login.turn.
func (l *Login) login() error {
	tk, now := &l.tickets, time.Now()
	if tk.tgt != nil && !tk.outdated && now.Before(tk.tgt.renewalTime()) {
		return nil
	}
	var fresh *ticket
	var err error
	switch {
	case tk.files.keytab != nil:
		fresh, err = l.enter()
	case !tk.tgt.valid(now):
		return setupError("the tickets of %s in %s expired on %s; run \"kinit -c FILE:%s %s\", or name a keytab", tk.files.client, tk.files.cache,
			tk.tgt.end.UTC().Format(time.RFC3339), tk.files.cache, tk.files.client)
	case now.Before(tk.tgt.renewTill):
		realm := tk.files.client.realm
		fresh, err = l.exchange(tk.tgt, spn{"krbtgt/" + realm, realm}, realm, true)
	default:
		return nil // the old ticket serves until it ends; a person must run kinit before that
	}
	switch {
	case err == nil:
		tk.tgt, tk.outdated = fresh, false
		return nil
	case tk.tgt.valid(now) && !tk.outdated:
		l.log.Warn("the ticket-granting ticket cannot be renewed; the present one serves until it ends", "end", tk.tgt.end, "error", err)
		return nil
	}
	return err
}

// enter logs in with the keytab.
func (l *Login) enter() (*ticket, error) {
	f := l.tickets.files
	// FAST is off: gokrb5 refuses Active Directory's answer to a request with FAST.
	cl := client.NewWithKeytab(strings.Join(f.client.parts, "/"), f.client.realm, f.keytab, f.conf, client.DisablePAFXFAST(true))
	defer cl.Destroy()
	var rep messages.ASRep
	err := guard(func() error {
		req, err := messages.NewASReqForTGT(f.client.realm, f.conf, cl.Credentials.CName())
		if err == nil {
			rep, err = cl.ASExchange(f.client.realm, req, 0)
		}
		return err
	})
	if err != nil {
		return nil, l.explain(err, f.client.realm, spn{})
	}
	return f.made(rep.Ticket, rep.DecryptedEncPart), nil
}

func (f *files) made(t messages.Ticket, part messages.EncKDCRepPart) *ticket {
	return &ticket{client: f.client, ticket: t, key: part.Key, start: time.Now(), end: part.EndTime, renewTill: part.RenewTill}
}

// ask asks for a ticket for a server. If the server is in another realm, ask first gets a ticket for that realm.
func (l *Login) ask(to spn) (*ticket, error) {
	tgt, home := l.tickets.tgt, l.tickets.files.client.realm
	if to.realm != home {
		var err error
		if tgt, err = l.exchange(tgt, spn{"krbtgt/" + to.realm, home}, home, false); err != nil {
			return nil, err
		}
	}
	return l.exchange(tgt, to, to.realm, false)
}

func (l *Login) exchange(tgt *ticket, to spn, realm string, renewal bool) (*ticket, error) {
	f := l.tickets.files
	cl := client.NewWithPassword(strings.Join(f.client.parts, "/"), f.client.realm, "", f.conf) // a ticket needs no password
	defer cl.Destroy()                                                                          // it ends the goroutine that a referral starts
	var rep messages.TGSRep
	err := guard(func() (err error) {
		name := types.NewPrincipalName(nametype.KRB_NT_SRV_INST, to.name)
		_, rep, err = cl.TGSREQGenerateAndExchange(name, realm, tgt.ticket, tgt.key, renewal)
		return err
	})
	if err != nil {
		return nil, l.explain(err, realm, to)
	}
	return f.made(rep.Ticket, rep.DecryptedEncPart), nil
}

// schedule sets the timer that renews tickets. The caller holds Login.turn. The timer does not keep the Login alive, so nothing
// has to stop it.
func (l *Login) schedule() {
	var next time.Time
	now := time.Now()
	held := slices.Collect(maps.Values(l.tickets.services))
	if l.tickets.tgt != nil {
		held = append(held, l.tickets.tgt)
	}
	for _, t := range held {
		due := t.renewalTime()
		if !due.After(now) { // the renewal failed: try again after a while
			due = now.Add(min(max(t.end.Sub(now)/5, time.Second), time.Minute))
		}
		if t.valid(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if next.IsZero() {
		return
	}
	self := weak.Make(l)
	l.timer = time.AfterFunc(time.Until(next), func() {
		if l := self.Value(); l != nil {
			l.refresh()
		}
	})
}

// refresh renews the tickets that are due, so that the next connection finds them even if no KDC answers then.
func (l *Login) refresh() {
	l.turn.Lock()
	defer l.turn.Unlock()
	defer l.schedule()
	err := l.reread()
	if err == nil {
		err = l.login()
	}
	if err != nil {
		l.log.Warn("the ticket-granting ticket cannot be renewed", "error", err)
		return
	}
	for to, t := range l.tickets.services {
		if !time.Now().Before(t.renewalTime()) {
			if _, err := l.serve(to); err != nil {
				l.log.Warn("a ticket cannot be renewed", "server", to.String(), "error", err)
			}
		}
	}
}
