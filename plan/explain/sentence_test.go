package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan/explain"
)

// The first byte of a letter beyond ASCII was replaced.
func TestASentenceBeginsWithAWholeLetter(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "it is gone": "It is gone.", "it is gone.": "It is gone.", "is it gone?": "Is it gone?", "ärger": "Ärger.", "日本": "日本.",
	} {
		require.Equal(t, want, explain.Sentence(text))
	}
}
