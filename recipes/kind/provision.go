package kind

import "strings"

// Provisioner is what [Provision] needs of a zktest.Server.
type Provisioner interface {
	Provision(path string, d interface {
		Encode() ([]byte, error)
		Children() []string
	}) error
}

// Provision declares nodes below a root of a server for tests. Each is a path below the root and the data of the node, which
// [Decode] reads. It is for code that "locktree generate go" writes. An error leaves those before it.
func Provision(server Provisioner, root string, nodes [][2]string) error {
	for _, node := range nodes {
		d, err := Decode([]byte(node[1]))
		if err == nil {
			err = server.Provision(strings.TrimSuffix(root, "/")+node[0], d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
