package browser

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

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

// What stands in names and data of nodes does nothing in the browser, does not leave its place, and cannot hide the rest.
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
		data = bytes.Replace(data, []byte(`"OWNER"`), []byte(quoted(text)), 1) // as the command would not let one declare it
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
	// It stays so when the page is put in place by the script.
	b.show("/locks?show=all")
	const version = `document.querySelector("main").dataset.version`
	first := eval[string](b, version)
	b.waits(version, "another version", func(now string) bool { return now != first })
	require.Zero(t, eval[int](b, `document.querySelectorAll("main :is(script, img, iframe)").length`))
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
