package hwsync

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// Paths of MAAS's files on a machine.
const (
	Folder      = "/etc/maas"
	Credentials = "maas-machine-creds.yml"
	Units       = "/usr/lib/systemd/system"
	Service     = "maas_hardware_sync.service"
	Timer       = "maas_hardware_sync.timer"
)

// Files are the three files of hardware sync.
type Files struct {
	Credentials []byte // a secret
	Service     []byte
	Timer       []byte
	Rack        string // scheme and host, for downloads
}

// String redacts the credentials in all printed forms.
func (f Files) String() string { return "[hardware sync by " + f.Rack + "]" }

// GoString is String.
func (f Files) GoString() string { return f.String() }

// Clear overwrites the credentials.
func (f Files) Clear() { clear(f.Credentials) }

// DefaultMinutes is MAAS's own interval.
const DefaultMinutes = 15

// Render returns the files for a sync every so many minutes; 0: DefaultMinutes. Code
// maas_machine_token_invalid; no error contains a part of the token.
func Render(token taskcatalog.MAASMachineToken, minutes int) (f Files, err error) {
	rack, err := token.Rack()
	if err != nil {
		return f, err
	}
	f.Rack = rack.String()
	if minutes == 0 {
		minutes = DefaultMinutes
	}
	f.Credentials, err = yaml.Marshal(map[string]any{"reporting": map[string]any{"maas": map[string]string{
		"consumer_key": token.ConsumerKey, "endpoint": token.Endpoint, "token_key": token.TokenKey, "token_secret": token.TokenSecret,
	}}})
	if err != nil {
		return f, taskcatalog.Errorf(taskcatalog.CodeMAASTokenInvalid, "cannot write the machine's MAAS token as YAML")
	}
	// The rack serves the program of its own version, as for MAAS's own service.
	f.Service = fmt.Appendf(nil, `[Unit]
Description=MAAS hardware sync
Documentation=https://maas.io
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStartPre=/usr/bin/wget -q -O /usr/bin/maas-run-scripts %s/MAAS/maas-run-scripts
ExecStartPre=/bin/chmod 0755 /usr/bin/maas-run-scripts
ExecStart=/usr/bin/maas-run-scripts report-results --config %s/%s
`, rack, Folder, Credentials)
	every := "*-*-* *:00:00"
	if minutes < 60 {
		every = fmt.Sprintf("*-*-* *:00/%d:00", minutes)
	}
	// The random delay keeps machines that were deployed together from calling together.
	f.Timer = fmt.Appendf(nil, `[Unit]
Description=MAAS hardware sync every %d minutes

[Timer]
OnCalendar=%s
RandomizedDelaySec=60
Persistent=true

[Install]
WantedBy=timers.target
`, minutes, every)
	return f, nil
}

// Minutes returns the longest period of the timer that MAAS does not report as late, given that
// MAAS expects a sync every interval.
func Minutes(interval time.Duration) int {
	best := 5
	for _, m := range []int{10, 15, 20, 30, 60} {
		if time.Duration(m)*time.Minute <= interval {
			best = m
		}
	}
	return best
}
