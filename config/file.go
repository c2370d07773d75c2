package config

import "github.com/locktree/locktree/config/internal/syntax"

// ReadFile reads a file as a configuration is read: a regular one, of at most 16 MiB.
func ReadFile(name string) ([]byte, error) { return syntax.ReadFile(name) }

// TextError says why no expression can hold a text as it is; nil if one can. The language works on text in Unicode's form NFC
// and converts all other text without a word, while ZooKeeper compares the bytes of names and passwords. Text that begins
// with a character which merges to the left would change as soon as an expression puts it behind other text.
func TextError(text string) error { return syntax.TextError(text) }
