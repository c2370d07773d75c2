package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// hooked runs a function whenever somebody asks for Done, as a context does that is taken off its parent.
type hooked struct {
	context.Context
	then func()
}

func (h hooked) Done() <-chan struct{} {
	h.then()
	return h.Context.Done()
}

func TestAFunctionThatReturnedBeforeTheLossIsNotRunAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		c := l.Client("a")
		returned, runs := (*recipes.Lease)(nil), 0
		ctx := hooked{t.Context(), func() {
			if lead := returned; lead != nil { // after fn has returned, and before the leadership is given up
				returned = nil
				require.NoError(t, l.Srv.Delete(lead.Node()))
				<-lead.Context().Done()
			}
		}}
		err := c.Election("/e").Lead(ctx, func(_ context.Context, lead *recipes.Lease) error {
			require.NotZero(t, lead.Token())
			runs++
			if runs == 1 {
				returned = lead
			}
			return nil
		})
		require.Equal(t, 1, runs)
		require.NoError(t, err, "it led until its function had returned")
		time.Sleep(time.Minute)
		l.Empty("/e")
	})
}

// A function that goes on, deaf to its context, is told of the loss by being run again.
func TestAFunctionThatReturnsAfterTheLossIsRunAgainWhateverItReturns(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Election()
		runs := 0
		err := l.Client("a").Election("/e").Lead(t.Context(), func(_ context.Context, lead *recipes.Lease) error {
			if runs++; runs == 1 {
				require.NoError(t, l.Srv.Delete(lead.Node()))
				<-lead.Context().Done()
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 2, runs)
	})
}
