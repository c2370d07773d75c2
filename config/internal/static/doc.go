// Package static turns blocks into declarations: it names them, resolves their references, and sorts them for the evaluation.
//
// It relies on package syntax for the blocks, and on package functions for the mark of a sensitive value. It evaluates constants
// only, so it needs no variable, no environment and no server. Its results never change: one directory is read once, however many
// module blocks call it.
//
// [Read] makes the [Declarations] of a configuration; those of a module hang on the [Decl] of the block that calls it. A [Decl] is
// one vertex of the graph. A [Node] is a vertex that declares znodes, a [Variable] is one that takes a value, and an [Intention]
// is one that names addresses. [References] are what an argument refers to. Errors go into the report of the files.
//
//	all := static.Read(files, "1.2.0", func(dir string) (fs.FS, error) { return os.DirFS(dir), nil })
//	for _, d := range all.Steps {
//		fmt.Println(d.Addr) // after everything that it refers to
//	}
//
// collect in declarations.go is where a new type of block becomes a declaration.
package static
