package help

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// WriteManual writes a man page for each command, in section 1, and for each topic of the help, in section 7. A page has no date:
// two builds of a release are equal.
func WriteManual(root *cobra.Command, version, to, dir string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return view.Failf("Cannot write "+dir, "%v.", err)
	}
	for _, c := range documented(root) {
		name := filepath.Join(to, manName(c)+"."+manSection(c))
		if err := os.WriteFile(name, manPage(c, version), 0o644); err != nil { //nolint:gosec // everybody may read it
			return view.Failf("Cannot write "+dir, "%v. The pages before it are written.", err)
		}
	}
	return nil
}

// documented returns a command and the commands below it, without those that the help hides.
func documented(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help" {
			all = append(all, documented(sub)...)
		}
	}
	return all
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manSection(c *cobra.Command) string {
	if c.IsAdditionalHelpTopicCommand() {
		return "7"
	}
	return "1"
}

// manPage is the help of a command in the language of man(7).
func manPage(c *cobra.Command, version string) []byte {
	var p manText
	p.line(`.TH "` + roff(strings.ToUpper(manName(c))) + `" ` + manSection(c) + ` "" "locktree ` + roff(version) + `" "locktree"`)
	p.line(".SH NAME")
	p.line(roff(manName(c)) + ` \- ` + roff(c.Short))
	if manSection(c) == "1" {
		p.line(".SH SYNOPSIS")
		p.line(`\fB` + roff(c.UseLine()) + `\fR`)
	}
	p.line(".SH DESCRIPTION")
	p.paragraphs(c.Long)
	if c.Long == "" {
		p.paragraphs(c.Short + ".")
	}
	if c.HasAvailableSubCommands() {
		p.line(".SH COMMANDS")
		for _, sub := range documented(c)[1:] {
			p.item(`\fB`+roff(manName(sub))+`\fR(`+manSection(sub)+`)`, sub.Short)
		}
	}
	if manSection(c) == "1" {
		p.line(".SH OPTIONS")
		c.InitDefaultHelpFlag()
		c.NonInheritedFlags().VisitAll(p.option)
		c.InheritedFlags().VisitAll(p.option)
	}
	if c.Example != "" {
		p.line(".SH EXAMPLES")
		p.paragraphs(c.Example)
	}
	p.line(".SH SEE ALSO")
	p.line(`\fBlocktree\fR(1), \fBlocktree\-environment\fR(7), \fBlocktree\-exit\-codes\fR(7)`)
	return []byte(p.String())
}

// manText is a page as it is written.
type manText struct{ strings.Builder }

func (p *manText) line(s string) { p.WriteString(s + "\n") }

// paragraphs writes text for roff to wrap; a paragraph with an indented line keeps its line breaks.
func (p *manText) paragraphs(text string) {
	for _, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		p.line(".PP")
		laidOut := strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ")
		if laidOut {
			p.line(".nf")
		}
		p.line(roff(paragraph))
		if laidOut {
			p.line(".fi")
		}
	}
}

func (p *manText) item(term, text string) {
	p.line(".TP")
	p.line(term)
	p.line(roff(text))
}

func (p *manText) option(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	name, usage := pflag.UnquoteUsage(f)
	term := `\fB` + roff("-"+f.Name) + `\fR`
	if f.Shorthand != "" {
		term = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + term
	}
	if name != "" {
		term += ` \fI` + roff(name) + `\fR`
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	p.item(term, usage)
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n"+`\&.`, "\n'", "\n"+`\&'`)

// roff escapes text: its hyphens can be copied into a command line, and none of its lines is a request of roff.
func roff(text string) string {
	return strings.TrimPrefix(roffEscapes.Replace("\n"+text), "\n")
}
