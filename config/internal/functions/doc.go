// Package functions has the functions that an expression can call: those of go-cty's standard library that Terraform has, too, and ours.
//
// It relies on go-cty for most of them, and on package syntax for the rules of text and the limits. None of them knows the
// time, a random number or the network, and only env and file look outside of their arguments: at the environment that the
// caller passes in, and below the directory of the [Module].
//
// [Table] is what an expression's context takes. A value that must not be shown has the mark [Sensitive], and the error of a
// function that repeats no such argument is [Plain].
//
//	ctx := &hcl.EvalContext{Functions: functions.Table(functions.Module{FS: os.DirFS(dir), Dir: dir, Path: "."}, os.Environ())}
//
// A new function is an entry in table.go, and a case in functions_test.go of package config.
package functions
