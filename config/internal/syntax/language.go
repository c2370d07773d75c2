package syntax

import (
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// Language is the body of a file of the configuration. ChildLanguage is the body of a file of a called module, without what belongs
// to the whole configuration.
var (
	Language = &BlockType{top: true, blocks: slices.Concat([]*BlockType{
		{
			Name: "locktree", doc: "Settings of the whole configuration.", single: true,
			args: []argument{
				requiredVersion,
				arg("stack", "string", "Ownership id, written into every node; nodes of other stacks are never touched.").must(),
			},
		},
		{
			Name: "ensemble", doc: "A ZooKeeper ensemble and how to reach it.", labels: []string{"name"},
			args: []argument{
				arg("servers", "list(string)", `Servers as "host:port", or "dns-srv://" and the name of SRV records; those of the environment variable ZOOKEEPER_SERVERS by default.`),
				arg("root", "string", "Absolute path put before every declared path; / by default."),
				arg("id", "string", "The id that the first apply wrote below the root; \"locktree doctor\" shows it. locktree refuses an ensemble with another id."),
				arg("auth_name", "string", "Name of the ensemble (zookeeper.ensembleAuthName). locktree refuses servers with another name. The servers must support the authentication scheme \"ensemble\"."),
				arg("session_timeout", "string", `Session timeout, such as "15s".`),
				arg("connect_timeout", "string", `How long to try to reach a server, such as "5s".`),
				arg("admins", "list(principal)", "Who may apply: they get all rights on the tool's own nodes, and on nodes without an acl."),
				arg("readers", "list(principal)", "Who may plan and look: they may read what the admins own."),
			},
			blocks: []*BlockType{
				{
					Name: "tls", doc: "Encrypt the connection. The files are read again for each new connection, so that they can be replaced.", single: true,
					args: []argument{
						arg("ca_file", "string", "Certificate authorities that may sign the servers' certificates."),
						arg("cert_file", "string", "Our certificate."),
						arg("key_file", "string", "The key of our certificate."),
						arg("server_name", "string", "Name expected in the servers' certificates."),
					},
				},
				{
					Name: "auth", doc: "An identity of this program: digest, sasl (DIGEST-MD5) or kerberos. At most one of the last two.", labels: []string{"scheme"},
					args: []argument{
						arg("username", "string", "digest, sasl: user name. Required there."),
						arg("password", "string", "digest, sasl: password; a sensitive variable or env(NAME), never a literal."),
						arg("password_file", "string", "digest, sasl: a file with the password, in place of password. sasl reads it again for each new connection."),
						arg("principal", "string", "kerberos: who logs in, such as ops@EXAMPLE.COM; required with keytab."),
						arg("keytab", "string", "kerberos: file with the principal's keys."),
						arg("ccache", "string", "kerberos, without keytab: file with the tickets that kinit got; KRB5CCNAME by default."),
						arg("krb5_conf", "string", "kerberos: its configuration; KRB5_CONFIG or /etc/krb5.conf by default."),
						arg("server_principal", "string", "kerberos: principal of all servers (zookeeper.server.principal)."),
						arg("service", "string", "kerberos: first part of the servers' principals (zookeeper.sasl.client.username); zookeeper by default."),
						arg("realm", "string", "kerberos: realm of the servers (zookeeper.server.realm); that of the principal by default."),
						arg("canonicalize", "bool", "kerberos: take the host in each server's principal from a reverse DNS lookup of its address (zookeeper.sasl.client.canonicalize.hostname); true by default."),
						arg("remove_host", "bool", "kerberos: the servers remove the host from principals (kerberos.removeHostFromPrincipal); false by default."),
						arg("remove_realm", "bool", "kerberos: the servers remove the realm from principals (kerberos.removeRealmFromPrincipal); false by default."),
					},
				},
			},
		},
		{
			Name: "import", doc: "Takes over a znode that exists already.",
			args: []argument{
				arg("to", "address", "The address of the node it becomes.").must(),
				arg("path", "string", "Its current absolute path.").must(),
			},
		},
	}, declarationTypes(), nodeTypes())}
	ChildLanguage = &BlockType{top: true, child: true, blocks: slices.Concat([]*BlockType{
		{Name: "locktree", doc: "Settings of the module.", single: true, args: []argument{requiredVersion}},
	}, declarationTypes(), nodeTypes())}
)

var requiredVersion = arg("required_version", "string", "The versions of locktree that may read this configuration.")

// declarationTypes are the blocks that are in every module and declare no node.
func declarationTypes() []*BlockType {
	return []*BlockType{
		{
			Name: "variable", doc: "An input.", labels: []string{"name"},
			args: []argument{
				arg("type", "type", "Type constraint; any by default."),
				arg("default", "any", "Value when none is given."),
				arg("description", "string", "For people."),
				arg("sensitive", "bool", "Never show the value; false by default."),
				arg("nullable", "bool", "Whether null is a value; true by default."),
			},
			blocks: []*BlockType{{
				Name: "validation", doc: "A rule the value must keep.",
				args: []argument{
					arg("condition", "bool", "True when the value is good.").must(),
					arg("error_message", "string", "The message when it is not.").must(),
				},
			}},
		},
		{Name: "locals", doc: "Named values.", anyArgs: true},
		{
			Name: "principal", doc: "An identity that can be granted rights.", labels: []string{"name"},
			args: []argument{
				arg("for_each", "map(any) or set(string)", "A map or a set of strings: one principal for each element."),
				arg("scheme", "string", "world, digest, x509, ip or sasl.").must(),
				arg("id", "string", "The identity, in the form of the scheme."),
			},
		},
		{
			Name: "acl", doc: "A list of grants that namespaces and locks refer to.", labels: []string{"name"},
			args: []argument{
				arg("for_each", "map(any) or set(string)", "A map or a set of strings: one access list for each element."),
				arg("allow_world", "bool", "Let everybody do more than read; false by default."),
				arg("allow_lockout", "bool", "Let an apply remove its own admin right; false by default."),
			},
			blocks: []*BlockType{{
				Name: "grant", doc: "Rights for some principals.",
				args: []argument{
					arg("to", "list(principal)", "List of principals.").must(),
					arg("allow", "string", `"lock", "observe", "admin", or letters of "cdrwa".`).must(),
				},
			}},
		},
		{
			Name: "output", doc: "A value to show after an apply.", labels: []string{"name"},
			args: []argument{
				arg("value", "any", "The value.").must(),
				arg("description", "string", "For people."),
				arg("sensitive", "bool", "Show and store the name only; false by default."),
			},
		},
		{
			Name: "module", doc: "Another directory of declarations, with inputs of its own.", labels: []string{"name"}, anyArgs: true,
			args: []argument{
				arg("source", "string", `Directory of the module, relative to this one: "./NAME" or "../NAME".`).must(),
				arg("for_each", "map(any) or set(string)", "A map or a set of strings: the module once for each element."),
				arg("ensemble", "ensemble", "The ensemble of the module's top-level nodes, when there are several."),
			},
		},
		{
			Name: "moved", doc: "Records that something has a new address.",
			args: []argument{
				arg("from", "address", "The former address.").must(),
				arg("to", "address", "The current address.").must(),
			},
		},
		{
			Name: "removed", doc: "Records that a declaration was removed on purpose, and what happens to its znodes.",
			args: []argument{arg("from", "address", "The address that is not declared any more.").must()},
			blocks: []*BlockType{{
				Name: "lifecycle", doc: "Rules for the removal.", single: true,
				args: []argument{arg("destroy", "bool", "Delete the znodes, which is the default; false keeps them, and removes only the mark of this stack.")},
			}},
		},
		{
			Name: "check", doc: "Conditions that every plan checks; a failure is a warning and stops nothing.", labels: []string{"name"},
			blocks: []*BlockType{{Name: "assert", doc: "A condition that should hold.", args: []argument{
				arg("condition", "bool", "True when all is well.").must(),
				arg("error_message", "string", "The message when it is false.").must(),
			}}},
		},
	}
}

// nodeTypes turns the tables of package kind into block types: a new recipe
// type needs no change here.
func nodeTypes() []*BlockType {
	kinds := kind.All()
	types := make([]*BlockType, len(kinds))
	for i, k := range kinds {
		t := &BlockType{
			Name: k.Name, doc: k.Doc, Kind: k, labels: []string{"name"},
			args: []argument{
				arg("for_each", "map(any) or set(string)", "A map or a set of strings: one node for each element."),
				arg("name", "string", "Name of the znode; the label, or label-key, by default."),
				arg("acl", "acl", "Access list; nodes inside inherit it."),
				arg("ensemble", "ensemble", "The ensemble, on top-level blocks when there are several."),
			},
			blocks: []*BlockType{{
				Name: "lifecycle", doc: "Rules for changes.", single: true,
				args: []argument{arg("prevent_destroy", "bool", "Refuse to delete the node, even after its block is gone; false by default.")},
			}},
		}
		if k.Container {
			t.args = append(t.args, arg("order", "list(address)", "The order in which programs take locks inside, such as [mutex.a, keyed.b]. Taking them against it is an error."))
		}
		for _, f := range k.New().Fields() {
			if f.Derived {
				continue
			}
			t.args = append(t.args, argument{f.Name, FieldType(f).FriendlyName(), f.Doc, f.Required})
		}
		types[i] = t
	}
	for _, t := range types {
		if t.Kind.Container {
			t.blocks = append(t.blocks, types...)
		}
	}
	return types
}
