package forms

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/kind/slots"
)

// subjects are forms that people write, and the results of new X500Principal(form).getName() in OpenJDK 17. "" is the form itself, and "!"
// a refusal. "?" stands for a result that is a guess of Java: the form does not tell how a certificate encodes the value.
var subjects = map[string]string{
	"CN=alice,OU=ops,O=Acme,C=DE": "",
	"CN=alice, OU=ops, O=Acme":    "CN=alice,OU=ops,O=Acme",
	"cn=alice,ou=ops":             "CN=alice,OU=ops",
	"CN=alice;O=Acme":             "CN=alice,O=Acme",
	`CN="Acme, Inc."`:             `CN=Acme\, Inc.`,
	`CN=Acme\, Inc.`:              "",
	`CN=Acme\2C Inc.`:             `CN=Acme\, Inc.`,
	`CN=a\=b`:                     "",
	"CN=a=b":                      `CN=a\=b`,
	"CN=a#b":                      `CN=a\#b`,
	"CN=#alice":                   "!",
	`CN=\#alice`:                  "",
	"CN=a/b":                      "",
	"CN=*.acme.org":               "",
	"EMAILADDRESS=a@b.de,CN=x":    "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"emailAddress=a@b.de,CN=x":    "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"1.2.840.113549.1.9.1=#16066140622e6465,CN=x": "",
	"1.2.840.113549.1.9.1=#16066140622E6465,CN=x": "1.2.840.113549.1.9.1=#16066140622e6465,CN=x",
	"E=a@b.de":                 "!",
	"SERIALNUMBER=4711,CN=x":   "2.5.4.5=#130434373131,CN=x",
	"T=Dr,CN=a":                "?",
	"CN=alice+OU=ops,O=Acme":   "",
	"OU=ops + CN=alice,O=Acme": "OU=ops+CN=alice,O=Acme",
	"CN=Größe":                 "",
	`CN=Gr\C3\B6\C3\9Fe`:       "CN=Größe",
	"CN=":                      "",
	"CN":                       "!",
	"ST=Hessen":                "",
	"DC=acme,DC=org":           "",
	"CN=a  b":                  "",
	"CN= alice ,O=b":           "CN=alice,O=b",
	`CN=\ alice\ ,O=b`:         "",
	`CN=a\<b\>`:                "",
	`CN=a"b`:                   "!",
	"CN=a+b":                   "!",
	`CN=a\\b`:                  "",
	",CN=a":                    "!",
	"CN=a,":                    "!",
	"CN=a,,O=b":                "!",
	"CN=alice,STREET=Ring 1,L=Kassel,UID=al,2.5.4.3": "!",
}

func TestSubjectsAreTakenOnlyAsTheServersWriteThem(t *testing.T) {
	for form, want := range subjects {
		if want == "" {
			require.NoError(t, CheckPrincipal("x509", form), form)
			continue
		}
		require.ErrorContains(t, CheckPrincipal("x509", form), "character by character", form)
		if want != "!" && want != "?" {
			require.NoError(t, CheckPrincipal("x509", want), want)
		}
	}
	// Without -nameopt, OpenSSL prints the order of the certificate. Java refuses names of the first form, and takes the second for the
	// reverse of what is meant.
	for _, form := range []string{"/C=DE/O=Acme/CN=alice", "C = DE, O = Acme, CN = ali", "C=DE, O=Acme, CN=ali", "/CN=alice"} {
		require.Error(t, CheckPrincipal("x509", form), form)
	}
	for form, backwards := range map[string]bool{"C=DE,O=Acme,CN=ali": true, `C=DE,CN=a\,b`: true, "CN=ali,O=Acme,C=DE": false, "CN=ali": false, `O=a\,CN\=b,C=DE`: false} {
		require.NoError(t, CheckPrincipal("x509", form), form)
		require.Equal(t, backwards, FromTheTop.MatchString(form), form)
	}
}

func TestPrincipalsOfEachScheme(t *testing.T) {
	for id, ok := range map[string]bool{
		"alice": true, "alice@ACME.ORG": true, "zookeeper/host.acme.org@ACME.ORG": true, "a/b@C@D": false, "a/b/c@D": false,
	} {
		require.Equal(t, ok, CheckPrincipal("sasl", id) == nil, id)
	}
	for id, ok := range map[string]bool{
		"10.0.0.1": true, "10.0.0.0/8": true, "10.1.2.3/8": true, "::1": true, "fe80::/10": true, "fe80::1%eth0": false, "10.0.0.1/33": false, "10.0.0": false, "010.0.0.1": false, "host": false,
	} {
		require.Equal(t, ok, CheckPrincipal("ip", id) == nil, id)
	}
	require.ErrorContains(t, CheckPrincipal("auth", ""), "Name the identity itself")
	require.ErrorContains(t, CheckPrincipal("auth", "x"), "who applies first")
	require.NoError(t, CheckPrincipal("world", "anyone"))
	require.Error(t, CheckPrincipal("world", "everyone"))
}

func TestASchedulesCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"0 3 * * *":             "0 3 * * *",
		"@daily":                "0 0 * * *",
		"*/20 9-11 * * MON-FRI": "0,20,40 9,10,11 * * 1,2,3,4,5",
		"0 0 1-31 * 0-6":        "0 0 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31 * 0,1,2,3,4,5,6",
		"0-59 0-23 ? 1-12 *":    "* * * * *",
		"0 0 29 2 *":            "0 0 29 2 *",
		"0 0 29 2 */7":          "0 0 29 2 */7",
		"0 9 */2 * 1":           "0 9 */2 * 1",
		"0 9 1 * */2":           "0 9 1 * */2",
		"0 9 */20,5 * */2":      "0 9 1,5,21 * */2",
		"0 9 */10 * *":          "0 9 1,11,21,31 * *",
		"0 9 */1 * 1":           "0 9 * * 1",
		"0 3 * * 7,2":           "0 3 * * 0,2",
		"0 3 * * 5-7":           "0 3 * * 0,5,6",
		"0 3 * * 1-7/3":         "0 3 * * 0,1,4",
		"0 3 * * 0-7":           "0 3 * * 0,1,2,3,4,5,6",
	} {
		got, err := Schedule(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, why := range map[string]string{
		"0 3 * *":                      "expected exactly 5 fields",
		"0 3 * * 8":                    "above maximum",
		"0 3 * * 7-1":                  "beyond end of range",
		"0 9 */2,4 * 1":                "is ambiguous",
		"@every 5m":                    "counts from when a program begins",
		"CRON_TZ=Asia/Tokyo 0 3 * * *": "set timezone instead",
		"0 0 30 2 *":                   "never due",
	} {
		_, err := Schedule(text)
		require.ErrorContains(t, err, why, text)
	}
}

// zones are time zones for which robfig/cron agrees with the definition: the instants whose wall clock is in the sets.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "America/St_Johns"}

// Days with a step over * ran 212 times a year here, and 26 times by cron(8), which does not count such a field as restricted.
func TestAStepOverAllDaysFollowsCron(t *testing.T) {
	for text, times := range map[string]int{"0 9 */2 * 1": 26, "0 9 1 * */2": 8, "0 9 1-31/2 * 1": 212} {
		canonical, err := Schedule(text)
		require.NoError(t, err)
		s, err := slots.ParseSchedule(canonical, "")
		require.NoError(t, err)
		n := 0
		for at := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); at.Year() == 2026; at = s.Next(at) {
			n++
		}
		require.Equal(t, times, n, text)
	}
}

func TestSchedulesAreThoseOfRobfigCron(t *testing.T) {
	field := func(lo, hi int) *rapid.Generator[string] {
		n := rapid.IntRange(lo, hi)
		return rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 4).Draw(t, "form") {
			case 0, 1:
				return "*"
			case 2:
				return fmt.Sprintf("*/%d", rapid.IntRange(1, hi).Draw(t, "step"))
			case 3:
				a, b := n.Draw(t, "a"), n.Draw(t, "b")
				return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
			}
			return strings.Trim(strings.ReplaceAll(fmt.Sprint(rapid.SliceOfN(n, 1, 4).Draw(t, "list")), " ", ","), "[]")
		})
	}
	fields := []*rapid.Generator[string]{field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)}
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for _, f := range fields {
			parts = append(parts, f.Draw(t, "field"))
		}
		text := strings.Join(parts, " ")
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		canonical, err := Schedule(text)
		if err != nil {
			return // it never comes, as on 30 February
		}
		ours, err := slots.ParseSchedule(canonical, zone)
		require.NoError(t, err)
		at, err := time.LoadLocation(zone)
		require.NoError(t, err)
		theirs, err := cronParser.Parse(text)
		require.NoError(t, err)
		spec := theirs.(*cron.SpecSchedule)
		spec.Location = at
		for i, days := range map[int]*uint64{2: &spec.Dom, 4: &spec.Dow} { // robfig/cron drops the star of a step over *
			if strings.HasPrefix(parts[i], "*") {
				*days |= 1 << 63
			}
		}

		// Half of the walks begin near a change of the clock, within 26 hours.
		from := time.Unix(rapid.Int64Range(1.7e9, 2e9).Draw(t, "from"), 0).UTC()
		if rapid.Bool().Draw(t, "near") {
			from = change(at, from).Add(time.Duration(rapid.IntRange(-26*60, 26*60).Draw(t, "minutes")) * time.Minute)
		}
		for range 20 {
			next := theirs.Next(from).UTC()
			if next.Sub(from) > 4*366*24*time.Hour || next.Before(from) {
				break // robfig/cron looks five years ahead
			}
			require.Equal(t, next, ours.Next(from), "%s in %s after %s", canonical, zone, from)
			require.Equal(t, next, ours.Prev(next.Add(time.Duration(rapid.IntRange(0, 59).Draw(t, "s"))*time.Second)))
			require.True(t, ours.Has(next))
			if next.Sub(from) > time.Minute {
				require.True(t, ours.Prev(next.Add(-time.Minute)).Before(next))
				require.False(t, ours.Prev(next.Add(-time.Minute)).After(from))
			}
			from = next
		}
	})
}

// change is the next change of a zone's clock, to the hour, or t if there is none.
func change(zone *time.Location, t time.Time) time.Time {
	_, before := t.In(zone).Zone()
	for h := range 366 * 24 {
		if _, after := t.Add(time.Duration(h) * time.Hour).In(zone).Zone(); after != before {
			return t.Add(time.Duration(h) * time.Hour)
		}
	}
	return t
}
