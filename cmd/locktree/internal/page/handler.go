package page

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

//go:embed page.html static
var files embed.FS

// pages is parsed when the first page is rendered, so that other commands need not parse it.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page.html").Funcs(template.FuncMap{
		"visible": clip, "clock": clock, "when": timeText, "since": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }, "rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"seconds": func(d time.Duration) string { return d.Round(time.Millisecond).String() },
		"zxid":    document.Session, "link": lockLink, "verdict": check.Verdict.String,
		"unasked": lockview.Unasked, "noDump": noDump,
		"times": times, "applied": planview.ApplyLine, "words": func(s string) []string { return strings.Split(s, " ") },
		// Parts of the page.
		"tab": func(v *pageData, name, link, text string) map[string]any {
			return map[string]any{"Link": link, "Text": text, "Here": v.Name == name || v.Name == "lock" && name == "locks"}
		},
		"column": func(l list, sort, text string) map[string]any {
			c := map[string]any{"Link": l.PageLink(1, sort, l.Show), "Text": text, "Here": l.Sort == sort, "Order": "descending", "Mark": "\u25bc", "Number": sort == "held" || sort == "waiting"}
			if sort == "path" {
				c["Order"], c["Mark"] = "ascending", "\u25b2"
			}
			return c
		},
		"people": func(caption string, all []person, more int) map[string]any {
			return map[string]any{"Caption": caption, "People": all, "More": more, "Permits": slices.ContainsFunc(all, func(p person) bool { return p.Permits > 0 })}
		},
	}).ParseFS(files, "page.html"))
})

// noDump says why the server of our session did not list the contenders.
func noDump(snap *scan.Snapshot) string {
	for _, at := range snap.Servers {
		switch {
		case at.Here && slices.Contains(at.Forbids, "dump"):
			return "dump is not allowed"
		case at.Here:
			return "dump was not answered: " + at.Error
		}
	}
	return "dump was not answered"
}

// maxPages is how many rendered pages are kept until the next look.
const maxPages = 64

// pageData is what a page is made of.
type pageData struct {
	Name, Title string // the page to show
	Version     int
	Now         time.Time
	Program     string
	Sources     []lockview.Source
	Ensembles   []Ensemble
	Problems    []problem
	Bad, Watch  int // how many problems are of severity Now or worse, and how many are not
	Locks       list
	Lock        *row
	Gone        string // the path of a lock that is not there
	Look        string // the command that shows the same
	Waits       []waitLine
	Circles     [][]party
	Conditions  []conditionsOf
	Path        string // of this page, with its query
}

type conditionsOf struct {
	Ensemble string
	At       time.Time
	Trouble  string
	List     []lockview.Finding
	More     int
}

// handler serves everything. guard decides which requests reach it.
func (b *board) handler() http.Handler {
	mux := http.NewServeMux()
	for path, page := range map[string]string{"/{$}": "problems", "/locks": "locks", "/lock": "lock", "/waits": "waits", "/drift": "drift", "/doctor": "doctor"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { b.page(w, r, page) })
	}
	for _, name := range []string{"app.css", "app.js", "icon.svg"} {
		mux.HandleFunc("/static/"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "static/"+name) })
	}
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		var stale []string
		b.mu.Lock()
		for _, e := range b.ensembles {
			if !e.isFresh(b.opts.Now(), b.opts.Interval) {
				stale = append(stale, e.Name)
			}
		}
		b.mu.Unlock()
		if len(stale) > 0 {
			plain(w, http.StatusServiceUnavailable, "stale: "+strings.Join(stale, ", ")+"\n")
			return
		}
		plain(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(b.exposition())
	})
	mux.HandleFunc("/api/v1/status", b.status)
	return mux
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// status writes what the page knows, in the form of "locktree status -json -prefix". It reads nothing for that. It renders the
// document again only after news (see board.news), without the board's lock, because the document may be large.
func (b *board) status(w http.ResponseWriter, _ *http.Request) {
	b.rendering.Lock()
	b.mu.Lock()
	doc, version, sources, ensembles := b.document, b.version, b.sources, slices.Clone(b.ensembles)
	b.mu.Unlock()
	if doc == nil {
		var out, said bytes.Buffer
		locks := lockview.Locks{Sources: sources}
		for i := range ensembles {
			e := &ensembles[i]
			of := lockview.LocksOf{Ensemble: e.Name, Stack: e.Stack, Addresses: e.Servers, Path: cmp.Or(e.Prefix, e.Root), Error: e.Error, Snapshot: e.Snapshot}
			if e.Compare {
				of.Compared = &lockview.Compared{Root: e.Root, At: e.DriftAt, Drift: e.Drift, Fingerprint: e.DriftSource.Fingerprint}
			}
			if e.Snapshot != nil && (locks.NowMs == 0 || e.Snapshot.At.UnixMilli() < locks.NowMs) {
				locks.NowMs = e.Snapshot.At.UnixMilli()
			}
			locks.Ensembles = append(locks.Ensembles, of)
		}
		view.NewDocuments(&out, view.Stream{Writer: &said}, b.opts.Version).Show(locks)
		doc = out.Bytes()
		b.mu.Lock()
		if b.version == version {
			b.document = doc
		}
		b.mu.Unlock()
	}
	b.rendering.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !slices.ContainsFunc(ensembles, func(e Ensemble) bool { return e.Snapshot != nil }) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(doc)
}

