// Package generate writes the names of a stack's locks as Go code: handles of the library's types. All of it is made of a
// [config.Code], which depends on no environment, so a file that was generated anywhere is right everywhere the configuration
// is applied.
//
// A name that two blocks would share is given to neither: each gets a longer one. Otherwise a new block could take over the
// name of another one, and programs would compile, and use another lock.
package generate
