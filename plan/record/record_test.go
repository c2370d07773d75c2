package record_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

func TestIndexComesBackWithWhatItDoesNotKnow(t *testing.T) {
	in := `{"apply":"7f","future":{"x":[1]},"key":"0123","locktree":3,"outputs":{"o":{"value":1}},` +
		`"pending_acl":[{"from":[["world","anyone","cr"]],"to":[["world","anyone","r"]]}]}`
	x, err := record.Decode([]byte(in))
	require.NoError(t, err)
	require.Equal(t, kind.PermRead, x.Pending[0].To[0].Perms)
	out, err := x.Encode()
	require.NoError(t, err)
	require.Equal(t, in, string(out))
}

// A build before 0.1.0 wrote this record.
func TestRecordOfAFormerBuildIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/former_build.json")
	require.NoError(t, err)
	x, err := record.Decode(data)
	require.NoError(t, err)
	out, err := x.Encode()
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(out))
}

func TestASumOfAnotherKeyIsNoneOfTheStack(t *testing.T) { // one of 4096 was: with an old record put back, every node had drifted
	sum, err := record.Sum("key", "/m", &kind.Payload{Params: kind.Mutex.New()}, nil)
	require.NoError(t, err)
	for i := range 20_000 {
		require.False(t, record.Sealed(fmt.Sprint("key ", i), &kind.Payload{Sum: sum}))
	}
}

func TestForeignDataIsNoIndex(t *testing.T) {
	payload, err := (&kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "s", Addr: "mutex.a"}}).Encode()
	require.NoError(t, err)
	for _, s := range []string{"", "null", "[]", "x", "{}", `{"locktree":1}`, string(payload)} {
		_, err := record.Decode([]byte(s))
		require.ErrorIs(t, err, record.ErrNotRecord, s)
	}
}

func TestIndexErrorsNameWhatIsWrong(t *testing.T) {
	var newer *record.VersionError
	_, err := record.Decode([]byte(`{"locktree":4,"apply":1,"untracked":{}}`))
	require.ErrorAs(t, err, &newer)
	require.ErrorContains(t, err, "upgrade")
	for field, s := range map[string]string{
		"locktree":  `{"locktree":0,"apply":""}`,
		"outputs":   `{"locktree":3,"apply":"","outputs":[]}`,
		"apply":     `{"locktree":3,"apply":1}`,
		"untracked": `{"locktree":3,"apply":"","untracked":{}}`,
	} {
		_, err := record.Decode([]byte(s))
		require.ErrorContains(t, err, fmt.Sprintf("plan: damaged record: %s: ", field))
	}
}

func FuzzDecodeIndex(f *testing.F) {
	x := &record.Record{Apply: "a", Untracked: []string{"/m"}, Pending: []record.Pending{{To: kind.WorldAll()}}}
	good, err := x.Encode()
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"locktree":1e99,"apply":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := record.Decode(data)
		if err != nil {
			require.Nil(t, x)
			return
		}
		out, err := x.Encode()
		if err != nil {
			return // an access entry without permissions can be read but not written
		}
		again, err := record.Decode(out)
		require.NoError(t, err)
		second, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(out), string(second))
	})
}
