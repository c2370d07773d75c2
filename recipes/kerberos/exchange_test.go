package kerberos

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/stretchr/testify/require"
)

// begun is a login that has presented its ticket.
func begun(t *testing.T) (*exchange, []byte) {
	t.Helper()
	f := files{conf: config.New()}
	require.NoError(t, f.readCache("testdata/cache", false))
	f.tgt.end = time.Now().Add(time.Hour)
	x, err := newExchange(f.tgt)
	require.NoError(t, err)
	token, done, err := x.step(nil)
	require.NoError(t, err)
	require.False(t, done)
	return x, token
}

// A server's hostile answer to a ticket ends the login with an error that names it. Nothing panics.
func TestHostileAnswersToATicket(t *testing.T) {
	_, request := begun(t)
	id, body, err := unframe(request)
	require.NoError(t, err)
	require.Equal(t, uint16(tokenRequest), id)
	for name, c := range map[string]struct {
		answer []byte
		says   string
	}{
		"nothing":                {nil, "no JAAS section Server"},
		"a byte":                 {[]byte{0x60}, "no token of Kerberos"},
		"another mechanism":      {[]byte(`realm="zk-sasl-md5",nonce="x"`), "no token of Kerberos"},
		"its own request":        {request, "it does not answer a ticket with a token"},
		"cut short":              {request[:len(request)-1], "no token of Kerberos"},
		"too long":               {append(bytes.Clone(request), 0), "no token of Kerberos"},
		"a length without bytes": {[]byte{0x60, 0x84, 0xff}, "no token of Kerberos"},
		"an endless length":      {[]byte{0x60, 0x84, 0x7f, 0xff, 0xff, 0xff, 6}, "no token of Kerberos"},
		"no reply in the frame":  {frame(tokenReply, []byte("junk")), "cannot be read"},
		"a request as a reply":   {frame(tokenReply, body), "cannot be read"},
		"no error in the frame":  {frame(tokenError, []byte{0x7e, 0}), "an error that cannot be read"},
	} {
		x, _ := begun(t)
		_, done, err := x.step(c.answer)
		require.ErrorContains(t, err, c.says, name)
		require.False(t, done, name)
	}
	for _, offer := range [][]byte{nil, {5, 4}, bytes.Repeat([]byte{5}, 16), append([]byte{5, 4, 1, 0xff, 0xff, 0xff, 0, 0}, make([]byte, 8)...),
		append([]byte{5, 4, 1, 0xff, 0, 12, 0xff, 0xff}, make([]byte, 40)...)} {
		x, _ := begun(t)
		x.next = x.agree
		_, done, err := x.step(offer)
		require.Error(t, err)
		require.False(t, done)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0x60, 3, 6, 1, 2}, []byte{5, 4, 1, 0xff})
	f.Fuzz(func(t *testing.T, answer, offer []byte) {
		x, _ := begun(t)
		_, _, err := x.step(answer)
		require.Error(t, err, "nobody without the ticket's key can answer")
		x.next = x.agree
		_, _, err = x.step(offer)
		require.Error(t, err)
	})
}

// A damaged count was believed, and the program asked for more memory than any machine has.
func TestACacheThatIsCutOrDamagedIsNoCache(t *testing.T) {
	whole, err := os.ReadFile("testdata/cache")
	require.NoError(t, err)
	whose, all, err := parseCache(whole)
	require.NoError(t, err)
	require.Equal(t, "ann@HOME", whose.String())
	require.Len(t, all, 1)
	read := func(content []byte) error {
		path := t.TempDir() + "/cache"
		writeFile(t, path, content)
		x := files{conf: config.New()}
		return x.readCache(path, false)
	}
	for i := range whole {
		require.Error(t, read(whole[:i]), i)
		if i >= 4 {
			damaged := bytes.Clone(whole)
			damaged[i] = 0x7f
			_ = read(damaged)
		}
	}
}

// Files may be cut short at any byte while they are written.
func FuzzCache(f *testing.F) {
	f.Add([]byte{5, 4, 0, 0})
	f.Fuzz(func(t *testing.T, content []byte) {
		path := t.TempDir() + "/cache"
		writeFile(t, path, content)
		x := files{conf: config.New()}
		_ = x.readCache(path, false)
	})
}

// gokrb5 puts the file into its error, with every key in it.
func TestAKeytabThatIsCutShortIsNotQuoted(t *testing.T) {
	whole := append([]byte{5, 2, 0, 0, 0, 80}, []byte("the key of everybody, which nobody may read, and more of it")...)
	path := t.TempDir() + "/keytab"
	writeFile(t, path, whole)
	f := files{conf: config.New(), client: principal{[]string{"ann"}, "HOME"}}
	err := f.readKeytab(path)
	require.ErrorContains(t, err, "is not a keytab, or was cut short; export it again")
	require.NotContains(t, err.Error(), "the key of everybody")
}
