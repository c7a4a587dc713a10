package adminapi

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/expiry"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/opa"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/registry"
	"github.com/hostler/hostler/broker/relay"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/tenancy"
	"github.com/hostler/hostler/broker/terminals"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/taskcatalog"
)

// Config holds the dependencies of an API.
type Config struct {
	DB         *store.DB
	Queue      *taskqueue.Queue
	Trust      *trust.Authority
	Operators  *operators.Directory
	Tenants    *tenancy.Directory
	Secrets    secrets.Keeper
	Events     *outbox.Feed
	EventRelay string // the relay of events to NATS; empty: none
	Webhooks   *webhook.Sender
	Registries *registry.Client
	Sites      *maas.Sites
	Onboarding *onboarding.Chains
	Runs       *chain.Engine
	Agents     *agentrecords.Nodes
	Operations *operationrecords.Records
	Terminals  *terminals.Service
	Relay      *relay.Relay // holds this replica's terminal sessions
	Expiry     expiry.Sources
	Now        func() time.Time
	Tracer     trace.Tracer
	Log        *zap.Logger
	// Proxies are the addresses of proxies whose X-Forwarded-For is believed. None: the header is passed over.
	Proxies    []netip.Prefix
	Version    string       // of the broker
	AgentURL   string       // https://HOST:PORT where nodes reach this broker
	Unwritable func() error // the error of the last write to the store; nil: the write worked
	// EngineTrouble says why the policy engine could not be asked.
	EngineTrouble func() (opa.Trouble, bool)
	// Denied is called with the code of each operation that a policy denied when somebody asked for it; it
	// may be nil.
	Denied func(code string)
	// Observe is called with every answer; it may be nil.
	Observe func(route string, status int, took time.Duration)
}

// API serves the operator API.
type API struct {
	c       Config
	started time.Time
	spec    page // /openapi.json
	spec30  page // /openapi-3.0.json
	docs    page // /docs
	mux     *http.ServeMux
	leaving chan struct{} // closed when waiting requests must be answered at once
	leave   sync.Once

	walk        auditWalk
	credentials sync.Mutex // of sites and registries: serialises calls, so that one call's secrets are written before the next call's

	webhookTests webhookTests

	refusals  broker.Repeats[refusal] // keeps a token that is refused repeatedly from filling the audit log
	apart     budget                  // of refusals
	strangers broker.Repeats[string]  // keeps requests without a valid token from filling the log; by code
}

// page is made when it is first asked for, and kept: most brokers are never asked, and the
// descriptions took longer than all else that a broker does when it starts.
type page func() ([]byte, error)

// New makes an API from the table of routes.
func New(c Config) *API {
	a := &API{c: c, started: c.Now(), mux: http.NewServeMux(), leaving: make(chan struct{})}
	a.walk.leaving, a.walk.verify = a.leaving, func(ctx context.Context) (audit.Report, error) {
		bundle, _ := c.Trust.Bundle()
		return audit.Verify(ctx, c.DB, bundle)
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Hostler operator API", Version: c.Version,
				Description: "Every path needs a bearer token: an operator token, or the ID token of a person who signed in. " +
					"GET /api/v1/sign-in says without a token where people sign in. The roles of the platform are " +
					"platform_admin, operator and viewer; those of tenants are tenant_admin, project_admin, project_member and project_viewer. " +
					"Each includes the next of its kind.",
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
			},
			Security:       []map[string][]string{{"token": {}}},
			OnAddOperation: []huma.AddOpFunc{declareBodyErrors},
		},
		Formats:                      map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	h := humago.New(a.mux, config)
	for _, r := range routes {
		a.add(h, r)
	}
	a.spec = sync.OnceValues(func() ([]byte, error) { return described(h.OpenAPI()) })
	a.spec30 = sync.OnceValues(func() ([]byte, error) { return downgraded(h.OpenAPI()) })
	a.docs = sync.OnceValues(func() ([]byte, error) { return renderDocs(routes) })
	return a
}

// schemaName keeps the catalog's types, which nodes report, apart from the API's resources of the
// same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[taskcatalog.Task]().PkgPath() {
		return "Catalog" + name
	}
	return name
}

// Leave answers the waiting requests with the present state, so that the server can shut down.
// Requests that are at work continue.
func (a *API) Leave() { a.leave.Do(func() { close(a.leaving) }) }

// Handler serves the operator API, its description and its documentation. Serve it inside
// bodies.InTime and bodies.OnlyText.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(api.TenantPrefix+"/", a.withRootsHeader(a.guard(a.mux)))
	bodies.Get(mux, api.SignInPath, http.HandlerFunc(a.signIn))
	bodies.Get(mux, "/openapi.json", a.serve("application/openapi+json", a.spec))
	bodies.Get(mux, "/openapi-3.0.json", a.serve("application/openapi+json", a.spec30))
	bodies.Get(mux, "/docs", a.serve("text/html; charset=utf-8", a.docs))
	return mux
}

func (a *API) serve(contentType string, made page) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		secureHeaders(w.Header())
		body, err := made()
		if err != nil {
			a.c.Log.Error("cannot make a page of the API's documentation", zap.Error(err))
			writeProblem(w, problemOf(err))
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}

// secureHeaders sets headers that keep a browser from misinterpreting an answer.
func secureHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Strict-Transport-Security", "max-age=31536000")
}
