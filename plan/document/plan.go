package document

import "encoding/json"

// Plan is the document of one or more plans. Its fields have the names of Terraform's show -json, so policies and queries over its
// resource_changes keep working. Terraform does not have the fields "locktree_version", "live", "access_changes", "problems",
// "ensembles" and "transactions".
type Plan struct {
	FormatVersion   string                  `json:"format_version"`
	Version         string                  `json:"locktree_version,omitempty"`
	Applyable       bool                    `json:"applyable"`
	Complete        bool                    `json:"complete"` // all of the configuration was planned
	Errored         bool                    `json:"errored"`
	Ensembles       []Ensemble              `json:"ensembles"`
	ResourceChanges []Change                `json:"resource_changes"`
	ResourceDrift   []Change                `json:"resource_drift"`
	AccessChanges   []AccessChange          `json:"access_changes"`
	OutputChanges   map[string]OutputChange `json:"output_changes"`
	Problems        []Problem               `json:"problems"`
	Checks          []Check                 `json:"checks"`
	Transactions    []Transaction           `json:"transactions"`
	Configuration   struct {
		Root struct{} `json:"root_module"`
	} `json:"configuration"`
}

// Ensemble is where one of the plans is applied, and how.
type Ensemble struct {
	Ensemble string   `json:"ensemble"`
	Root     string   `json:"root"`
	Stack    string   `json:"stack"`
	Servers  []string `json:"servers,omitempty"` // the servers that were asked when the plan was made
	Destroy  bool     `json:"destroy,omitempty"`
	DrainMs  int64    `json:"drain_ms,omitempty"`
	Resumes  string   `json:"resumes,omitempty"` // the id of an apply that was interrupted
	Sum      string   `json:"sum"`               // what "locktree history" calls the plan
	// NotRead counts by namespace the children that others may have created, which were not read.
	NotRead map[string]int `json:"not_read,omitempty"`
}

// Transaction is the size of the transactions for an ensemble, all batches together.
type Transaction struct {
	Ensemble string `json:"ensemble"`
	Ops      int    `json:"ops"`
	Bytes    int    `json:"bytes"`
	ACLPhase int    `json:"acl_phase"`
}

// Resource names a node in every document.
type Resource struct {
	Address  string  `json:"address"`
	Mode     string  `json:"mode"`
	Type     string  `json:"type"`
	Name     string  `json:"name"`
	Index    *string `json:"index,omitempty"`
	Module   string  `json:"module_address,omitempty"`
	Provider string  `json:"provider_name"`
	Ensemble string  `json:"ensemble"`
}

// Settings are a node as the configuration sees it: its path, its access lists, and the parameters of its type by their names.
type Settings map[string]any

// None is an object without properties. Terraform writes it if nothing of a value is sensitive or unknown.
type None struct{}

// Change is what happens, or happened by hand, to a node.
type Change struct {
	Resource
	PreviousAddress string     `json:"previous_address,omitempty"`
	Reason          string     `json:"action_reason,omitempty"`
	Change          NodeChange `json:"change"`
}

// NodeChange is the present and the future of a node. A side that does not exist is null, and its sensitive parts are false.
type NodeChange struct {
	Actions         []string   `json:"actions"`
	Before          Settings   `json:"before"`
	After           Settings   `json:"after"`
	AfterUnknown    None       `json:"after_unknown"`
	BeforeSensitive any        `json:"before_sensitive"`
	AfterSensitive  any        `json:"after_sensitive"`
	ReplacePaths    [][]string `json:"replace_paths,omitempty"`
	Origin
	Live *Live `json:"live,omitempty"`
}

// Origin is the existing node that a change takes over.
type Origin struct {
	Importing *Importing `json:"importing,omitempty"`
}

// Importing is the path of a node that is taken over.
type Importing struct {
	ID string `json:"id"`
}

// Sensitive is Terraform's value for a side without sensitive parts.
func Sensitive(side Settings) any {
	if side == nil {
		return false
	}
	return None{}
}

// AccessChange is an access list of one of the tool's own nodes.
type AccessChange struct {
	Ensemble string   `json:"ensemble"`
	Address  string   `json:"address"`
	Path     string   `json:"path"`
	List     string   `json:"list"`
	Before   []string `json:"before"`
	After    []string `json:"after"`
}

// OutputChange is an output value that changes or stays.
type OutputChange struct {
	Actions         []string        `json:"actions"`
	Before          json.RawMessage `json:"before"`
	After           json.RawMessage `json:"after"`
	AfterUnknown    bool            `json:"after_unknown"`
	BeforeSensitive bool            `json:"before_sensitive"`
	AfterSensitive  bool            `json:"after_sensitive"`
}

// Output is an output value. The value of a sensitive one is stored nowhere.
type Output struct {
	Sensitive bool            `json:"sensitive"`
	Type      json.RawMessage `json:"type,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
	Action    string          `json:"action,omitempty"` // set only in the message stream of a plan, where outputs have no values
}

// Problem is what the author of the configuration has to know.
type Problem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Address  string `json:"address"`
	Path     string `json:"path"`
	Origin   string `json:"origin"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
}

// Check is the result of a check block, with its one instance.
type Check struct {
	Address struct {
		Kind    string `json:"kind"`
		Name    string `json:"name"`
		Display string `json:"to_display"`
		Module  string `json:"module,omitempty"`
	} `json:"address"`
	Status    string          `json:"status"`
	Instances []CheckInstance `json:"instances"`
}

// CheckInstance is the result of the one instance of a [Check].
type CheckInstance struct {
	Address struct {
		Display string `json:"to_display"`
		Module  string `json:"module,omitempty"`
	} `json:"address"`
	Status   string    `json:"status"`
	Problems []Message `json:"problems,omitempty"`
}

// Message is one assertion that does not hold.
type Message struct {
	Message string `json:"message"`
}

// State is what is there, in the form of Terraform's show -json of a state.
type State struct {
	FormatVersion string `json:"format_version"`
	Version       string `json:"locktree_version,omitempty"`
	Values        Values `json:"values"`
}

// Values are outputs and nodes, module by module.
type Values struct {
	Outputs map[string]Output `json:"outputs,omitzero"`
	Root    *Module           `json:"root_module"`
}

// Module is a module with its own nodes and the modules that it calls.
type Module struct {
	Address   string    `json:"address,omitempty"`
	Resources []Value   `json:"resources"`
	Children  []*Module `json:"child_modules,omitempty"`
}

// Value is a node as it is or will be.
type Value struct {
	Resource
	SchemaVersion   int      `json:"schema_version"`
	Values          Settings `json:"values"`
	SensitiveValues None     `json:"sensitive_values"`
	Live            *Live    `json:"live,omitempty"`
}
