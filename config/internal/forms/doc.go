// Package forms knows the forms that ZooKeeper and cron give to texts of a configuration: principals of each scheme, permissions,
// servers and schedules.
//
// It relies on packages kind and plan for what permissions and schedules mean. It sees one text at a time, evaluates nothing, and asks no
// server: a text that no server could ever match is an error here, and its sentence says what to write.
//
//	if err := forms.CheckPrincipal("x509", "CN=sre,OU=ops"); err != nil {
//		return err
//	}
//	canonical, err := forms.Schedule("@daily") // "0 0 * * *"
package forms
