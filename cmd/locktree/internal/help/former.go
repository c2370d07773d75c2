package help

// Former are commands that existed before 0.1, and what to type instead. CHANGELOG.md lists what was removed.
var Former = map[string]string{
	"compat":          "\"locktree doctor\" checks the conditions that locktree needs of the servers.",
	"generate java":   "Java programs take the path of a lock from an output: see docs/provisioning.md.",
	"generate python": "Python programs take the path of a lock from an output: see docs/provisioning.md.",
	"once pause":      "\"locktree once skip\" skips a slot of the job. Type it for each slot that is not to be run.",
	"once run":        "\"locktree exec -once\" runs the newest slot. Skip an older one, and run its command without locktree.",
	"schema":          "docs/language.md lists the blocks, arguments and functions of the language.",
	"state prune":     "With zkCli.sh, delete the nodes that undeclared locks left behind; \"locktree status -prefix PATH\" lists them.",
	"test":            "Write check blocks, which every plan evaluates, and look at \"locktree plan -json\".",
	"top":             "\"locktree status -watch\" shows who holds and who waits, and goes on.",
	"vet":             "\"locktree generate go\" writes the names of the locks as code, which the compiler checks.",
}

const textInReview = "The output of plan is text: post it in a code block, as the GitHub Action does."

var formerFlags = map[string]string{
	"annotations": textInReview,
	"empty-as":    "-kind=TYPE says the same, and -kind=PATH=TYPE says it of a part of the tree.",
	"events":      "Programs' observers, logs and Prometheus tell what happened; \"locktree status -watch -json\" prints each change.",
	"exclude":     "-target names what to plan, or a namespace or module with everything in it; it may be repeated.",
	"history":     "Prometheus remembers what the page shows under /metrics.",
	"markdown":    "The output of show is text: put it into a code block.",
	"summary":     textInReview,
	"wait-idle":   "apply -replace=ADDRESS -drain=10m creates the node again once the lock is idle.",
}
