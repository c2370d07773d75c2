package plan

import "fmt"

// Action is what happens to a node. Its value is its symbol in a plan.
// Files and JSON name it in words (MarshalText), so that a symbol may change.
type Action rune

// The actions.
const (
	NoOp    Action = ' '
	Create  Action = '+'
	Update  Action = '~'
	Delete  Action = '-'
	Replace Action = '±' // delete and create in one transaction
	Forget  Action = '.' // the node stays and goes on working, but no longer belongs to a stack
)

// String returns the word used in Terraform's JSON: "no-op", "create", "update",
// "delete", "replace", "forget".
func (a Action) String() string {
	if word := actionWords[a]; word != "" {
		return word
	}
	return "unknown action"
}

var actionWords = map[Action]string{NoOp: "no-op", Create: "create", Update: "update", Delete: "delete", Replace: "replace", Forget: "forget"}

// Symbol returns the symbol in front of the block in a printed plan: "+", "~", "-",
// "-/+" or a space.
func (a Action) Symbol() string {
	if a == Replace {
		return "-/+"
	}
	return string(a)
}

// Verbs returns the "actions" array of Terraform's JSON plan.
func (a Action) Verbs() []string {
	if a == Replace {
		return []string{"delete", "create"}
	}
	return []string{a.String()}
}

// MarshalText writes the word of String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (a *Action) UnmarshalText(text []byte) error {
	for known, word := range actionWords {
		if word == string(text) {
			*a = known
			return nil
		}
	}
	return fmt.Errorf("%q is not an action", text)
}
