// Package browser tests the page in a real browser. It is a module of its own, so that the driver of the browser reaches no program that
// imports the library. It stands beside the page because it is only about the page.
//
// The tests build the command each time, and "go test" does not see its changes: by hand, give it -count=1.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const hanging = 3 * time.Minute

var (
	locktree string          // the command
	chromium context.Context // the browser, in which each test has tabs of its own
)

func TestMain(m *testing.M) {
	code, err := start(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func start(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "locktree-browser-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	locktree = filepath.Join(dir, "locktree")
	build := exec.Command("go", "build", "-o", locktree, "./cmd/locktree")
	build.Dir = "../../../../.."
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	program, err := exec.LookPath("/usr/lib/chromium/chromium-headless-shell") // the one on the path is a script, which leaves the browser behind when it is killed
	if err != nil {
		return 0, fmt.Errorf("no browser: %w\nInstall Debian's package chromium-headless-shell, as .ci/setup does: apt-get install -y --no-install-recommends chromium-headless-shell", err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.WSURLReadTimeout(hanging),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("font-render-hinting", "none"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	browser, closeBrowser := chromedp.NewContext(ctx)
	defer closeBrowser()
	if err := chromedp.Do(browser); err != nil {
		return 0, fmt.Errorf("the browser does not start: %w", err)
	}
	defer func() { _ = chromedp.Cancel(browser) }()
	chromium = browser
	return m.Run(), nil
}

// tab is a tab of the browser, and what the browser complains about in it.
type tab struct {
	t   *testing.T
	url string
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// look is the size, the colour scheme and the scale of a view of the page.
type look struct {
	width, height int64
	dark          bool
	scale         float64
}

var (
	desk      = look{width: 1280, height: 800}
	desk80    = look{width: 640, height: 600}
	desk200   = look{width: 1600, height: 900}
	phone     = look{width: 390, height: 844}
	reflow    = look{width: 320, height: 640} // also 1280 pixels at a zoom of 400 %
	allWidths = []look{reflow, phone, desk80, desk, desk200}
)

// open opens a tab. A complaint of the browser fails the test, unless it contains one of the expected texts.
func open(t *testing.T, url string, expected ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	b := &tab{t: t, url: url, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			require.True(t, slices.ContainsFunc(expected, func(s string) bool { return strings.Contains(c, s) }), "the browser complains: %s", c)
		}
	})
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.heard))
	call(b, audits.Enable, cdp.Empty{})
	call(b, log.Enable, cdp.Empty{})
	b.is(desk)
	b.before(`addEventListener("securitypolicyviolation", (e) => console.error("content security policy: " + e.violatedDirective + " " + e.blockedURI))`)
	return b
}

func (b *tab) heard(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		text = "console: " + string(e.Type)
		for _, a := range e.Args {
			text += " " + string(a.Value) + a.Description
		}
	case *log.EventEntryAdded:
		text = fmt.Sprintf("log: %s %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(e.Issue.Details)
		text = fmt.Sprintf("issue: %s %s", e.Issue.Code, details)
	case *page.EventJavascriptDialogOpening:
		text = "dialog: " + e.Message
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// call runs a command of the browser's protocol in the tab.
func call[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, hanging)
	defer cancel()
	r, err := chromedp.Call(ctx, cmd, params)
	require.NoError(b.t, err)
	return r
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, hanging)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// eval is the result of a script in the page. The content security policy binds only the page's own scripts.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	v, err := evaluate[T](b, script)
	require.NoError(b.t, err, script)
	return v
}

func evaluate[T any](b *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, hanging)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

func (b *tab) show(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// before runs a script in each new document before those of the page.
func (b *tab) before(script string) {
	b.t.Helper()
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

func (b *tab) is(l look) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(l.width, l.height, chromedp.EmulateScale(max(l.scale, 1))))
	b.prefers(l.dark, false)
}

func (b *tab) prefers(dark, still bool) {
	b.t.Helper()
	scheme, motion := "light", "no-preference"
	if dark {
		scheme = "dark"
	}
	if still {
		motion = "reduce"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
}

// text is the visible text of the elements, as lines.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, visibleText(selector))
}

func visibleText(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].filter((x) => x.checkVisibility()).map((x) => (x.innerText ?? x.textContent).trim()).join("\n")`, selector)
}

// until waits for the elements to have a text, without loading the page again.
func (b *tab) until(selector, want string) {
	b.t.Helper()
	b.waits(visibleText(selector), want, func(got string) bool { return got == want })
}

func (b *tab) shows(selector, part string) {
	b.t.Helper()
	b.waits(visibleText(selector), part, func(got string) bool { return strings.Contains(got, part) })
}

func (b *tab) hides(selector, part string) {
	b.t.Helper()
	b.waits(visibleText(selector), "not "+part, func(got string) bool { return !strings.Contains(got, part) })
}

// waits evaluates a script until its result is as wanted. While the browser goes to another page there is no result.
func (b *tab) waits(script, want string, is func(string) bool) {
	b.t.Helper()
	got, err := evaluate[string](b, script)
	for end := time.Now().Add(hanging); (err != nil || !is(got)) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got, err = evaluate[string](b, script)
	}
	require.NoError(b.t, err, script)
	require.True(b.t, is(got), "it does not come: %q; the page shows %q", want, got)
}
