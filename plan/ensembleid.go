package plan

import (
	"encoding/json"
	"regexp"
)

// The data of <root>/.locktree is the id of the ensemble, as far as this root is concerned: a random text that the first apply
// writes, and no later one changes. A configuration can pin it (Tree.EnsembleID), so that nothing is planned or applied where
// the same names happen to lead to other servers.

// ensembleMark is that data.
type ensembleMark struct {
	ID string `json:"ensemble"`
}

var ensembleID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// IsEnsembleID reports whether a text can be the id of an ensemble.
func IsEnsembleID(text string) bool { return ensembleID.MatchString(text) }

// MarkOf is the data that says that an ensemble has an id.
func MarkOf(id string) []byte {
	data, _ := json.Marshal(ensembleMark{id}) // a text
	return data
}

// MarkedAs is the id in the data of <root>/.locktree, "" if there is none.
func MarkedAs(data []byte) string {
	var m ensembleMark
	if json.Unmarshal(data, &m) != nil || !IsEnsembleID(m.ID) {
		return ""
	}
	return m.ID
}

// Unmarked reports whether the ensemble was found without an id, where an apply had been.
func (p *Plan) Unmarked() bool { return p.prior.Unmarked }
