package starter

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStackIsNamedAfterItsDirectory(t *testing.T) {
	for dir, want := range map[string]string{"My Shop": "my-shop", "payments_prod": "payments-prod", "..": "example", "/": "example", "Äpfel": "pfel", "a1": "a1"} {
		require.Equal(t, want, stackName(dir))
	}
}
