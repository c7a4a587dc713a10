package adminapi

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/taskcatalog"
)

// signIn tells anybody where people sign in: whoever asks has no token yet. The answer costs one read
// of the provider an hour, and few when the provider is away.
func (a *API) signIn(w http.ResponseWriter, r *http.Request) {
	if !strangers.Stay(r.Context()) { // whoever shows a credential here is as strange as who shows none: nobody checks it
		strangers.Refuse(w)
		return
	}
	secureHeaders(w.Header())
	found, err := a.c.Operators.SignIn(r.Context())
	if err != nil {
		p := problemOf(err)
		if more, due := a.strangers.Due(p.Code, "", a.c.Now()); due && p.Status >= http.StatusInternalServerError {
			a.c.Log.Warn("nobody can sign in", zap.String("code", p.Code), zap.Error(err), zap.Int("more_since_the_last_line", more))
		}
		writeProblem(w, p)
		return
	}
	body, err := taskcatalog.Encode(api.SignIn{
		Issuer: found.Issuer, ClientID: found.ClientID, Scopes: found.Scopes, DeviceAuthorizationEndpoint: found.DeviceURL,
		TokenEndpoint: found.TokenURL, CA: found.CA,
	})
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
