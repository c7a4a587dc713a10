package tasks

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// hwSyncFiles are the three files of hardware sync.
type hwSyncFiles struct {
	credentials []byte // a secret
	service     []byte
	timer       []byte
}

const defaultHWSyncMinutes = 15

// renderHWSync makes the files from a machine's token. Code
// maas_machine_token_invalid; no error holds a part of the token.
func renderHWSync(secret []byte, minutes int) (f hwSyncFiles, err error) {
	var token taskcatalog.MAASMachineToken
	if taskcatalog.DecodeStrict(secret, &token) != nil {
		return f, taskcatalog.Errorf(taskcatalog.CodeMAASTokenInvalid, "cannot use the machine's MAAS token: it is not the JSON of endpoint, consumer_key, token_key and token_secret (store it again at the broker)")
	}
	rack, err := token.Rack()
	if err != nil {
		return f, err
	}
	if minutes == 0 {
		minutes = defaultHWSyncMinutes
	}
	f.credentials, err = yaml.Marshal(map[string]any{"reporting": map[string]any{"maas": map[string]string{
		"consumer_key": token.ConsumerKey, "endpoint": token.Endpoint, "token_key": token.TokenKey, "token_secret": token.TokenSecret,
	}}})
	if err != nil {
		return f, taskcatalog.Errorf(taskcatalog.CodeMAASTokenInvalid, "cannot write the machine's MAAS token as YAML")
	}
	// The rack hands out the program that its own version wants, as MAAS's own
	// service does.
	f.service = fmt.Appendf(nil, `[Unit]
Description=MAAS hardware sync
Documentation=https://maas.io
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStartPre=/usr/bin/wget -q -O /usr/bin/maas-run-scripts %s/MAAS/maas-run-scripts
ExecStartPre=/bin/chmod 0755 /usr/bin/maas-run-scripts
ExecStart=/usr/bin/maas-run-scripts report-results --config %s
`, rack, hwSyncCredentials)
	every := "*-*-* *:00:00"
	if minutes < 60 {
		every = fmt.Sprintf("*-*-* *:00/%d:00", minutes)
	}
	// A fleet that was deployed at once does not call at once.
	f.timer = fmt.Appendf(nil, `[Unit]
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

// runsMAASsOwn reports whether a unit file does what MAAS's own does and nothing
// else: MAAS's text is another than ours, and a tenant's may look like it.
func runsMAASsOwn(unit []byte) bool {
	runs := 0
	for line := range strings.Lines(string(unit)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Join(strings.Fields(value), " ")
		switch {
		case !ok:
		case key == "ExecStart" && value == "/usr/bin/maas-run-scripts report-results --config "+hwSyncCredentials:
			runs++
		case key == "ExecStartPre" && fetchesScripts.MatchString(value):
		case strings.HasPrefix(key, "Exec"), key == "User", key == "Environment", key == "EnvironmentFile", strings.HasPrefix(key, "Root"), strings.HasPrefix(key, "Bind"):
			return false
		}
	}
	return runs == 1
}

var fetchesScripts = regexp.MustCompile(`^(/usr/bin/wget( -[A-Za-z]+| --[a-z-]+)* -O /usr/bin/maas-run-scripts( -[A-Za-z]+)* https?://[A-Za-z0-9.:\[\]-]+/MAAS/maas-run-scripts|/(usr/)?bin/chmod (0?755|\+x) /usr/bin/maas-run-scripts)$`)
