package hwsync_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

var token = taskcatalog.MAASMachineToken{Endpoint: "http://10.0.0.2:5248/MAAS/metadata/status/abc123", ConsumerKey: "CKEY", TokenKey: "TKEY", TokenSecret: "planted-secret"}

func TestTheCredentialsAreThoseThatMAASWrites(t *testing.T) {
	f, err := hwsync.Render(token, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Reporting map[string]map[string]string `yaml:"reporting"`
	}
	if err := yaml.Unmarshal(f.Credentials, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"consumer_key": "CKEY", "endpoint": token.Endpoint, "token_key": "TKEY", "token_secret": "planted-secret"}
	if fmt.Sprint(got.Reporting["maas"]) != fmt.Sprint(want) || f.Rack != "http://10.0.0.2:5248" {
		t.Errorf("%v, by %s", got, f.Rack)
	}
	if !strings.Contains(string(f.Timer), "*:00/15:00") || !strings.Contains(string(f.Service), "--config /etc/maas/maas-machine-creds.yml\n") {
		t.Errorf("%s\n%s", f.Timer, f.Service)
	}
	if said := fmt.Sprintf("%v %+v %#v", f, f, f); strings.Contains(said, "planted-secret") {
		t.Error(said)
	}
	if f.Clear(); strings.Contains(string(f.Credentials), "planted-secret") {
		t.Error("the secret is still there")
	}
}

func TestATokenThatIsNoneMakesNoFiles(t *testing.T) {
	for name, change := range map[string]func(*taskcatalog.MAASMachineToken){
		"a line of its own in the rack": func(m *taskcatalog.MAASMachineToken) {
			m.Endpoint = "http://rack\n[Service]:5248/MAAS/metadata/status/abc123"
		},
		"no endpoint of MAAS": func(m *taskcatalog.MAASMachineToken) { m.Endpoint = "http://rack:5248/elsewhere" },
		"an empty key":        func(m *taskcatalog.MAASMachineToken) { m.TokenKey = "" },
		"a key with a line":   func(m *taskcatalog.MAASMachineToken) { m.TokenSecret = "planted-secret\nx: y" },
	} {
		bad := token
		change(&bad)
		_, err := hwsync.Render(bad, 15)
		if e := (*taskcatalog.Error)(nil); !errors.As(err, &e) || e.Code != taskcatalog.CodeMAASTokenInvalid || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestThePeriodIsNeverLongerThanMAASWaits(t *testing.T) {
	for interval, want := range map[time.Duration]int{0: 5, time.Minute: 5, 14 * time.Minute: 10, 15 * time.Minute: 15, 59 * time.Minute: 30, 24 * time.Hour: 60} {
		if got := hwsync.Minutes(interval); got != want {
			t.Errorf("%v: %d minutes, want %d", interval, got, want)
		}
	}
}
