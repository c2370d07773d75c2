package browser

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"image/png"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

//go:embed testdata/axe/axe.min.js
var axe []byte

// axeSum is the SHA-256 of axe.min.js in axe-core 4.14.1, as testdata/axe/README.md says.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

func (s *shop) busy() {
	t := s.t
	billing1, billing2, warehouse, night, mail := s.program("billing-1"), s.program("billing-2"), s.program("warehouse-1"), s.program("night-1"), s.program("mail-1")
	billing1.locks("ledger")
	warehouse.locks("stock")
	billing1.locks("settlement-of-the-day-before")
	_, err := billing2.Election("/locks/shop/mailer").Campaign(t.Context())
	require.NoError(t, err)
	_, err = mail.RWMutex("/locks/shop/prices").RLock(t.Context())
	require.NoError(t, err)
	_, err = mail.Semaphore("/locks/shop/printers").Acquire(t.Context(), 2)
	require.NoError(t, err)
	_, err = warehouse.Semaphore("/locks/shop/printers").Acquire(t.Context(), 1)
	require.NoError(t, err)
	billing2.queues("ledger", "billing-2")
	mail.queues("settlement-of-the-day-before", "mail-1")
	warehouse.queues("ledger", "warehouse-1")
	billing1.queues("stock", "billing-1") // this closes the circle for good: no call has a deadline
	python, err := mail.Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.srv.Create("/python/reports", nil))
	_, err = python.Create(t.Context(), "/python/reports/6a3f0c3f5a3c4b0f9f0d7e0a1b2c3d4e__lock__", []byte("report-7"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	night.locks("nightly")
	night.off.Store(true)
	s.srv.Disconnect(night.session())
	s.untilServed("/", "Held by night-1")

	require.NoError(t, s.srv.Delete("/locks/shop/archive"))
	s.untilServed("/drift", "1 to add")
	s.untilServed("/", "drift")
	s.untilServed("/doctor", "session timeout")
}

// asLoaded keeps the page as it was loaded while it is looked at from all sides.
const asLoaded = `window.setInterval = () => 0`

var pages = map[string]string{
	"problems": "/", "locks": "/locks?show=all", "nothing found": "/locks?q=nothing", "lock": of("ledger"), "semaphore": of("printers"),
	"waits": "/waits", "drift": "/drift", "doctor": "/doctor",
}

// misplaced is a script that finds elements that are beyond the edge of the page, are cut off, or scroll inside it.
const misplaced = `(() => {
	const found = [], wide = document.documentElement.clientWidth;
	const say = (x, text) => found.push(text + ": " + x.outerHTML.slice(0, 120));
	if (document.documentElement.scrollWidth > wide) say(document.body, "the page scrolls");
	for (const x of document.querySelectorAll("body *")) {
		const at = x.getBoundingClientRect(), style = getComputedStyle(x);
		if (!at.width || !x.checkVisibility() || x.matches(".skip") || style.clipPath !== "none" || x.closest("thead") && style.position === "absolute") continue;
		if (at.left < -0.5 || at.right > wide + 0.5) say(x, "beyond the edge by " + (at.right - wide));
		if (style.overflowX !== "visible" && !x.matches("input, select") && x.scrollWidth > x.clientWidth) say(x, "scrolls by " + (x.scrollWidth - x.clientWidth));
		if (style.overflowY === "hidden" && x.scrollHeight > x.clientHeight + 1) say(x, "cut off");
	}
	return found;
})()`

func TestNothingIsCutOffAtAnyWidth(t *testing.T) {
	t.Parallel()
	s := openShop(t, "-prefix=/")
	s.busy()
	b := open(t, s.url)
	b.before(asLoaded)
	for name, path := range pages {
		b.show(path)
		for _, l := range allWidths {
			b.is(l)
			require.Empty(t, eval[[]string](b, misplaced), "%s at %d", name, l.width)
		}
	}
}

func TestTenWaitersFitAPhone(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	session, err := s.program("billing-1").Session(t.Context())
	require.NoError(t, err)
	for i := range 11 {
		data := fmt.Sprintf(`{"id":"warehouse-worker-%d","host":"warehouse-%d.example.com","pid":4711}`, i, i)
		_, err := session.Create(t.Context(), "/locks/shop/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	s.untilServed(of("ledger"), "warehouse-worker-10")
	b := open(t, s.url)
	b.before(asLoaded)
	b.is(phone)
	b.show(of("ledger"))
	require.Equal(t, 10, strings.Count(b.text(waiters), "warehouse-worker"))
	require.Less(t, eval[float64](b, `document.querySelector('[aria-label^="Who waits"] table').getBoundingClientRect().height`), float64(phone.height))
}

// violation is a rule of axe that the page breaks.
type violation struct {
	ID, Help string
	Nodes    []string
}

func TestAxeFindsNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, axeSum, fmt.Sprintf("%x", sha256.Sum256(axe)))
	for state, prepare := range map[string]func(*shop){"busy": (*shop).busy, "empty": func(*shop) {}, "stale": func(s *shop) {
		s.untilServed("/", "by dump")
		s.srv.RefuseDials(true)
		s.srv.Disconnect(0)
		s.untilServed("/", "is stale")
	}} {
		t.Run(state, func(t *testing.T) {
			s := openShop(t, "-prefix=/")
			prepare(s)
			b := open(t, s.url, "/lock?path=%2Fgone") // which the log notes as an answer of 404
			b.before(asLoaded)
			rules := 0
			check := func(name, path string) {
				b.show(path)
				eval[bool](b, string(axe)+"; true")
				for _, l := range []look{desk, {width: desk.width, height: desk.height, dark: true}, phone} {
					options := "{}"
					if l.dark {
						options = `{ runOnly: ["cat.color"] }` // only the colours differ
					}
					b.is(l)
					result := eval[struct {
						Rules      int
						Violations []violation
					}](b, `axe.run(document, `+options+`).then((r) => ({ Rules: r.passes.length, Violations: r.violations.map((v) => ({ ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => n.html + " " + n.failureSummary) })) }))`)
					require.Empty(t, result.Violations, "%s at %d, dark: %v", name, l.width, l.dark)
					require.Positive(t, result.Rules, "%s at %d, dark: %v", name, l.width, l.dark)
					rules = max(rules, result.Rules)
				}
			}
			for name, path := range pages {
				check(name, path)
			}
			check("gone", "/lock?path=%2Fgone")
			require.Greater(t, rules, 20, "axe looks")
		})
	}
}

// views are the screenshots of the documentation, from the top of the page to the end of an element.
var views = []struct {
	name, path, last string
	look             look
}{
	{"problems", "/", `[aria-label="Problems"]`, look{width: 1120, height: 640}},
	{"phone", "/", `tbody tr:nth-child(3)`, phone},
}

// docs/operating.md shows every screenshot, and none is large. GOLDEN=1 takes them again.
func TestDocsShowEachScreenshot(t *testing.T) {
	t.Parallel()
	s := openShop(t, "-prefix=/")
	s.busy()
	update := os.Getenv("GOLDEN") != ""
	if update { // after a program has waited too long
		s.untilServed("/", "max_wait is 30s")
	}
	manual, err := os.ReadFile("../../../../../docs/operating.md")
	require.NoError(t, err)
	b := open(t, s.url)
	b.before(asLoaded)
	beyond := true // what one would have to scroll to
	for _, v := range views {
		for scheme, dark := range map[string]bool{"light": false, "dark": true} {
			v.look.dark = dark
			b.is(v.look)
			b.show(v.path)
			bottom := eval[float64](b, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom`, v.last))
			shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyond, Clip: &page.Viewport{Width: float64(v.look.width), Height: bottom + 16, Scale: 1}}).Data
			image, err := png.Decode(bytes.NewReader(shot))
			require.NoError(t, err)
			file := fmt.Sprintf("screenshots/%s-%s.png", v.name, scheme)
			if update {
				var out bytes.Buffer
				require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, image))
				require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
			}
			old, err := os.ReadFile(file)
			require.NoError(t, err, "GOLDEN=1 makes it")
			require.Less(t, len(old), 165_000, file)
			require.True(t, strings.Contains(string(manual), file), "docs/operating.md does not show %s", file)
		}
	}
}

var attacks = []string{
	`<img src=x onerror=hit()>`,
	`"><script>hit()</script>`,
	`' autofocus onfocus='hit()`,
	`</title></style></textarea><svg onload=hit()>`,
	`<iframe srcdoc="<script>parent.hit()</script>">`,
	`<meta http-equiv=refresh content="0;url=https:evil">`,
	`javascript:hit()`,
	`{{.}}${hit()}<!--`,
	"\u202efdp.exe\u2066<base href=https:evil>",
	strings.Repeat("very-long-name", 150),
	strings.Repeat("W", 300) + `<b>`,
}

// Names and data of nodes do nothing in the browser, do not leave their place, and cannot hide the rest.
func TestHostileNamesDoNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t, "-prefix=/")
	p := s.program(attacks[0])
	session, err := p.Session(t.Context())
	require.NoError(t, err)
	var pages []string
	for i, text := range attacks {
		name := strings.ReplaceAll(text, "/", "\u2215") // a name has none
		path := "/" + name
		params := &kind.MutexParams{}
		params.MaxHold, params.Owner, params.Runbook = "1ms", "OWNER", "https://example.com"
		declared := &kind.Payload{Params: params, State: kind.StateActive, Owner: kind.Owner{Stack: text, Addr: text}}
		require.NoError(t, s.srv.Provision(path, declared))
		data, err := declared.Encode()
		require.NoError(t, err)
		data = bytes.Replace(data, []byte(`"OWNER"`), []byte(quoted(text)), 1) // the command refuses such a declaration
		require.NoError(t, s.srv.Set(path, bytes.Replace(data, []byte("https://example.com"), []byte("javascript:hit()"), 1)))
		for _, data := range []string{text, `{"id":` + quoted(text) + `,"host":` + quoted(text) + `}`} {
			_, err := session.Create(t.Context(), path+"/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		require.NoError(t, s.srv.Create(path+"/"+name, nil))
		if i < 9 { // longer ones are cut
			s.untilServed("/locks?q="+url.QueryEscape(name[:5]), "in use")
		}
		pages = append(pages, "/lock?"+url.Values{"ensemble": {"main"}, "path": {path}}.Encode())
	}
	s.untilServed("/doctor", "session timeout")
	pages = append(pages, "/", "/locks", "/locks?show=all&sort=path", "/waits", "/drift", "/doctor", "/locks?q="+url.QueryEscape(attacks[1]))
	b := open(t, s.url)
	b.before(`window.hit = () => console.error("hit")`)
	for _, path := range pages {
		b.is(desk)
		b.show(path)
		require.Zero(t, eval[int](b, `document.querySelectorAll("main :is(script, img, iframe, object, embed, style, link, base, meta, [autofocus])").length`), path)
		require.Equal(t, 1, eval[int](b, `document.scripts.length`), path)
		require.Empty(t, eval[[]string](b, `[...document.links].map((x) => x.href).filter((x) => !x.startsWith(location.origin + "/") && x !== "https://wiki.example.com/shop/locks")`), path)
		require.Empty(t, eval[[]string](b, `[...document.body.innerText.matchAll(/[\u202a-\u202e\u2066-\u2069]/g)].map(String)`), "marks of direction: %s", path)
		for _, l := range []look{desk, phone} {
			b.is(l)
			require.Empty(t, eval[[]string](b, misplaced), "%s at %d", path, l.width)
		}
	}
	// The same holds when the script puts the page in place.
	b.show("/locks?show=all")
	const version = `document.querySelector("main").dataset.version`
	first := eval[string](b, version)
	b.waits(version, "another version", func(now string) bool { return now != first })
	require.Zero(t, eval[int](b, `document.querySelectorAll("main :is(script, img, iframe)").length`))
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
