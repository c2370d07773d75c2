// Package config reads the configuration language: HCL in, one desired
// [plan.Tree] per ensemble out.
//
// # What Load promises
//
// [Load] never contacts a server and writes nothing. The same files, variables
// and environment give the same [Config], byte for byte: no function of the
// language knows the time, a random number or the network.
//
// Every error is a diagnostic with a file, a range, what is wrong, why, and
// what to type next. All of them are reported at once, sorted by file and line;
// an error that only follows from another one is dropped. A Config is returned
// only when there is no error.
//
// # How an expression becomes a value
//
// The files are decoded by the tables of schema.go into one kind of value, the
// block. A static pass then checks every reference of every expression, before
// anything is evaluated, because a misspelt name is best explained by the list
// of names that exist. The references are also the edges of a graph; its cycles
// are reported member by member, and everything else is evaluated once, in
// dependency order. Nothing is ever unknown: all values of this language are
// known before an apply.
//
// What has no value is marked failed, and whatever marks it has reported why: nothing that refers to it reports more, and
// everything else is still looked at. So an error is reported once. load.go checks that no failure was silent (explained).
//
// A module is the same thing once more: another directory, collected and resolved
// for the block that calls it, and evaluated once for each of its instances, with
// the arguments of the block for its variables. Its block is one vertex of the graph
// (see call.go): it waits for all arguments, and what uses one output waits for all of it.
//
// # What is said besides the tree
//
// moved, import and removed blocks name addresses, which are parsed and never
// evaluated; with quotas and outputs they become the [plan.Intent] of the tree of
// each ensemble, so that the tree is all [plan.Diff] needs. Checks are evaluated
// into warnings and [Config.Checks].
//
// # Secrets
//
// A sensitive value carries a cty mark from where it enters (a sensitive
// variable, env, digest) to where it leaves: a password, an access list, an
// output declared sensitive. Everywhere else it is refused, and no diagnostic
// repeats it: where a message would quote a value, its mark is asked first. Nothing looks
// for secrets in finished messages, which would damage other words and give the
// secret away. What a person writes as a literal into a file is shown with the
// line it is on when that line is wrong.
//
// # The files
//
// In the order in which a configuration goes through them:
//
//	source limits                           files to bodies
//	schema language block dynamic override  bodies to blocks, by tables; version looks ahead of them
//	declaration call intent                 blocks to declarations; address reads addresses
//	reference graph                         the static pass, and the order of evaluation
//	variable input                          what comes from outside; fromenvironment: without any file
//	scope functions* marks jsonexpr         expressions to values; marks keeps secrets marked in loops
//	ensemble policy node quota assert       what each declaration is worth; output
//	check intentcheck hash                  the rules between declarations, and the result
//
// load.go calls them; module.go holds what they share. diagnostic, advice, advicetable and suggest word the
// errors, secret keeps values out of what is printed. Beside Load stand console (with valuetext), describe
// (the language as data) and format.
//
// A new argument is a line in language.go and one where it is evaluated; a new kind of lock is neither: its
// arguments come from package kind.
//
// # Limits
//
// A configuration is its operator's own code, as with Terraform. The size of files, the number of nodes and the depth of
// modules are limited (see limits.go), so that a slip is reported early and with a place. The time and memory that
// expressions take are not. Load cannot be interrupted from within: a program that needs that calls it in a goroutine and
// abandons it, as the command does.
package config
