//go:build linux

package realzk

import "os"

// sharedAt is the environment variable with the address of the shared server.
const sharedAt = "ZOOKEEPER_SHARED"

// SharedOptions are the options of the shared server: it enforces quotas, and its superuser is super:super.
var SharedOptions = Options{
	Config:     map[string]string{"enforceQuota": "true"},
	Properties: map[string]string{"zookeeper.DigestAuthenticationProvider.superDigest": "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss="},
}

// Shared returns the address of a shared server. The test must not kill, pause or configure this server, and works below a path of its own.
// `.ci/tests` starts one server for all these tests, by the program in folder share. A test that runs alone gets a server of its own.
func Shared(tb TB) string {
	tb.Helper()
	if addr := os.Getenv(sharedAt); addr != "" {
		return addr
	}
	return Start(tb, SharedOptions).Addr
}
