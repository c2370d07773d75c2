package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/locktree/locktree/recipes/prom"
)

// alert is an alert of alerts/locktree.yml.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	if strings.HasSuffix(file, ".json") {
		require.NoError(t, json.Unmarshal(text, into))
		return
	}
	require.NoError(t, yaml.Unmarshal(text, into))
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	read(t, "alerts/locktree.yml", &file)
	require.Len(t, file.Groups, 1)
	require.Len(t, file.Groups[0].Rules, 13)
	return file.Groups[0].Rules
}

// panel is a panel of the dashboard.
type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	Targets                  []struct {
		Expr       string
		Datasource struct{ Type, UID string }
	}
	GridPos struct{ X, Y, W, H int }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var file struct {
		UID        string
		Panels     []panel
		Templating struct{ List []struct{ Name, Type string } }
	}
	read(t, "dashboards/locktree.json", &file)
	require.NotEmpty(t, file.UID)
	require.Equal(t, "datasource", file.Templating.List[0].Type)
	return file.Panels
}

// tool runs promtool.
func tool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v (Debian's package prometheus has it): %s", args, out)
	return string(out)
}

func TestAlertsFireAndStaySilent(t *testing.T) {
	tool(t, "", "check", "rules", "alerts/locktree.yml")
	tool(t, "", "test", "rules", "alerts/locktree_test.yml")

	var cases struct {
		Tests []struct {
			Name           string
			AlertRuleTests []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, "alerts/locktree_test.yml", &cases)
	seen := map[string]bool{}
	for _, group := range cases.Tests {
		for _, c := range group.AlertRuleTests {
			kind := "silent before"
			switch {
			case len(c.ExpAlerts) > 0:
				kind = "fires"
			case group.Name == "quiet":
				kind = "quiet"
			}
			seen[kind+" "+c.Alertname] = true
		}
	}
	for _, a := range alerts(t) {
		for _, kind := range []string{"fires", "silent before", "quiet"} {
			require.True(t, seen[kind+" "+a.Alert], "no case of %s: %s", a.Alert, kind)
		}
	}
}

// runbooks returns the sections of docs/alerts.md, by alert.
func runbooks(t *testing.T) map[string]string {
	page, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	return sections
}

// An alert wakes a person who has never seen it before.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	sections := runbooks(t)
	require.Len(t, sections, len(alerts(t)), "runbooks of no alert")
	for _, a := range alerts(t) {
		require.Contains(t, sections, a.Alert)
		require.True(t, strings.HasSuffix(a.Annotations["runbook_url"], "/docs/alerts.md#"+strings.ToLower(a.Alert)), a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
		require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
		require.Regexp(t, "(?s)\n\\*\\*Look\\*\\*\n.*\n\\*\\*Do\\*\\*\n", sections[a.Alert])
		for _, link := range regexp.MustCompile(`\bLocktree\w+\b`).FindAllString(sections[a.Alert], -1) {
			require.Contains(t, sections, link, "named under %s", a.Alert)
		}
	}
}

// An alert on a metric that nothing exports is silent for ever.
func TestOnlyMetricsThatExistAreAskedFor(t *testing.T) {
	descs := make(chan *prometheus.Desc, 100)
	prom.New().Describe(descs)
	close(descs)
	exists := map[string]bool{}
	for d := range descs {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]
		exists[name] = true
		if strings.HasSuffix(name, "_seconds") {
			exists[name+"_count"], exists[name+"_bucket"] = true, true
		}
	}
	// The expected result of the page's own test lists its metrics.
	page, err := os.ReadFile("../../cmd/locktree/internal/page/testdata/metrics.txt")
	require.NoError(t, err)
	served := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(string(page), -1) {
		served[m[1]] = true
	}
	asked := map[string]bool{}
	for _, file := range []string{"../../docs/alerts.md", "alerts/locktree.yml", "alerts/locktree_test.yml", "dashboards/locktree.json", "README.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`\blocktree_\w+`).FindAllString(string(text), -1) {
			if name != "locktree_test" { // a file
				require.True(t, exists[name] || served[name], "%s in %s", name, file)
				asked[strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket")] = true
			}
		}
	}
	maps.Copy(exists, served)
	for name := range exists {
		require.True(t, asked[strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_bucket")], "%s is shown nowhere", name)
	}
}

// Today's Grafana draws every panel, with the data source that its user chooses.
func TestDashboardIsPlain(t *testing.T) {
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels(t) {
		require.False(t, ids[p.ID], "the id of %s is taken", p.Title)
		ids[p.ID] = true
		require.Contains(t, []string{"timeseries", "table", "stat", "heatmap"}, p.Type, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			require.Less(t, x, 24, p.Title)
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies on another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
