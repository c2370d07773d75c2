// Package kind says what each recipe type is: its parameters, the child nodes
// its wire format needs, the names its contenders carry, who of a queue is
// admitted, and how all of that is stored in a znode.
//
// It is the one place where a recipe type is described. The configuration
// language builds its block schemas from the parameter tables here, the
// planner compares parameters through them, the apply writes the payload
// encoded here, and the library reads that payload when a program opens a
// lock. A new recipe type is one file in this package and one in package
// recipes.
//
// # The payload
//
// A provisioned node keeps its declaration in its own data, as JSON, never in
// a child: every child of a lock is a contender to some client (CURATOR-43).
// [Decode] tells apart data that is not ours ([ErrForeign]), data of a newer
// format ([VersionError]) and data that is ours but damaged ([PayloadError]),
// and keeps fields it does not know, so that an older program rewriting a
// payload does not strip what a newer one wrote.
//
// # Contenders
//
// [ParseContender] understands the names that Apache Curator, kazoo,
// go-zookeeper and ZooKeeper's own WriteLock write, so that a queue shared
// between clients is read alike by all. Names it does not understand are not
// contenders: callers report them and never wait for them.
//
// The package imports the standard library only and holds no state.
package kind
