// Package access says who may do what in a lock tree, before and after a plan. It checks the declared access lists, and plans the
// lists of the tool's own nodes (the root and .locktree). It finds others who could create or delete the stack's nodes.
//
// Its functions add access changes, drift and problems to a [plan.Plan], and read the rest from [Sides]: both trees, by path, and
// who we are. They rely on kind.List for the meaning of a list. They never choose an action for a node, and never write to a
// tree.
//
// [Stand] comes first: it says whose the root is, and all others depend on that. [PlanOwn] comes when it is known which
// namespaces stay. Programs outside of the planner ask [OthersCanCreate] and [Administers].
//
//	if access.OthersCanCreate(tree, desired.Intent.Access, node.ACL) {
//		// a read does not walk into the namespace
//	}
package access
