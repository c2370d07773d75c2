// Package forms knows the forms that ZooKeeper and cron give to texts of a configuration: principals of each scheme, permissions,
// servers and schedules.
//
// It relies on package kind for the meaning of permissions and schedules. It sees one text at a time, evaluates nothing, and asks
// no server. A text that no server could ever match is an error here, and its sentence says what to write.
//
//	if err := forms.CheckPrincipal("x509", "CN=sre,OU=ops"); err != nil {
//		return err
//	}
//	canonical, err := forms.Schedule("@daily") // "0 0 * * *"
package forms
