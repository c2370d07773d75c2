package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const (
	holders = `[aria-label="Who holds it"] tbody th`
	waiters = `[aria-label="Who waits for it, in order"] tbody th`

	// fastPolling makes the page ask 50 times as often.
	fastPolling = `{ const slow = window.setInterval; window.setInterval = (f, ms) => slow(f, ms / 50) }`
)

func TestThePageShowsAGrantWithoutBeingReloaded(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	a, b, c := s.program("billing-1"), s.program("billing-2"), s.program("billing-3")
	page, list := open(t, s.url), open(t, s.url)
	page.show(of("ledger"))
	list.show("/locks")
	page.until(holders, "")
	lease := a.locks("ledger")
	next, cancel := b.queues("ledger", "billing-2")
	defer cancel()
	_, cancelLast := c.queues("ledger", "billing-3")
	defer cancelLast()
	page.until(holders, "billing-1")
	page.until(waiters, "billing-2\nbilling-3")
	list.shows("main tbody", "billing-1")
	list.shows("main tbody", "1 held, 2 waiting")

	require.NoError(t, lease.Unlock(t.Context()))
	granted := <-next
	at := time.Now()
	page.until(holders, "billing-2")
	t.Logf("the grant is on the page %v after it was given, with a look every 100ms", time.Since(at).Round(time.Millisecond))
	page.until(waiters, "billing-3")
	list.shows("main tbody", "billing-2")
	list.shows("main tbody", "1 held, 1 waiting")
	require.NoError(t, granted.Unlock(t.Context()))
	page.until(holders, "billing-3")
}

func TestASilentHolderIsShownUntilItsSessionEnds(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	p := s.program("night-1")
	p.locks("nightly")
	_, giveUp := s.program("night-2").queues("nightly", "night-2") // so it is a problem to look at now
	defer giveUp()
	b := open(t, s.url)
	b.show("/")
	p.off.Store(true)
	s.srv.Disconnect(p.session())
	b.shows(`[aria-label="Problems"]`, "silent holder")
	b.shows(`[aria-label="Problems"]`, "Held by night-1")
	b.shows(`[aria-label="Problems"]`, "connected to no server that was asked; if it is gone, its place is free in about ")
	require.Contains(t, eval[string](b, `document.title`), "(1)")
	require.Contains(t, b.text("#link"), "1 to look at now", "somebody who does not see it is told")
	s.srv.Expire(p.session())
	b.hides(`[aria-label="Problems"]`, "silent holder")
}

func TestAPausedPageStandsStill(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := open(t, s.url)
	b.show(of("ledger"))
	a := s.program("billing-1")
	lease := a.locks("ledger")
	b.until(holders, "billing-1")
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	require.Equal(t, "Resume updates", b.text("#pause"))
	require.Equal(t, "true", eval[string](b, `document.getElementById("pause").getAttribute("aria-pressed")`))
	require.Equal(t, "Paused", b.text("#link"))
	require.NoError(t, lease.Unlock(t.Context()))
	s.program("billing-2").locks("ledger")
	s.untilServed(of("ledger"), "billing-2") // some looks later
	require.Equal(t, "billing-1", b.text(holders), "it is paused")
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(holders, "billing-2")
	require.Equal(t, "Pause updates", b.text("#pause"))
	require.Equal(t, "", b.text("#link"))
}

// The ZooKeeper servers go and come back, and then the page's own server does.
func TestWhatIsOldIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := open(t, s.url, "net::ERR_")
	b.before(fastPolling)
	b.show("/locks")
	b.shows("main", "None. Show all")
	s.srv.RefuseDials(true)
	s.srv.Disconnect(0)
	b.shows(".banner", "▲ main is stale. Last updated at ")
	s.srv.RefuseDials(false)
	b.until(".banner", "")

	s.stop()
	b.until("#link", "▲ Connection lost: this is old")
	s.serve(strings.TrimPrefix(s.url, "http://"))
	s.program("billing-1").locks("ledger")
	b.shows("main tbody", "billing-1")
	b.hides("#link", "Connection lost")
}

