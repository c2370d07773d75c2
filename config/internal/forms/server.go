package forms

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// CheckServer reports why a text names no server.
func CheckServer(server string) error {
	if name, ok := strings.CutPrefix(server, "dns-srv://"); ok {
		if name == "" || strings.ContainsAny(name, ",/: ") {
			return fmt.Errorf(`write the name of SRV records behind dns-srv://, as in "dns-srv://_zookeeper._tcp.example.com"`)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(server)
	switch {
	case strings.Contains(server, ",") || strings.ContainsAny(server, " /"):
		return fmt.Errorf(`write one "host:port" in each element of the list, and the path of a connect string as root`)
	case err != nil || host == "":
		return fmt.Errorf(`write a server as "host:port", for example "zk1:2181"`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not a port: it must be a number from 1 to 65535", port)
	}
	return nil
}
