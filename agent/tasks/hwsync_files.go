package tasks

import (
	"fmt"
	"net/url"
	"regexp"

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

var (
	oauthPart  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	rackHost   = regexp.MustCompile(`^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$`)
	statusPath = regexp.MustCompile(`^/MAAS/metadata/status/[A-Za-z0-9]{1,64}$`)
)

// renderHWSync makes the files from a machine's token. Code
// maas_machine_token_invalid; no error holds a part of the token.
func renderHWSync(secret []byte, minutes int) (f hwSyncFiles, err error) {
	refuse := func(why string) (hwSyncFiles, error) {
		return hwSyncFiles{}, taskcatalog.Errorf("maas_machine_token_invalid", "cannot use the machine's MAAS token: %s (store it again at the broker)", why)
	}
	var token taskcatalog.MAASMachineToken
	if taskcatalog.DecodeStrict(secret, &token) != nil {
		return refuse("it is not the JSON of endpoint, consumer_key, token_key and token_secret")
	}
	endpoint, err := url.Parse(token.Endpoint)
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || !rackHost.MatchString(endpoint.Host) ||
		!statusPath.MatchString(endpoint.Path) || endpoint.RawQuery != "" || endpoint.User != nil || endpoint.Fragment != "" {
		return refuse("its endpoint is not http(s)://RACK:PORT/MAAS/metadata/status/SYSTEM_ID")
	}
	for _, part := range []string{token.ConsumerKey, token.TokenKey, token.TokenSecret} {
		if !oauthPart.MatchString(part) {
			return refuse("one of its keys is empty or has other characters than letters, digits, _ and -")
		}
	}
	if minutes == 0 {
		minutes = defaultHWSyncMinutes
	}
	f.credentials, err = yaml.Marshal(map[string]any{"reporting": map[string]any{"maas": map[string]string{
		"consumer_key": token.ConsumerKey, "endpoint": token.Endpoint, "token_key": token.TokenKey, "token_secret": token.TokenSecret,
	}}})
	if err != nil {
		return refuse("it cannot be written as YAML")
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
ExecStartPre=/usr/bin/wget -q -O /usr/bin/maas-run-scripts %s://%s/MAAS/maas-run-scripts
ExecStartPre=/bin/chmod 0755 /usr/bin/maas-run-scripts
ExecStart=/usr/bin/maas-run-scripts report-results --config %s
`, endpoint.Scheme, endpoint.Host, hwSyncCredentials)
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
