package api

import "time"

// SiteCredentials are a site's secrets. The broker keeps them outside the database and never shows
// them again. Omitted secrets stay as they are.
type SiteCredentials struct {
	MAASToken      string `json:"maas_token,omitempty" maxLength:"300" doc:"API key of a MAAS administrator; checked at the site's address before it is stored"`
	APIBaseURL     string `json:"api_base_url,omitempty" maxLength:"500" doc:"new address of the site; only with a token, which is checked there"`
	CACert         string `json:"ca_cert,omitempty" maxLength:"65536" doc:"new ca_cert of the site; only with a token, which is checked with it"`
	PowerUser      string `json:"power_user,omitempty" maxLength:"256" doc:"login name of BMCs; only with power_password"`
	PowerPassword  string `json:"power_password,omitempty" maxLength:"256"`
	DeployPassword string `json:"deploy_password,omitempty" maxLength:"256" doc:"password of the deploy user; left out: no password"`
	Reason         string `json:"reason,omitempty" maxLength:"500"`
}

// SiteCredentialsSet names the secrets that the broker keeps, never their values.
type SiteCredentialsSet struct {
	Site        Site     `json:"site"`
	Set         []string `json:"set" doc:"maas_token, power, deploy_password, deploy_ssh_key"`
	MAASVersion string   `json:"maas_version,omitempty"`
	MAASUser    string   `json:"maas_user,omitempty" doc:"MAAS user who owns the token"`
}

// SiteProbe is the result of the checks of a site's requirements.
type SiteProbe struct {
	Site        string      `json:"site"`
	At          time.Time   `json:"at"`
	OK          bool        `json:"ok" doc:"no check prevents work; there may be warnings"`
	MAASVersion string      `json:"maas_version,omitempty"`
	Checks      []SiteCheck `json:"checks"`
}

// SiteCheck is one line of a probe.
type SiteCheck struct {
	Check    string `json:"check"`
	Status   string `json:"status" enum:"ok,warn,fail"`
	Detail   string `json:"detail"`
	NextStep string `json:"next_step,omitempty"`
}
