// Package record is what an apply notes of a stack below <root>/.locktree and in each node. It has the record (the data of
// .locktree/stacks/STACK), the checksums in the marks of nodes, the roll of the nodes that an apply left, and the id of the
// ensemble. A node's mark is its data. The package also knows where the tool keeps its own nodes.
//
// It turns values into bytes and back, and relies on package kind alone. It reads no tree, makes no plan and asks no server: a
// caller names a node by its path, its payload and its access list. [Before] and [RootSet] are facts about the record and the
// root's lists that the transactions of a plan need.
//
// [Record] is the main type, [Decode] and [Record.Encode] read and write it. [Sum] makes a checksum, and [Fits] compares one. A
// [Roll] notes a set of paths in a fixed number of bytes.
//
//	x, err := record.Decode(data)
//	if err == nil && !x.Left(node.Path, node.Payload, node.ACL) {
//		// the node was changed by hand
//	}
package record