// page writes a page.
func (b *board) page(w http.ResponseWriter, r *http.Request, name string) {
	q := url.Values{}
	for _, known := range []string{"q", "show", "sort", "page", "ensemble", "path"} { // other parameters do not change the page
		if v := r.URL.Query().Get(known); v != "" {
			q.Set(known, v)
		}
	}
	html, code, err := b.render(name, q)
	if err != nil {
		plain(w, http.StatusInternalServerError, "the page could not be rendered: "+clip(err.Error())+"\n")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(html)
}

// render returns a page and its status code. It keeps up to maxPages pages, until the board has news or they are too old.
func (b *board) render(name string, q url.Values) ([]byte, int, error) {
	key := name + "?" + q.Encode()
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.opts.Now(); now.Sub(b.rendered) > b.opts.Interval { // the page must show that it is stale, even if nothing new comes
		clear(b.pages)
		b.rendered = now
	}
	if html, ok := b.pages[key]; ok {
		return html, http.StatusOK, nil
	}
	v := b.view(name, q)
	code := http.StatusOK
	if v.Gone != "" {
		code = http.StatusNotFound
	}
	var out bytes.Buffer
	err := pages().Execute(&out, v)
	if len(b.pages) < maxPages && err == nil && code == http.StatusOK {
		b.pages[key] = out.Bytes()
	}
	return out.Bytes(), code, err
}

// view gathers what a page shows. b.mu is held.
func (b *board) view(name string, q url.Values) *pageData {
	v := &pageData{Name: name, Title: strings.ToUpper(name[:1]) + name[1:], Version: b.version, Now: b.opts.Now(),
		Program: b.opts.Version, Sources: b.sources, Ensembles: b.ensembles, Path: "/" + name + "?" + q.Encode()}
	v.Problems = problems(b.sources, b.ensembles, v.Now, b.opts.Interval)
	for _, p := range v.Problems {
		if p.Severity >= Now {
			v.Bad++
		} else {
			v.Watch++
		}
	}
	switch name {
	case "problems":
		v.Path = "/"
	case "locks":
		v.Locks = locks(b.ensembles, q)
	case "lock":
		path, e := q.Get("path"), Ensemble{} // e stays empty if no ensemble has that name
		if i := slices.IndexFunc(b.ensembles, func(e Ensemble) bool { return e.Name == q.Get("ensemble") }); i >= 0 {
			e = b.ensembles[i]
		}
		in := e.find(path)
		if in == nil {
			v.Gone, v.Look = path, e.look(path)
			break
		}
		r := e.row(in, maxQueue)
		v.Lock, v.Title = &r, path
	case "waits":
		for i := range b.ensembles {
			if e := &b.ensembles[i]; e.Snapshot != nil {
				v.Waits = append(v.Waits, waitLines(e)...)
				for _, d := range e.Snapshot.Waits.Deadlocks {
					v.Circles = append(v.Circles, circle(e, d))
				}
			}
		}
	case "doctor":
		for _, e := range b.ensembles {
			of := conditionsOf{Ensemble: e.Name, At: e.CheckAt, Trouble: e.Trouble}
			if e.Checkup != nil {
				of.List = merge(e.Checkup.Findings())
				slices.SortStableFunc(of.List, func(a, b lockview.Finding) int { return int(b.Verdict - a.Verdict) }) // the worst first
				of.More = max(0, len(of.List)-maxQueue)
				of.List = of.List[:len(of.List)-of.More]
			}
			v.Conditions = append(v.Conditions, of)
		}
	}
	return v
}

// maxQueue is how many contenders of a queue one page lists.
const maxQueue = 500

// PageLink is the address of the list with another page, order or choice.
func (l list) PageLink(page int, sort, show string) string {
	q := url.Values{"show": {show}, "sort": {sort}}
	if l.Query != "" {
		q.Set("q", l.Query)
	}
	if page > 1 {
		q.Set("page", fmt.Sprint(page))
	}
	return "/locks?" + q.Encode()
}
