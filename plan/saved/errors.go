package saved

import (
	"fmt"

	"github.com/locktree/locktree/plan/explain"
)

// ErrNotPlan: the data is not a saved plan.
var ErrNotPlan error = &refusal{explain.Explanation{Summary: "Not a plan file", Next: `"locktree plan -out FILE" writes one.`}, "not a locktree plan file"}

// refusal is an error about a file that says what to do instead.
type refusal struct {
	explain.Explanation
	text string
}

func (e *refusal) Error() string { return "plan: " + e.text }

// Explain implements [explain.Explainer].
func (e *refusal) Explain() explain.Explanation { return e.Explanation }

func truncated(size int) error {
	return &refusal{explain.Explanation{Summary: "The plan file is cut off", Next: "Create the plan again."}, fmt.Sprintf("the plan file ends after %d bytes, in the middle", size)}
}

func damaged(why string) error {
	return &refusal{explain.Explanation{Summary: "The plan file is damaged", Written: "Nothing was written.", Next: "Create the plan again."}, "damaged plan file: " + why}
}

// otherBuild is the error of a file that is as it was written, by a program that says the same version, and yet gives another plan.
func otherBuild(version string, why error) error {
	return &refusal{explain.Explanation{Summary: "Saved plan of another build", Written: "Nothing was written.",
		Next: "Apply it with the program that made it, or create the plan again."},
		fmt.Sprintf("the plan was made by locktree %s, but not by this program, which plans something else: %v", version, why)}
}

// VersionError means that another version of the program wrote the file.
type VersionError struct {
	Wrote, Reads string // the versions of the programs; Wrote may be ""
	Format       int    // of the file
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("plan: the plan file was written by locktree %s (format %d), this is locktree %s (format %d), which may plan something else", e.Wrote, e.Format, e.Reads, format)
}

// Explain implements [explain.Explainer].
func (e *VersionError) Explain() explain.Explanation {
	return explain.Explanation{Summary: "Saved plan of another version", Written: "Nothing was written.",
		Next: fmt.Sprintf("Apply it with the version that wrote it, or create the plan again. To have one version everywhere, pin it: locktree { required_version = %q }.", "= "+e.Reads)}
}
