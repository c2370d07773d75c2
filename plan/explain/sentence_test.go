package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan/explain"
)

// Sentence replaced only the first byte of a letter beyond ASCII.
func TestASentenceBeginsWithAWholeLetter(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "it is gone": "It is gone.", "it is gone.": "It is gone.", "is it gone?": "Is it gone?", "ärger": "Ärger.", "日本": "日本.",
	} {
		require.Equal(t, want, explain.Sentence(text))
	}
}
