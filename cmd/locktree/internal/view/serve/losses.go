package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Somebody who has looked after a loss says so, and it no longer counts as a problem in that browser: the cookie that says so is all
// there is of it, and lives for as long as a loss is a problem.
const (
	acknowledgePath = "/acknowledge"
	seenCookie      = "locktree-losses-seen"
)

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
