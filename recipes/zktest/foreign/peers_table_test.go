//go:build linux

package foreign_test

// Why tests of a client's own suite do not pass in memory.
const (
	ensemble = "takes an ensemble whose servers can be stopped one by one"
	restart  = "takes a restart, at which this server forgets everything"
	authors  = "runs in its authors' CI only"
	sasl     = "starts a server of its own with a JAAS login"
	reconfig = "kazoo does not know the answer ReconfigDisabled, which ZooKeeper gives too unless it is told otherwise, and hangs"
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

var kazooExcept = map[string]string{
	"kazoo/tests/test_build.py::TestBuildEnvironment::test_zookeeper_version":              authors,
	"kazoo/tests/test_client.py::TestClient::test_request_queuing_session_expired":         restart,
	"kazoo/tests/test_client.py::TestClient::test_request_queuing_session_recovered":       restart,
	"kazoo/tests/test_client.py::TestClient::test_update_host_list":                        ensemble,
	"kazoo/tests/test_client.py::TestReconfig::test_add_remove_observer":                   reconfig,
	"kazoo/tests/test_client.py::TestReconfig::test_bad_input":                             reconfig,
	"kazoo/tests/test_client.py::TestReconfig::test_no_super_auth":                         reconfig,
	"kazoo/tests/test_connection.py::TestReadOnlyMode::test_read_only":                     ensemble,
	"kazoo/tests/test_sasl.py::TestLegacySASLDigestAuthentication::test_connect_sasl_auth": sasl,
	"kazoo/tests/test_sasl.py::TestSASLDigestAuthentication::test_connect_sasl_auth":       sasl,
	"kazoo/tests/test_sasl.py::TestSASLGSSAPIAuthentication::test_connect_gssapi_auth":     sasl,
	"kazoo/tests/test_sasl.py::TestSASLGSSAPIAuthentication::test_invalid_gssapi_auth":     sasl,
}

// kazooLeftOut are files of tests that do not run at all.
var kazooLeftOut = map[string]string{
	"kazoo/tests/test_eventlet_handler.py": "the client's tests once more, in other threads",
	"kazoo/tests/test_gevent_handler.py":   "the client's tests once more, in other threads",
}
