// Package config reads the configuration language: HCL in, one desired [plan.Tree] per ensemble out.
//
// [Load] reads a directory; its result is what package plan/diff compares with the ensemble. [Ensemble.Dial] connects as an
// ensemble block says, identities and encryption included. [Format] is the layout of files. Package config/adopt writes
// configuration for znodes that exist, and config/generate writes Go code. docs/language.md describes the language for people;
// its reference is generated from the tables that decode files.
//
// # What Load promises
//
// Load contacts no server and writes nothing. The same files, variables and environment give the same [Config], byte
// for byte: no function of the language knows the time, a random number or the network.
//
// Every error is a diagnostic with a file and a range; it says what is wrong, why, and what to type next. Load reports all errors
// at once, sorted by file and line, and drops those that only follow from another one. With errors, the Config has only its
// directory and sources.
//
// # How a configuration is evaluated
//
//  1. internal/syntax: files become bodies, and bodies become blocks by the tables of the language. required_version is read
//     as soon as a file is parsed. If the root configuration needs another version, that is its only error. A directory is read once,
//     whatever the number of module blocks that call it.
//  2. internal/static: blocks become declarations. Every reference of every expression is resolved before anything is evaluated,
//     because the list of names that exist explains a misspelt one best. A depth-first search over the references orders the
//     declarations and reports cycles. From here on the declarations of a directory never change.
//  3. internal/eval: an evaluation is made for the configuration, and one for each instance of a module. It evaluates each
//     declaration once, in that order, with exactly the values that it refers to, and keeps the results. internal/functions has the
//     functions that an expression can call. internal/forms has the rules of ZooKeeper and cron for texts.
//  4. This package checks the rules between declarations, and builds the trees (load.go, intentcheck.go).
//
// load.go calls these steps, each with the value of the one before. All values of this language are known before an apply. Only
// generate.Load leaves variables without a default unknown, and with them all that depends on them. It evaluates names, parameters
// and outputs, and no access lists.
//
// The result of a declaration that has no value is marked failed. The code that marks it has reported the reason, and a
// declaration that refers to it reports nothing more, so each error is reported once. Load verifies that no failure was silent
// (Evaluation.Explained).
//
// A module block is one vertex of the graph: it waits for all of its arguments, and what uses one output waits for all of it.
//
// moved, import and removed blocks name addresses, which are parsed and never evaluated. These blocks and the outputs become the
// [plan.Intent] of each ensemble's tree. Checks are evaluated into warnings and [Config.Checks].
//
// # How to add to the language
//
// A new argument is a line in internal/syntax/language.go and one in internal/eval where its block is evaluated. A new kind of
// lock needs no change here: its arguments come from package kind. A new function is an entry in internal/functions/table.go and a
// case in functions_test.go.
//
// # Secrets
//
// A sensitive value carries a cty mark from where it enters (a sensitive variable, env, digest) to where it leaves: a password,
// an access list, an output declared sensitive. Everywhere else it is refused, and no diagnostic repeats it. An error in an
// expression that mentions something sensitive gives its reason only if that reason quotes no value (fixedReasons in
// internal/functions). A literal that a person writes into a file is shown with its line when that line is wrong.
//
// # Limits
//
// A configuration is its operator's own code, as with Terraform. Limits find a mistake early and say where it is.
// internal/syntax/source.go limits files and nodes, internal/static/declarations.go limits modules. internal/functions limits the
// results of some functions, and internal/syntax the nesting of expressions. Nothing limits the time and memory of expressions in
// general. Load cannot be interrupted. A program that must be able to stop waiting calls Load in a goroutine and abandons the
// goroutine, as the command does.
package config
