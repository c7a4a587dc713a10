package taskcatalog

import (
	"net/url"
	"time"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var nodeHWSyncReseed = define[HWSyncReseedParams, HWSyncReseedResult](Type{
	Name: "node.hw_sync_reseed", Version: 1,
	Summary: "restore the credentials of MAAS's hardware sync, start it, and prove that it ran",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 15 * time.Minute,
	Example: `{"interval_minutes": 15}`,
})

// CredentialMAASMachineToken is the type of credential that a reseed mints: a MAASMachineToken as
// JSON.
const CredentialMAASMachineToken = "maas_machine_token"

// MAASMachineToken is a machine's own OAuth token for MAAS's metadata service. The token is a
// secret: it is minted for one task and never part of the params.
type MAASMachineToken struct {
	Endpoint    string `json:"endpoint"` // http://RACK:5248/MAAS/metadata/status/SYSTEM_ID
	ConsumerKey string `json:"consumer_key"`
	TokenKey    string `json:"token_key"`
	TokenSecret string `json:"token_secret"`
}

var (
	oauthPart  = lazyregexp.New(`^[A-Za-z0-9_-]{1,128}$`)
	rackHost   = lazyregexp.New(`^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$`)
	statusPath = lazyregexp.New(`^/MAAS/metadata/status/[A-Za-z0-9]{1,64}$`)
)

// CodeMAASTokenInvalid is the code for an invalid MAASMachineToken.
const CodeMAASTokenInvalid Code = "maas_machine_token_invalid"

// Rack checks the token and returns the scheme and host of MAAS's rack controller. No error
// contains a part of the token. Code: maas_machine_token_invalid.
func (t MAASMachineToken) Rack() (*url.URL, error) {
	u, err := url.Parse(t.Endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !rackHost.MatchString(u.Host) ||
		!statusPath.MatchString(u.Path) || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return nil,
			Errorf(CodeMAASTokenInvalid,
				"cannot use the machine's MAAS token: its endpoint is not http(s)://RACK:PORT/MAAS/metadata/status/SYSTEM_ID (as in /etc/maas/maas-machine-creds.yml)")
	}
	for _, part := range []string{t.ConsumerKey, t.TokenKey, t.TokenSecret} {
		if !oauthPart.MatchString(part) {
			return nil,
				Errorf(CodeMAASTokenInvalid,
					"cannot use the machine's MAAS token: one of its keys is empty or has other characters than letters, digits, _ and -")
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// HWSyncReseedParams configures the installation of hardware sync.
type HWSyncReseedParams struct {
	// IntervalMinutes is the time between two syncs. Zero means 15, MAAS's own
	// default.
	IntervalMinutes int `json:"interval_minutes,omitempty" jsonschema:"enum=0,enum=5,enum=10,enum=15,enum=20,enum=30,enum=60"`
	// Reinstall rewrites an existing service and timer.
	Reinstall bool `json:"reinstall,omitempty"`
}

// HWSyncReseedResult reports the written files and the sync run that proves them.
type HWSyncReseedResult struct {
	Credentials string `json:"credentials"` // written or kept
	Service     string `json:"service"`     // written or kept
	Timer       string `json:"timer"`       // written or kept
	TimerActive bool   `json:"timer_active"`
	// SyncStartedAt and SyncFinishedAt belong to the run of the service that this task started.
	SyncStartedAt  time.Time `json:"sync_started_at,omitzero"`
	SyncFinishedAt time.Time `json:"sync_finished_at,omitzero"`
	ExitStatus     int       `json:"exit_status"`
}