// Nothing moves away from a user who types, has selected text, or goes through the page by keyboard.
func TestNothingMovesUnderTheHands(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := open(t, s.url)
	b.show("/locks?show=all&sort=path")
	eval[bool](b, `document.getElementById("q").focus() || true`)
	b.do(chromedp.KeyEvent("bill"))
	lease := s.program("billing-1").locks("ledger")
	s.untilServed("/locks", "billing-1")
	s.program("billing-2").locks("stock")
	s.untilServed("/locks", "billing-2") // some looks later
	require.Equal(t, "bill", eval[string](b, `document.activeElement.value`))
	require.NotContains(t, b.text("main tbody"), "billing")
	eval[bool](b, `document.activeElement.blur() || true`)
	b.shows("main tbody", "billing-2")

	const link = `document.querySelector("tbody a[href$=ledger]")`
	eval[bool](b, link+`.focus() || true`)
	require.NoError(t, lease.Unlock(t.Context()))
	b.hides("main tbody", "billing-1")
	require.True(t, eval[bool](b, `document.activeElement === `+link), "the focus is where it was")

	eval[bool](b, `getSelection().selectAllChildren(document.querySelector("caption")) || true`)
	chosen := eval[string](b, `getSelection().toString()`)
	s.program("billing-3").locks("nightly")
	s.untilServed("/locks", "billing-3")
	require.Equal(t, chosen, eval[string](b, `getSelection().toString()`))
	eval[bool](b, `getSelection().removeAllRanges() || true`)
	b.shows("main tbody", "billing-3")
}

func TestThePageIsUsableByKeyboard(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := open(t, s.url)
	b.show("/locks")
	seen := func() bool {
		return eval[bool](b, `(() => { const r = document.activeElement.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth && r.width > 0 })()`)
	}
	b.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to the content", eval[string](b, `document.activeElement.innerText`))
	require.True(t, seen())
	b.do(chromedp.KeyEvent(kb.Enter))
	b.waits(`document.activeElement.id`, "main", func(at string) bool { return at == "main" })
	s.program("billing-1").locks("ledger")
	b.shows("main", "billing-1")
	require.Equal(t, "main", eval[string](b, `document.activeElement.id`), "also when the page has changed")
	// Every stop on the way through the page shows the focus.
	b.is(phone)
	b.show("/locks?show=all")
	for range 12 {
		b.do(chromedp.KeyEvent(kb.Tab))
		require.True(t, seen(), eval[string](b, `document.activeElement.outerHTML`))
		require.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`), eval[string](b, `document.activeElement.outerHTML`))
	}
}

func TestThePageWorksWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.program("billing-1").locks("ledger")
	s.program("warehouse-1").locks("stock")
	s.untilServed("/locks", "warehouse-1")
	b := open(t, s.url)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.show("/")
	require.Equal(t, "", b.text("#pause"), "a button that does nothing is not shown")
	b.follow("Locks")
	b.shows("caption", "2 in use")
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), "billing"+kb.Enter))
	b.shows("caption", "1 in use")
	b.shows("main tbody", "billing-1")
	b.follow("/locks/shop/ledger")
	b.until(holders, "billing-1")
	s.program("billing-2").queues("ledger", "billing-2")
	require.Equal(t, "None.", b.text(`[aria-label^="Who waits"] tbody`))
	b.follow("Reload")
	b.until(waiters, "billing-2")
	b.follow("Waits")
	b.shows("main", "billing-2 waits for billing-1")
	b.follow("Drift")
	b.shows("h1", "Drift")
	b.follow("Doctor")
	b.shows("h1", "Doctor")
}

func (b *tab) follow(text string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.Search(`//a[normalize-space()="` + text + `"]`)))
}

// Nothing on the page is animated, with reduced motion preferred or not: changes are there at once.
func TestNothingIsAnimated(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := open(t, s.url)
	b.before(`addEventListener("animationstart", () => console.error("animation")); addEventListener("transitionrun", () => console.error("transition"))`)
	for _, still := range []bool{true, false} {
		b.prefers(false, still)
		b.show("/locks")
		l := s.program("billing-1").locks("ledger")
		b.shows("main tbody", "billing-1")
		require.NoError(t, l.Unlock(t.Context()))
		b.hides("main tbody", "billing-1")
		require.Zero(t, eval[int](b, `document.getAnimations().length`))
		require.Equal(t, "auto", eval[string](b, `getComputedStyle(document.documentElement).scrollBehavior`))
	}
}
