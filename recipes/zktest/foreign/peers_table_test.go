//go:build linux

package foreign_test

// Why tests of a client's own suite do not pass in memory.
const (
	ensemble = "takes an ensemble whose servers can be stopped one by one"
	restart  = "takes a restart, at which this server forgets everything"
)

var gozkExcept = map[string]string{
	"TestIntegration_BasicCluster":                ensemble,
	"TestIntegration_ClientClusterFailover":       ensemble,
	"TestIntegration_NoQuorum":                    ensemble,
	"TestIntegration_RecurringReAuthHang":         ensemble,
	"TestIntegration_DNSHostProviderReconnect":    ensemble,
	"TestIntegration_IncrementalReconfig":         ensemble,
	"TestIntegration_Reconfig":                    ensemble,
	"TestIntegration_IfAuthdataSurvivesReconnect": restart,
}
