// Package functions has the functions that an expression can call: those of go-cty's standard library that Terraform has, and
// ours. It evaluates an expression with them so that no diagnostic tells a sensitive value.
//
// It relies on go-cty for most of them, and on package syntax for the rules of text and the limits. None of them knows the time,
// a random number or the network. Only env and file look outside of their arguments: at the environment that the caller passes
// in, and below the directory of the [Module].
//
// [Table] is what an expression's context takes, and [Compute] evaluates the expression. A value that must not be shown has the
// mark [Sensitive].
//
//	ctx := &hcl.EvalContext{Functions: functions.Table(functions.Module{FS: os.DirFS(dir), Dir: dir, Path: "."}, os.Environ())}
//	value, diags := functions.Compute(expr, ctx, files.Text(expr.Range()))
//
// A new function is an entry in table.go, and a case in functions_test.go of package config.
package functions
