package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/document"
)

// Somebody who has looked after a loss says so, and it no longer counts as a problem in that browser: the cookie that says so is all
// there is of it, and lives for as long as a loss is a problem.
const (
	acknowledgePath = "/acknowledge"
	seenCookie      = "locktree-losses-seen"
)

// lost finds what was lost, of each session at once: it has one cause.
func (p *problemsOf) lost() {
	type party struct {
		session int64
		who     string
	}
	at := map[party]int{}
	for e := range p.b.history.newest {
		if p.now.Sub(e.At) > lostFor {
			return
		}
		if e.What != "lost" || e.Ensemble != p.e.Name {
			continue
		}
		key := party{e.Session, e.Who}
		i, ok := at[key]
		if !ok {
			if len(at) == mostListed {
				continue // those that are told may have lost more
			}
			i = len(p.found)
			at[key] = i
			p.add(true, "lost", "", "", p.e.look(e.Lock))
		}
		found := &p.found[i]
		found.Locks = append(found.Locks, e.Lock)
		what := "it"
		if len(found.Locks) > 1 {
			what = fmt.Sprintf("these %d locks", len(found.Locks))
		}
		found.Text = fmt.Sprintf("%s lost %s with its session %s at %s. What it was doing may be half done.", e.Who, what, document.Session(e.Session), clock(e.At))
		found.Loss = lossOf(p.e.Name, e.Session, e.Who, len(found.Locks))
	}
}

// lossOf names what a session lost, in 16 hexadecimal digits. When more of it shows, the name is another.
func lossOf(ensemble string, session int64, who string, locks int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %x %q %d", ensemble, session, who, locks))
	return hex.EncodeToString(sum[:8])
}

// seenBy are the losses that a browser has acknowledged.
func seenBy(r *http.Request) (out []string) {
	c, err := r.Cookie(seenCookie)
	if err != nil {
		return nil
	}
	for loss := range strings.SplitSeq(c.Value, ".") {
		if _, err := hex.DecodeString(loss); err == nil && len(loss) == 16 && len(out) < mostListed {
			out = with(out, loss)
		}
	}
	return out
}

// acknowledge notes in the browser that somebody has looked after a loss, and shows the problems. Guard has seen to it that our own
// page asks.
func (b *Board) acknowledge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	loss := r.PostFormValue("loss")
	b.mu.Lock()
	known := slices.ContainsFunc(b.problems(b.opts.Now()), func(p Problem) bool { return p.Loss != "" && p.Loss == loss })
	b.mu.Unlock()
	if known { // or it is over already
		seen := with(seenBy(r), loss)
		http.SetCookie(w, &http.Cookie{Name: seenCookie, Value: strings.Join(seen[max(0, len(seen)-mostListed):], "."), Path: "/", MaxAge: int(lostFor.Seconds()),
			Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
