//go:build linux

package apply_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkBesideTerraform prints what a thousand locks cost beside Terraform with the
// tfzk provider, which knows plain nodes, on the same Apache ZooKeeper. Both programs
// must be on the PATH: their sources build with "go build", github.com/hashicorp/terraform
// and github.com/tfzk/terraform-provider-zookeeper. Terraform's memory is that of its own
// process, without the provider's.
func BenchmarkBesideTerraform(b *testing.B) {
	terraform, provider := onPath(b, "terraform"), onPath(b, "terraform-provider-zookeeper")
	b.ReportMetric(0, "ns/op") // the figures stand in the table
	bin := filepath.Join(b.TempDir(), "locktree")
	out, err := exec.Command("go", "build", "-o", bin, "../cmd/locktree").CombinedOutput()
	require.NoError(b, err, "%s", out)
	const locks = 1_000
	server := startZooKeeper(b, bin)

	rows := measure(b, bin, server, scaleCase{oneNamespace, locks})
	rows[0].what = fmt.Sprintf("%d locks, %s, locktree", locks, oneNamespace.name)
	peer := measureTerraform(b, terraform, provider, server, locks)
	peer[0].what = fmt.Sprintf("%d nodes, Terraform with tfzk", locks)
	printTable(os.Stdout, append(rows, peer...))
}

func onPath(b *testing.B, program string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		b.Skipf("There is no %s on the PATH to compare with.", program)
	}
	path, err = filepath.Abs(path)
	require.NoError(b, err)
	return path
}

// terraformSays is what each command says it did, or would.
var terraformSays = regexp.MustCompile(`(Plan:|No changes|Resources:)[^.]*`)

// measureTerraform does the same with nodes that hold the same texts; each change is
// another text in one of a hundred. The nodes are counted because that suits Terraform
// best: with for_each it evaluates the set anew for each of them, and a plan that takes
// 2 s takes 40.
func measureTerraform(b *testing.B, terraform, provider, server string, locks int) (rows []row) {
	dir := b.TempDir()
	settings := filepath.Join(dir, "terraformrc")
	require.NoError(b, os.WriteFile(settings, fmt.Appendf(nil, `
provider_installation {
  dev_overrides {
    "tfzk/zookeeper" = %q
  }
  direct {}
}
`, filepath.Dir(provider)), 0o600))
	b.Setenv("TF_CLI_CONFIG_FILE", settings)
	b.Setenv("CHECKPOINT_DISABLE", "1") // it would ask its maker for news

	for _, p := range []struct {
		name    string
		changed int
		args    []string
	}{
		{"plan", 0, []string{"plan"}},
		{"apply", 0, []string{"apply", "-auto-approve"}},
		{"plan again", 0, []string{"plan"}},
		{"plan of changes", locks / 100, []string{"plan"}},
		{"plan -out", locks / 100, []string{"plan", "-out=saved"}},
		{"apply saved", locks / 100, []string{"apply", "saved"}},
		{"destroy", locks / 100, []string{"destroy", "-auto-approve"}},
	} {
		require.NoError(b, os.WriteFile(filepath.Join(dir, "main.tf"), fmt.Appendf(nil, `
terraform {
  required_providers {
    zookeeper = { source = "tfzk/zookeeper" }
  }
}
provider "zookeeper" {
  servers = %q
}
resource "zookeeper_znode" "n" {
  path = "/terraform"
}
resource "zookeeper_znode" "m" {
  count = %d
  path  = "${zookeeper_znode.n.path}/m-${count.index}"
  data  = jsonencode({ kind = "mutex", description = count.index < %d ? "A changed lock." : "Lock ${count.index}." })
}
`, server, locks, p.changed), 0o600))
		r := row{phase: p.name}
		run(b, &r, terraform, dir, slices.Insert(p.args, 1, "-no-color"))
		r.result = match(b, dir, terraformSays)
		rows = append(rows, r)
	}
	return rows
}
