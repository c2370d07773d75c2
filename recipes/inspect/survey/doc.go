// Package survey finds the locks that programs have made without a declaration, so that an import can declare them:
//
//	top, cut, err := survey.Surveyor{Most: 10_000}.Survey(ctx, client, "/locks")
//	fmt.Println(strings.Join(top.Lines(), "\n"))
//
// A survey walks a tree once, level by level, and judges each node by its data and its children. A [Found] says what a node seems to
// be, or why it is left out. The package writes nothing.
package survey
