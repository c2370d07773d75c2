package view

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// TestStatus is how a run of a test, a file or all of them ended, in Terraform's words.
type TestStatus string

// The statuses. Error is a run whose plan or apply failed, after which the rest of its file is skipped.
const (
	TestPass  TestStatus = "pass"
	TestFail  TestStatus = "fail"
	TestError TestStatus = "error"
	TestSkip  TestStatus = "skip"
)

// TestRun is a run that has ended, or that was skipped.
type TestRun struct {
	File, Name  string
	Status      TestStatus
	Elapsed     time.Duration
	Diagnostics hcl.Diagnostics
	Sources     map[string]*hcl.File
	Plan        *Plan // to be shown; nil without -verbose
}

// TestFile is a file of tests before it runs, with the names of its runs, or after it, with their ends.
type TestFile struct {
	Name  string
	Names []string
	Ended []TestRun
}

// Over reports whether all of the file's runs have ended.
func (f TestFile) Over() bool { return len(f.Ended) == len(f.Names) }

// Status is that of the file: the worst of its runs.
func (f TestFile) Status() TestStatus {
	all := map[TestStatus]bool{}
	for _, r := range f.Ended {
		all[r.Status] = true
	}
	switch {
	case all[TestError]:
		return TestError
	case all[TestFail]:
		return TestFail
	case all[TestPass]:
		return TestPass
	}
	return TestSkip
}

// Tests are all files, before they run or after it.
type Tests []TestFile

// Passed reports whether nothing failed.
func (t Tests) Passed() bool { return t.count(TestFail)+t.count(TestError) == 0 }

func (t Tests) count(s TestStatus) (n int) {
	for _, f := range t {
		n += f.count(s)
	}
	return n
}

func (f TestFile) count(s TestStatus) (n int) {
	for _, r := range f.Ended {
		if r.Status == s {
			n++
		}
	}
	return n
}

func (s TestStatus) paint(h *Human) string {
	return h.out.paint(map[TestStatus]string{TestPass: green, TestFail: red, TestError: red, TestSkip: dim}[s])(cmp.Or(map[TestStatus]string{TestError: "fail"}[s], string(s)))
}

func (f TestFile) text(h *Human) {
	end := h.out.paint(dim)("in progress")
	if f.Over() {
		end = f.Status().paint(h)
	}
	h.out.printf("%s... %s\n", clean(f.Name), end)
}

func (r TestRun) text(h *Human) {
	h.out.printf("  run %s... %s\n", quote(r.Name), r.Status.paint(h))
	if r.Plan != nil {
		r.Plan.text(h)
		h.out.printf("\n")
	}
	h.Diagnostics(r.Diagnostics, r.Sources)
}

// summary is the line that scripts search for.
func (t Tests) summary() string {
	verdict, skipped := "Success!", ""
	if !t.Passed() {
		verdict = "Failure!"
	}
	if n := t.count(TestSkip); n > 0 {
		skipped = fmt.Sprintf(", %d skipped", n)
	}
	return fmt.Sprintf("%s %d passed, %d failed%s.", verdict, t.count(TestPass), t.count(TestFail)+t.count(TestError), skipped)
}

func (t Tests) over() bool {
	return !slices.ContainsFunc(t, func(f TestFile) bool { return !f.Over() })
}

func (t Tests) text(h *Human) {
	if t.over() {
		h.out.printf("\n%s\n", h.out.paint(bold)(t.summary()))
	}
}

// What -json says of tests, with Terraform's keys.
type (
	testFileJSON struct {
		Path     string     `json:"path"`
		Progress string     `json:"progress"`
		Status   TestStatus `json:"status,omitempty"`
	}
	testRunJSON struct {
		Elapsed  int64      `json:"elapsed"` // milliseconds
		Path     string     `json:"path"`
		Progress string     `json:"progress"`
		Run      string     `json:"run"`
		Status   TestStatus `json:"status"`
	}
	testSummaryJSON struct {
		Errored int        `json:"errored"`
		Failed  int        `json:"failed"`
		Passed  int        `json:"passed"`
		Skipped int        `json:"skipped"`
		Status  TestStatus `json:"status"`
	}
)

func (f TestFile) json(s *machine) {
	of := testFileJSON{Path: f.Name, Progress: "starting"}
	text := f.Name + "... in progress"
	if f.Over() {
		of.Progress, of.Status = "complete", f.Status()
		text = fmt.Sprintf("%s... %s", f.Name, of.Status)
	}
	s.send("info", "test_file", text, message{TestFile: &of, InFile: f.Name})
}

func (r TestRun) json(s *machine) {
	s.send("info", "test_run", fmt.Sprintf("  %q... %s", r.Name, r.Status), message{InFile: r.File, InRun: r.Name,
		TestRun: &testRunJSON{r.Elapsed.Milliseconds(), r.File, "complete", r.Name, r.Status}})
	if r.Plan != nil {
		r.Plan.json(s)
	}
	s.diagnosticsOf(message{InFile: r.File, InRun: r.Name}, r.Diagnostics, r.Sources)
}

func (t Tests) json(s *machine) {
	if !t.over() {
		names, runs := map[string][]string{}, 0
		for _, f := range t {
			names[f.Name] = f.Names
			runs += len(f.Names)
		}
		s.send("info", "test_abstract", fmt.Sprintf("Found %s and %s", Plural(len(t), "file"), Plural(runs, "run block")), message{TestAbstract: names})
		return
	}
	sum := testSummaryJSON{t.count(TestError), t.count(TestFail), t.count(TestPass), t.count(TestSkip), TestPass}
	if !t.Passed() {
		sum.Status = TestFail
	}
	s.send("info", "test_summary", t.summary(), message{TestSummary: &sum})
}

// The form of JUnit, in which a suite is a file and a case is a run.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Seconds string     `xml:"time,attr"`
		Skipped *struct{}  `xml:"skipped"`
		Failure *junitText `xml:"failure"`
		Error   *junitText `xml:"error"`
		Stderr  *junitText `xml:"system-err"` // warnings of a run that passed
	}
	junitText struct {
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the tests as JUnit's XML, which CI systems read.
func (t Tests) JUnit(w io.Writer) error {
	var out junitSuites
	for _, f := range t {
		suite := junitSuite{Name: f.Name, Tests: len(f.Ended), Skipped: f.count(TestSkip), Failures: f.count(TestFail), Errors: f.count(TestError)}
		for _, r := range f.Ended {
			suite.Cases = append(suite.Cases, r.junit())
		}
		out.Suites = append(out.Suites, suite)
	}
	text, err := xml.MarshalIndent(out, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	}
	return err
}

func (r TestRun) junit() junitCase {
	c := junitCase{Name: r.Name, Class: r.File, Seconds: fmt.Sprintf("%.3f", r.Elapsed.Seconds())}
	var b bytes.Buffer
	writeDiagnostics(Stream{Writer: &b}, r.Diagnostics, r.Sources)
	said := &junitText{Text: strings.TrimSpace(b.String())}
	if i := slices.IndexFunc(r.Diagnostics, func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError }); i >= 0 {
		said.Message = clean(r.Diagnostics[i].Summary)
	}
	switch {
	case r.Status == TestSkip:
		c.Skipped = &struct{}{}
	case r.Status == TestFail:
		c.Failure = said
	case r.Status == TestError:
		c.Error = said
	case said.Text != "":
		c.Stderr = said
	}
	return c
}
