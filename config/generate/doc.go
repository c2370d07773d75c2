// Package generate writes the names of a stack's locks as Go code: handles of the library's types.
//
//	code, diags := generate.Load(".", version)
//	source, err := generate.Go(code, "locks")
//
// All of it is made of a [Code], which depends on no environment. So a file that was generated anywhere is right wherever the
// configuration is applied. The package relies on the phases of config, and never on values of variables, on a server or on a
// plan.
//
// A name that two blocks would share is given to neither: each gets a longer one. Otherwise a new block could take over the
// name of another one, and programs would compile, and use another lock.
package generate
