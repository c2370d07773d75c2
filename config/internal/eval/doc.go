// Package eval gives declarations their values: variables from the inputs, then everything that refers to them, in the order that
// package static has found, down to one [Instance] for each znode.
//
// It relies on that order: what a declaration refers to has its value, or has failed. A missing value is marked failed, and the
// code that marks it reports the reason. So declarations that refer to it report nothing more ([Evaluation.Explained] proves
// that). Package static reads the configuration. This package reads files of values and passwords. It builds no tree, compares no
// two nodes, and asks no server.
//
// [Load] returns the [Evaluation] of a configuration, with the instances of all modules. Each module instance has its own
// Evaluation. A scope evaluates one declaration with exactly the values that it refers to; evaluatorOf names the function for each
// type of block. An [Ensemble] is its block evaluated. With [Options.NoValues] variables without a default have no value
// (unknown.go).
//
//	e := eval.Load(sources, report, version, eval.Options{Environ: os.Environ()}, open)
//	for _, i := range e.All.Instances {
//		fmt.Println(i.Addr, i.Path)
//	}
//
// A new argument is a line where its block is evaluated. A new type of block is a case in evaluatorOf.
package eval
