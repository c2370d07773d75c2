// Package syntax reads files into blocks by the tables of the language, native and JSON syntax alike.
//
// It relies on hcl for parsing, and on package kind for the types of blocks that declare nodes. It never evaluates an
// expression that refers to anything, and it knows no declaration: one block says nothing about another.
//
// [Sources] lists and parses the files of one directory. [Decode] turns a body into a [Block] with its [Attribute]s by a
// [BlockType]: [Language] is that of a configuration, [ChildLanguage] that of a module. Errors go into a [Report], which every
// later phase goes on with. The words of all phases are here too: [Hint], [OrList], and what to type next ([Advise]).
//
//	report := &syntax.Report{Dir: dir}
//	files := &syntax.Sources{FS: os.DirFS(dir), Dir: dir, Files: map[string]*hcl.File{}, Report: report}
//	for _, name := range files.List() {
//		block := syntax.Decode(files.Parse(name), syntax.Language, report)
//	}
//
// A new argument or type of block is an entry in language.go.
package syntax
