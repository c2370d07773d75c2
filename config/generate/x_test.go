package generate_test

import (
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/generate"
	"os"
	"testing"
)

func TestX(t *testing.T) {
	code, d := config.LoadCode(os.Getenv("D"), config.Options{})
	if d.HasErrors() {
		t.Fatal(d)
	}
	b, err := generate.Go(code, "locks")
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write(b)
}
