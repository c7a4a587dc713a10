package api

// SignInPath is where the broker tells anybody how people sign in. It needs no token.
const SignInPath = TenantPrefix + "/sign-in"

// SignIn says where and how people sign in by OpenID Connect.
type SignIn struct {
	Issuer                      string   `json:"issuer"`
	ClientID                    string   `json:"client_id"`
	Scopes                      []string `json:"scopes"`
	DeviceAuthorizationEndpoint string   `json:"device_authorization_endpoint"`
	TokenEndpoint               string   `json:"token_endpoint"`
	CA                          string   `json:"ca"` // PEM of the provider's roots; empty: the machine's own
}
